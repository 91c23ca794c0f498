"""Many bare subscribers in one process, which count and drop events.

It speaks gRPC on generated messages without the package's client, so that it measures the emulator.
"""

from __future__ import annotations

import asyncio
import io
import json
import resource
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import fastavro
import grpc.aio

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

STREAMS_A_CONNECTION = 250
MOST = 100
TIMED = 50
"""Of so many subscribers, one decodes events to see how old they are."""


class Subscribers:
    """Streams on some topics, over several connections.

    :param start: name of the preset of all of them.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        headers: dict[str, str],
        topics: list[str],
        start: str,
    ) -> None:
        self.delivered = 0
        self.responses = 0
        self.ages: list[float] = []
        self._endpoint = endpoint
        self._headers = tuple(headers.items())
        self._topics = topics
        self._start = start
        self._schema: Any = None

    async def run(self, count: int, until: int) -> None:
        """Subscribe with each, until each has had so many events."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [
            grpc.aio.insecure_channel(self._endpoint, options)
            for _ in range(0, count, STREAMS_A_CONNECTION)
        ]
        await self._learn(channels[0])
        try:
            await asyncio.gather(
                *(
                    self._subscribe(channels[number % len(channels)], number, until)
                    for number in range(count)
                )
            )
        finally:
            await asyncio.gather(*(channel.close() for channel in channels))

    async def _learn(self, channel: grpc.aio.Channel) -> None:
        topic = channel.unary_unary(
            "/eventbus.v1.PubSub/GetTopic",
            pb.TopicRequest.SerializeToString,
            pb.TopicInfo.FromString,
        )
        schema = channel.unary_unary(
            "/eventbus.v1.PubSub/GetSchema",
            pb.SchemaRequest.SerializeToString,
            pb.SchemaInfo.FromString,
        )
        info = await topic(pb.TopicRequest(topic_name=self._topics[0]), metadata=self._headers)
        found = await schema(pb.SchemaRequest(schema_id=info.schema_id), metadata=self._headers)
        self._schema = fastavro.parse_schema(json.loads(found.schema_json))

    async def _subscribe(self, channel: grpc.aio.Channel, number: int, until: int) -> None:
        subscribe: Any = channel.stream_stream("/eventbus.v1.PubSub/Subscribe")
        call = subscribe(metadata=self._headers)
        topic = self._topics[number % len(self._topics)]
        first = pb.FetchRequest(topic_name=topic, replay_preset=self._start, num_requested=MOST)
        await call.write(first.SerializeToString())
        had = 0
        while had < until:
            raw = await call.read()
            if not isinstance(raw, bytes):
                raise SystemExit(f"stream {number} ended: {await call.code()}")
            now = time.time()
            response = pb.FetchResponse.FromString(raw)
            had += len(response.events)
            self.delivered += len(response.events)
            self.responses += 1
            if number % TIMED == 0:
                self.ages += [now - self._sent_at(one.event.payload) for one in response.events]
            if response.pending_num_requested < MOST // 2 and had < until:
                more = pb.FetchRequest(num_requested=MOST - response.pending_num_requested)
                await call.write(more.SerializeToString())
        call.cancel()

    def _sent_at(self, payload: bytes) -> float:
        return float(fastavro.schemaless_reader(io.BytesIO(payload), self._schema)["Sent_At__c"])


def main(arguments: Sequence[str]) -> None:
    asked = json.loads(arguments[0])
    count, until = asked.pop("count"), asked.pop("until")
    subscribers = Subscribers(**asked)
    began = time.perf_counter()
    asyncio.run(subscribers.run(count, until))
    ended, seconds = time.time(), time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    ages = subscribers.ages
    found = {
        "delivered": subscribers.delivered,
        "responses": subscribers.responses,
        "seconds": seconds,
        "ended": ended,
        "cpu": used.ru_utime + used.ru_stime,
        "p50": statistics.median(ages) if ages else 0.0,
        "p99": statistics.quantiles(ages, n=100)[-1] if len(ages) > 1 else 0.0,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
