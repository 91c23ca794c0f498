"""Connections fail on order, as seen by a gRPC client."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import aio

from airflow_provider_sfevents.emulator import Emulator, EmulatorError, Knobs
from tests.integration.emulator.breaking import (
    TOPIC,
    cut_off,
    knock,
    publish,
    served,
    to_the_end,
    turned_away,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Talk = Callable[..., Any]

CUTS = {
    # The other text comes if the client writes before it reads.
    "reset": ("UNAVAILABLE", "Connection reset by peer|Broken pipe"),
    "goaway": ("UNAVAILABLE", "GOAWAY received; Error code: 0; Debug Text: going away"),
    "rst_stream": ("INTERNAL", "Received RST_STREAM with error code 0"),
}


@pytest.fixture(params=[False, True], ids=["plaintext", "tls"])
def bus(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    with Emulator(tls=request.param, knobs=Knobs(half_close_seconds=0.01)) as emulator:
        emulator.define_event("Order__e", {"Number__c": "Text"})
        yield emulator
        emulator.check()


@pytest.mark.parametrize("how", CUTS)
def test_open_connections_are_cut(bus: Emulator, talk: Talk, how: str) -> None:
    """A cut ends an open stream, and the next one is served on the same port."""
    published = publish(bus, 5)

    async def scenario(client: Any) -> Any:
        stream = await client.subscribe(TOPIC)
        await stream.take(5)
        await asyncio.to_thread(bus.drop_connections, how)
        refused = await client.refused(stream.read())
        again = await client.take_again(TOPIC, 5)
        return refused, [event.replay_id for event in again]

    refused, again = talk(bus, scenario)
    status, text = CUTS[how]
    assert (refused.status, refused.trailers) == (status, {})
    assert re.search(text, refused.message)
    assert again == published
    bus.wait_open_streams(0)


def test_streams_are_counted_by_connection(bus: Emulator, talk: Talk) -> None:
    """Streams are counted per connection; answered calls are not."""

    async def scenario(client: Any) -> list[int]:
        streams = [await client.subscribe(TOPIC) for _ in range(3)]
        for stream in streams:
            await stream.take(1)
        await client.get_topic(TOPIC)
        return await asyncio.to_thread(lambda: bus.streams_by_connection)

    publish(bus, 1)
    assert talk(bus, scenario) == [3]


@pytest.mark.parametrize("how", CUTS)
def test_a_stream_is_cut_after_so_many_events(bus: Emulator, talk: Talk, how: str) -> None:
    """Events before the cut are delivered, none after it."""
    published = publish(bus, 50)
    bus.fail_next("Subscribe", how=how, after=23)

    async def scenario(client: Any) -> Any:
        taken, refused = await cut_off(client)
        return taken, refused, len(await client.take_again(TOPIC, 50))

    taken, refused, later = talk(bus, scenario)
    assert taken == published[: len(taken)]
    assert (refused.status, later) == (CUTS[how][0], 50)
    assert [one.delivered for one in bus.subscriptions] == [23, 50]
    assert bus.faults() == ()


def test_only_the_stream_that_was_meant_gets_an_rst(plain: Emulator, talk: Talk) -> None:
    """An RST_STREAM for one stream leaves the connection's other streams open."""
    publish(plain, 3)

    async def scenario(client: Any) -> Any:
        other = await client.subscribe(TOPIC)
        await other.take(3)
        plain.fail_next("Subscribe", how="rst_stream", after=2)
        _, refused = await cut_off(client)
        await asyncio.to_thread(publish, plain, 2)
        return refused.status, len(await other.take(2))

    assert talk(plain, scenario) == ("INTERNAL", 2)


@pytest.mark.parametrize("how", CUTS)
def test_a_unary_call_is_cut(plain: Emulator, talk: Talk, how: str) -> None:
    """A cut replaces the answer, and the next call is answered."""
    plain.fail_next("GetTopic", how=how)

    async def scenario(client: Any) -> Any:
        refused = await client.refused(client.get_topic(TOPIC))
        return refused.status, (await served(client)).topic_name

    assert talk(plain, scenario) == (CUTS[how][0], TOPIC)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("INTERNAL_ERROR", "INTERNAL"),
        ("REFUSED_STREAM", "UNAVAILABLE"),
        ("CANCEL", "CANCELLED"),
        ("ENHANCE_YOUR_CALM", "RESOURCE_EXHAUSTED"),
    ],
)
def test_the_error_of_an_rst_stream_is_a_knob(talk: Talk, error: Any, status: str) -> None:
    """Each HTTP/2 error has its gRPC status in the client."""
    with Emulator(knobs=Knobs(rst_stream_error=error)) as bus:
        bus.define_event("Order__e", {})
        bus.fail_next("GetTopic", how="rst_stream")

        async def scenario(client: Any) -> Any:
            return (await client.refused(client.get_topic(TOPIC))).status

        assert talk(bus, scenario) == status


