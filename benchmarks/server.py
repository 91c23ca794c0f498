"""A Pub/Sub API with hardly any cost in its own process, so that a benchmark measures the client.

Its events are serialised once, beforehand; a response is a join of bytes. It counts credit as the
service does and nothing else: no login, no retention, no end of the bus.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from string import ascii_letters
from typing import TYPE_CHECKING, Any

import fastavro
import grpc
import grpc.aio

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from airflow_provider_sfevents.emulator.network.certificates import Certificates

TOPIC = "/event/Bench__e"
SCHEMA = (
    '{"type": "record", "name": "Bench__e", "fields": [{"name": "CreatedDate", "type": "long"},'
    ' {"name": "CreatedById", "type": "string"}, {"name": "Text__c", "type": ["null", "string"]}]}'
)
TEXT_CHARACTERS = 220  # makes a payload as large as one with a dozen fields
TOKEN = Secret("00D000000000001!bench")
EVENTS = 6_400  # different ones; then they come round again
FULL = 100


class Spread:
    """Spread of event counts: 100 events over a time, in responses of 1 to 16.

    They come one round trip after their request.
    """

    def __init__(self, round_trip: float, span: float) -> None:
        self._round_trip = round_trip
        self._span = span
        self._sizes = random.Random(7)  # noqa: S311 - the same sizes in each run
        self._credit = 0
        self.requests = 0
        self._next_at = 0.0
        self._half_closed = False
        self._more = asyncio.Event()

    def ask(self, events: int) -> None:
        self.requests += 1
        asyncio.get_running_loop().call_later(self._round_trip, self._add, events)

    def half_close(self) -> None:
        self._half_closed = True
        self._more.set()

    async def size(self) -> int:
        """Number of events of the next response; None when the client has half-closed."""
        loop = asyncio.get_running_loop()
        while not self._credit and not self._half_closed:
            self._more.clear()
            await self._more.wait()
            self._next_at = loop.time()
        if self._half_closed:
            return 0
        size = min(self._sizes.randint(1, 16), self._credit)
        # On a timetable, so that late wake-ups do not add up; it begins anew after a time without
        # credit.
        self._next_at += size * self._span / FULL
        await asyncio.sleep(self._next_at - loop.time())
        self._credit -= size
        return size

    @property
    def credit(self) -> int:
        return self._credit

    def _add(self, events: int) -> None:
        self._credit = min(100, self._credit + events)
        self._more.set()


class Bus:
    """The three methods a fetch needs, bytes in and out."""

    def __init__(self, round_trip: float, span: float, *, small: bool) -> None:
        self._round_trip = round_trip
        self._span = span
        self._small = small
        self._events = [_event(number) for number in range(EVENTS)]
        self._full = [
            b"".join(self._events[at : at + FULL]) + _rest(at + FULL, 0)
            for at in range(0, EVENTS, FULL)
        ]

    async def subscribe(self, requests: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
        serve = self._spread if self._round_trip or self._small else self._at_once
        async for response in serve(requests):
            yield response

    async def _at_once(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """A full response for each 100 asked for."""
        credit = at = 0
        async for request in requests:
            credit += pb2.FetchRequest.FromString(request).num_requested
            while credit >= FULL:
                credit -= FULL
                yield self._full[at % len(self._full)]
                at += 1

    async def _spread(self, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        spread = Spread(self._round_trip, self._span)
        reading = asyncio.ensure_future(_read(requests, spread))
        at = 0
        while size := await spread.size():
            chosen = [self._events[number % EVENTS] for number in range(at, at + size)]
            at += size
            yield b"".join(chosen) + _rest(at, spread.credit, spread.requests)
        await reading

    async def topic(self, _: bytes, __: Any) -> bytes:
        info = pb2.TopicInfo(topic_name=TOPIC, can_subscribe=True, schema_id="S")
        return info.SerializeToString()

    async def schema(self, _: bytes, __: Any) -> bytes:
        return pb2.SchemaInfo(schema_id="S", schema_json=SCHEMA).SerializeToString()


async def _read(requests: AsyncIterator[bytes], spread: Spread) -> None:
    async for request in requests:
        spread.ask(pb2.FetchRequest.FromString(request).num_requested)
    spread.half_close()


def _replay_id(number: int) -> bytes:
    return number.to_bytes(8, "big") + b"\0\0"


def _event(number: int) -> bytes:
    text = "".join(random.Random(number).choices(ascii_letters, k=TEXT_CHARACTERS))  # noqa: S311
    fields = {"CreatedDate": number, "CreatedById": "005000000000001AAA", "Text__c": text}
    payload = BytesIO()
    fastavro.schemaless_writer(payload, json.loads(SCHEMA), fields)
    event = pb2.ProducerEvent(
        id=f"00000000-0000-0000-0000-{number:012}", schema_id="S", payload=payload.getvalue()
    )
    consumed = pb2.ConsumerEvent(event=event, replay_id=_replay_id(number))
    return pb2.FetchResponse(events=[consumed]).SerializeToString()


def _rest(position: int, pending: int, requests: int = 0) -> bytes:
    """The end of a response, behind its events; its rpc id is the number of requests so far."""
    return pb2.FetchResponse(
        latest_replay_id=_replay_id(position), rpc_id=str(requests), pending_num_requested=pending
    ).SerializeToString()


async def _serve(round_trip: float, span: float, *, small: bool, server_file: str) -> None:
    bus = Bus(round_trip, span, small=small)
    handlers: dict[str, Any] = {
        "Subscribe": grpc.stream_stream_rpc_method_handler(bus.subscribe),
        "GetTopic": grpc.unary_unary_rpc_method_handler(bus.topic),
        "GetSchema": grpc.unary_unary_rpc_method_handler(bus.schema),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("eventbus.v1.PubSub", handlers)]
    )
    port = _port(server, server_file)
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


def _port(server: grpc.aio.Server, server_file: str) -> int:
    """Port of the server: with TLS by the key and chain of a file, without one in plaintext."""
    if not server_file:
        return server.add_insecure_port("127.0.0.1:0")
    pem = Path(server_file).read_bytes()
    return server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(pem, pem)]))


@contextmanager
def running(
    *,
    round_trip: float = 0.0,
    span: float = 0.0,
    small: bool = False,
    certificates: Certificates | None = None,
) -> Iterator[Settings]:
    """Run a server in another process, and yield the settings of a client.

    Without a round trip, every 100 events come in one response, at once.

    :param small: they come in responses of 1 to 16.
    :param certificates: for TLS.
    """
    command = [sys.executable, __file__, "--round-trip", str(round_trip), "--span", str(span)]
    command += ["--small"] if small else []
    command += ["--server-file", str(certificates.server_file)] if certificates else []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - for the type checker
            yield Settings(
                login=SessionToken(token=TOKEN, instance_url="http://localhost"),
                endpoint=f"127.0.0.1:{int(process.stdout.readline())}",
                ca_file=str(certificates.ca_file) if certificates else "",
                plaintext=certificates is None,
            )
        finally:
            process.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--round-trip", type=float, default=0.0)
    parser.add_argument("--span", type=float, default=0.0)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--server-file", default="")
    asyncio.run(_serve(**vars(parser.parse_args())))
