// Drives `cometd-java-client` as Salesforce's EMP-Connector does: orders on standard input, what the
// client says on standard output, a line of JSON each.

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.cometd.bayeux.Channel;
import org.cometd.bayeux.Message;
import org.cometd.bayeux.client.ClientSession;
import org.cometd.bayeux.client.ClientSessionChannel;
import org.cometd.client.BayeuxClient;
import org.cometd.client.transport.LongPollingTransport;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.api.Request;
import org.eclipse.jetty.util.ajax.JSON;
import org.eclipse.jetty.util.ssl.SslContextFactory;

public class EmpClient {
    private static final long SECONDS = 20;
    // It waits longer than the service takes if no poll is open at that moment.
    private static final long LEAVE_MILLISECONDS = 2_000;
    private static final int MAX_NETWORK_DELAY = 15_000;
    private static final int MAX_BUFFER_SIZE = 10 * 1024 * 1024;
    private static final String VERSION = "43.0";

    private final Map<String, Object> replay = new ConcurrentHashMap<>();
    private final Set<String> topics = ConcurrentHashMap.newKeySet();
    // Two connections at once would fight for the session, so one thread makes them all.
    private final ExecutorService connecting = Executors.newSingleThreadExecutor();
    private String host;
    private String caFile;
    private Iterator<Object> tokens;
    private volatile HttpClient http;
    private volatile BayeuxClient client;
    private volatile boolean supportsReplay;

    public static void main(String[] arguments) throws Exception {
        EmpClient here = new EmpClient();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            @SuppressWarnings("unchecked")
            Map<String, Object> given = (Map<String, Object>) JSON.parse(line);
            Object order = given.get("order");
            try {
                say("done", "order", order, "result", here.obey((String) order, given));
            } catch (ExecutionException refused) {
                say("refused", "order", order, "why", String.valueOf(refused.getCause().getMessage()));
            }
        }
        here.stop();
        System.exit(0);
    }

    private Object obey(String order, Map<String, Object> given) throws Exception {
        String topic = (String) given.get("topic");
        switch (order) {
            case "open":
                host = (String) given.get("host");
                caFile = (String) given.get("ca_file");
                tokens = Arrays.asList((Object[]) given.get("tokens")).iterator();
                return connect((String) tokens.next()).get(SECONDS, TimeUnit.SECONDS);
            case "subscribe":
                replay.put(withoutFilter(topic), given.get("replay"));
                topics.add(topic);
                return subscribe(client, topic).get(SECONDS, TimeUnit.SECONDS);
            case "unsubscribe":
                topics.remove(topic);
                replay.remove(withoutFilter(topic));
                client.getChannel(topic).unsubscribe();
                return null;
            case "replay_ids":
                return new TreeMap<>(replay);
            case "stop":
                stop();
                return null;
            default:
                throw new IllegalArgumentException(order);
        }
    }

    private CompletableFuture<Object> connect(String token) throws Exception {
        SslContextFactory trust = new SslContextFactory();
        trust.setSslContext(trusting(caFile));
        http = new HttpClient(trust);
        http.start();
        Map<String, Object> options = new HashMap<>();
        options.put("maxNetworkDelay", MAX_NETWORK_DELAY);
        options.put("maxBufferSize", MAX_BUFFER_SIZE);
        LongPollingTransport transport = new LongPollingTransport(options, http) {
            @Override
            protected void customize(Request request) {
                request.header("Authorization", token); // without a scheme, as EMP-Connector sends it
            }
        };
        BayeuxClient made = new BayeuxClient(host + "/cometd/" + VERSION, transport);
        made.addExtension(new Replay());
        for (String meta : new String[] {Channel.META_CONNECT, Channel.META_HANDSHAKE}) {
            made.getChannel(meta).addListener(
                (ClientSessionChannel.MessageListener) (channel, message) -> check(made, message));
        }
        client = made;
        CompletableFuture<Object> opened = new CompletableFuture<>();
        made.handshake((channel, message) -> {
            if (message.isSuccessful()) {
                topics.forEach(topic -> subscribe(made, topic));
                opened.complete(null);
            } else {
                opened.completeExceptionally(new Exception(reason(message)));
            }
        });
        return opened;
    }

    // After a 401 or 403 of the session: end it, and open another with the next token.
    private void check(BayeuxClient of, Message message) {
        String why = reason(message);
        if (message.isSuccessful() || of != client || !tokens.hasNext()
                || !(why.startsWith("401") || why.startsWith("403"))) {
            return;
        }
        say("lost", "why", why);
        client = null;
        connecting.submit(() -> {
            of.disconnect();
            http.stop();
            return connect((String) tokens.next());
        });
    }

    private CompletableFuture<Object> subscribe(BayeuxClient of, String topic) {
        CompletableFuture<Object> done = new CompletableFuture<>();
        of.getChannel(topic).subscribe(
            (channel, message) -> say("event", "topic", message.getChannel(), "data", message.getDataAsMap()),
            (channel, message) -> {
                if (message.isSuccessful()) {
                    say("subscribed", "topic", topic, "from", replay.get(withoutFilter(topic)));
                    done.complete(null);
                } else {
                    done.completeExceptionally(new Exception(reason(message)));
                }
            });
        return done;
    }

    private void stop() throws Exception {
        if (client != null) {
            client.disconnect(LEAVE_MILLISECONDS);
            client = null;
            http.stop();
        }
    }

    // The whole map goes with each subscription, if the service has said that it knows the extension.
    private class Replay extends ClientSession.Extension.Adapter {
        @Override
        public boolean sendMeta(ClientSession session, Message.Mutable message) {
            if (message.getChannel().equals(Channel.META_HANDSHAKE)) {
                message.getExt(true).put("replay", true);
            } else if (message.getChannel().equals(Channel.META_SUBSCRIBE) && supportsReplay) {
                message.getExt(true).put("replay", replay);
            }
            return true;
        }

        @Override
        public boolean rcvMeta(ClientSession session, Message.Mutable message) {
            if (message.getChannel().equals(Channel.META_HANDSHAKE)) {
                Map<String, Object> ext = message.getExt();
                supportsReplay = ext != null && Boolean.TRUE.equals(ext.get("replay"));
            }
            return true;
        }

        @Override
        public boolean rcv(ClientSession session, Message.Mutable message) {
            Map<String, Object> data = message.getDataAsMap();
            Object event = data == null ? null : data.get("event");
            if (event instanceof Map && ((Map<?, ?>) event).get("replayId") instanceof Long) {
                replay.put(withoutFilter(message.getChannel()), ((Map<?, ?>) event).get("replayId"));
            }
            return true;
        }
    }

    private static String reason(Message message) {
        Object sfdc = message.getExt() == null ? null : message.getExt().get("sfdc");
        Object why = sfdc instanceof Map ? ((Map<?, ?>) sfdc).get("failureReason") : null;
        return String.valueOf(why != null ? why : message.getOrDefault("error", message.get("failure")));
    }

    private static String withoutFilter(String topic) {
        return topic.split("\\?")[0];
    }

    private static SSLContext trusting(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream pem = new FileInputStream(file)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    private static synchronized void say(String what, Object... more) {
        Map<String, Object> said = new TreeMap<>();
        said.put("said", what);
        for (int at = 0; at < more.length; at += 2) {
            said.put((String) more[at], more[at + 1]);
        }
        System.out.println(JSON.toString(said));
    }
}
