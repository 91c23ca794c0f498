// Drives `salesforce-pubsub-api-client`: orders on standard input, what the client says on standard output, a line of JSON each.
import readline from 'node:readline';
import PubSubApiClient from 'salesforce-pubsub-api-client';

const told = (key, value) => (typeof value === 'bigint' ? value.toString() : value);
const say = (what) => process.stdout.write(`${JSON.stringify(what, told)}\n`);
const log = (...words) => process.stderr.write(`${words.join(' ')}\n`);
const logger = { debug: () => {}, info: log, warn: log, error: log };

// An error and those that caused it: message, gRPC status, Salesforce's error code.
function why(error) {
    const causes = [];
    for (let one = error; one; one = one.cause) {
        causes.push(one.message ?? JSON.stringify(one));
    }
    return causes.join(' <- ');
}

function seen(type, info, data, said = type) {
    const at = {
        topic: info.topicName,
        received: info.receivedEventCount,
        requested: info.requestedEventCount,
        last: info.lastReplayId
    };
    if (type === 'error') {
        const code = data.metadata?.get('error-code')[0] ?? '';
        say({ said, ...at, why: why(data), status: data.code ?? null, code });
    } else {
        say({ said, ...at, data: data ?? null });
    }
}

let client;
const onEvent = (info, type, data) => seen(type, info, data);
const onPublish = (info, type, data) =>
    seen(type, info, data, type === 'error' ? 'publishError' : type);

const orders = {
    connect: async ({ config }) => {
        client = new PubSubApiClient(config, logger);
        await client.connect();
    },
    subscribe: ({ topic, count = null }) => client.subscribe(topic, onEvent, count),
    subscribeFromEarliest: ({ topic, count = null }) =>
        client.subscribeFromEarliestEvent(topic, onEvent, count),
    subscribeFromReplayId: ({ topic, count = null, replayId }) =>
        client.subscribeFromReplayId(topic, onEvent, count, replayId),
    requestMore: ({ topic, count }) => client.requestAdditionalEvents(topic, count),
    // Receives so many events; returns the seconds between the first and the last.
    measure: ({ topic, count }) =>
        new Promise((resolve) => {
            let received = 0;
            let began;
            client.subscribeFromEarliestEvent(topic, (info, type) => {
                if (type !== 'event') return;
                received += 1;
                if (received === 1) began = [performance.now(), process.cpuUsage()];
                if (received === count) {
                    const used = process.cpuUsage(began[1]);
                    const seconds = (performance.now() - began[0]) / 1000;
                    resolve({ seconds, cpu: (used.user + used.system) / 1e6 });
                }
            });
        }),
    subscribeManaged: ({ subscription, count = null }) =>
        client.subscribeWithManagedSubscription(subscription, onEvent, count),
    requestMoreManaged: ({ subscription, count }) =>
        client.requestAdditionalManagedEvents(subscription, count),
    commit: ({ subscription, replayId }) => client.commitReplayId(subscription, replayId),
    publish: ({ topic, payload, key }) => client.publish(topic, payload, key),
    publishBatch: ({ topic, events }) => client.publishBatch(topic, events, onPublish)
};

for await (const line of readline.createInterface({ input: process.stdin })) {
    const { order, ...given } = JSON.parse(line);
    try {
        say({ said: 'done', order, result: await orders[order](given) });
    } catch (error) {
        say({ said: 'refused', order, why: why(error) });
    }
}
process.exit(0);