def test_streams_end_politely(plain: Emulator, talk: Talk) -> None:
    """`end` ends every Subscribe stream at once with OK, without trailers."""
    publish(plain, 2)

    async def scenario(client: Any) -> Any:
        stream = await client.subscribe(TOPIC)
        await stream.take(2)
        await asyncio.to_thread(plain.drop_connections, "end")
        assert await stream.read() is aio.EOF
        return await stream.call.code(), await stream.call.trailing_metadata()

    code, trailers = talk(plain, scenario)
    assert code is grpc.StatusCode.OK
    assert "error-code" not in dict(trailers)
    assert plain.subscriptions[0].ended == "OK"


def test_nothing_passes_while_frozen(bus: Emulator, talk: Talk) -> None:
    """A freeze stops all bytes, and after the thaw all streams continue without loss."""
    published = publish(bus, 2)

    async def scenario(client: Any) -> Any:
        stream = await client.subscribe(TOPIC)
        await stream.take(2)
        await asyncio.to_thread(bus.freeze)
        await asyncio.to_thread(publish, bus, 1)
        reading = asyncio.create_task(stream.read())
        host, port = bus.endpoint.split(":")
        fresh_reader, fresh = await asyncio.open_connection(host, int(port))
        fresh.write(b"hello")
        hearing = asyncio.create_task(fresh_reader.read(1))
        done, _ = await asyncio.wait([reading, hearing], timeout=0.2)
        hearing.cancel()
        fresh.close()
        await asyncio.to_thread(bus.thaw)
        return done, (await reading).events[0].replay_id

    done, came = talk(bus, scenario)
    assert done == set()
    assert came > published[-1]


def test_a_client_with_keepalive_pings_notices_a_freeze(plain: Emulator) -> None:
    """Unanswered pings end a call; the server notices after the thaw."""
    from tests.integration.emulator.conftest import Client, headers_of

    publish(plain, 1)

    async def scenario() -> Any:
        # The third is for gRPC's ping that measures the line: it sends nothing else meanwhile.
        names = "keepalive_time_ms", "keepalive_timeout_ms", "http2.ping_timeout_ms"
        options = [(f"grpc.{name}", 100) for name in names]
        async with aio.insecure_channel(plain.endpoint, options=options) as channel:
            client = Client(channel, headers_of(plain))
            stream = await client.subscribe(TOPIC)
            await stream.take(1)
            plain.freeze()
            refused = await client.refused(stream.read())
        return refused, plain.open_streams

    refused, still_open = asyncio.run(scenario())
    assert (refused.status, "timeout" in refused.message) == ("UNAVAILABLE", True)
    assert still_open == 1
    plain.thaw()
    plain.wait_open_streams(0)


def test_a_freeze_ends_by_itself(plain: Emulator, talk: Talk) -> None:
    """A freeze with seconds ends without a thaw."""
    plain.freeze(0.1)
    assert [fault.how for fault in plain.faults()] == ["freeze"]

    async def scenario(client: Any) -> Any:
        return (await client.get_topic(TOPIC)).topic_name

    assert talk(plain, scenario) == TOPIC
    assert plain.faults() == ()


def test_an_unreachable_server_comes_back_on_its_port(bus: Emulator, talk: Talk) -> None:
    """Connections are refused while away, then the same channel is served."""
    published = publish(bus, 2)

    async def scenario(client: Any) -> Any:
        stream = await client.subscribe(TOPIC)
        await stream.take(2)
        await asyncio.to_thread(bus.away)
        broken = await client.refused(stream.read())
        with pytest.raises(ConnectionRefusedError):
            knock(bus)
        await turned_away(client)
        await asyncio.to_thread(bus.back)
        return broken.status, (await served(client)).topic_name

    assert talk(bus, scenario) == ("UNAVAILABLE", TOPIC)
    assert len(bus.events(TOPIC)) == len(published)


def test_a_restart_keeps_port_tokens_and_events(bus: Emulator, talk: Talk) -> None:
    """A restart sends GOAWAY, and tokens and replay ids stay valid."""
    published = publish(bus, 3)

    async def scenario(client: Any) -> Any:
        stream = await client.subscribe(TOPIC)
        await stream.take(1)
        await asyncio.to_thread(bus.restart)
        refused = await client.refused(to_the_end(stream))
        again = await client.take_again(TOPIC, 2, preset=2, replay_id=published[0])
        return refused, [event.replay_id for event in again]

    refused, again = talk(bus, scenario)
    assert (refused.status, "GOAWAY received" in refused.message) == ("UNAVAILABLE", True)
    assert again == published[1:]


def test_a_restart_takes_its_time(plain: Emulator, talk: Talk) -> None:
    """A restart refuses connections for its time and then serves by itself."""
    plain.restart(0.2)
    with pytest.raises(ConnectionRefusedError):
        knock(plain)

    assert talk(plain, served).topic_name == TOPIC


@pytest.mark.parametrize("rpc", ["", "Subscribe"])
def test_responses_crawl(plain: Emulator, talk: Talk, rpc: str) -> None:
    """Slow responses arrive whole, and at full speed after the end."""
    publish(plain, 4, size=1000)

    async def scenario(client: Any) -> Any:
        stream = await client.subscribe(TOPIC, 1)
        await stream.take(1)
        await asyncio.to_thread(plain.trickle, rpc, bytes_per_second=4000)
        began = time.monotonic()
        await stream.ask(1)
        await stream.take(1)
        slow = time.monotonic() - began
        await asyncio.to_thread(plain.trickle, rpc, bytes_per_second=10)
        await stream.ask(1)
        crawling = asyncio.create_task(stream.take(1))
        await asyncio.wait([crawling], timeout=0.1)
        early = crawling.done()
        await asyncio.to_thread(plain.trickle, rpc, bytes_per_second=None)
        return slow, early, await asyncio.wait_for(crawling, 100)

    slow, early, last = talk(plain, scenario)
    assert slow > 0.15
    assert not early
    assert last[0].event.payload.endswith(b"x" * 1000)


def test_another_rpc_does_not_crawl(plain: Emulator, talk: Talk) -> None:
    """A limit for one RPC does not slow other connections."""
    plain.trickle("Subscribe", bytes_per_second=1)

    async def scenario(client: Any) -> Any:
        async with asyncio.timeout(100):
            return (await client.get_topic(TOPIC)).topic_name

    assert talk(plain, scenario) == TOPIC
    assert [fault.how for fault in plain.faults()] == ["trickle Subscribe 1"]


def test_clearing_makes_the_network_well(plain: Emulator, talk: Talk) -> None:
    """clear_faults removes all faults, and clients are served at once."""
    plain.fail_next("GetTopic")
    plain.freeze()
    plain.away()
    plain.trickle(bytes_per_second=1)
    assert len(plain.faults()) == 4
    plain.clear_faults()
    assert plain.faults() == ()

    async def scenario(client: Any) -> Any:
        return (await client.get_topic(TOPIC)).topic_name

    assert talk(plain, scenario) == TOPIC


def test_a_connection_made_in_a_freeze_is_cut_too(plain: Emulator) -> None:
    """A connection made during a freeze is cut when the server leaves."""
    plain.freeze()
    with knock(plain) as waiting:
        plain.away()
        plain.thaw()
        waiting.settimeout(100)
        try:
            heard = waiting.recv(1)
        except ConnectionResetError:  # it had not been accepted yet
            heard = b""
    assert heard == b""


@pytest.mark.parametrize(
    ("greeting", "first_bytes"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 415 Unsup", id="http1"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", b"\x00\x00\x1e\x04", id="ssh"),  # gRPC's SETTINGS
    ],
)
def test_what_is_not_http2_passes_unread(
    plain: Emulator, greeting: bytes, first_bytes: bytes
) -> None:
    """Clients of another protocol are answered while other streams are reset."""

    def answer(*orders: str) -> bytes:
        with knock(plain) as client:
            client.sendall(greeting)
            for order in orders:
                plain.drop_connections(order)
            return b"".join(iter(lambda: client.recv(4096), b""))

    undisturbed = answer()
    assert undisturbed.startswith(first_bytes)
    assert answer("rst_stream") == undisturbed


def test_mistakes_are_named(plain: Emulator) -> None:
    """An impossible order is refused."""
    with pytest.raises(
        EmulatorError, match="'rest' is not one of reset, goaway, rst_stream, half_open, end"
    ):
        plain.drop_connections("rest")
    with pytest.raises(EmulatorError, match="bytes_per_second=-1"):
        plain.trickle(bytes_per_second=-1)
    stopped = Emulator()
    with pytest.raises(EmulatorError, match="not running"):
        stopped.freeze()
