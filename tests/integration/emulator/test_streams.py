"""Refusals, contents and ends of streams over a real socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.event_calls import published

Talk = Callable[..., Any]
ORDER = {"Number__c": "Text"}
QUICK = Knobs(half_close_seconds=0.01)


def test_a_connection_takes_so_many_rpcs(talk: Talk) -> None:
    """An RPC above the connection's limit waits in the client."""
    with Emulator(knobs=Knobs(max_streams_per_connection=2, half_close_seconds=0.01)) as bus:
        topic, _ = published(bus, 1)

        async def scenario(client: Any) -> None:
            first, _ = [await client.subscribe(topic) for _ in range(2)]
            await first.take(1)
            third = asyncio.ensure_future(client.subscribe(topic))
            await asyncio.to_thread(bus.wait_open_streams, 2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.get_topic(topic), 0.2)
            assert (bus.connections, len(bus.subscriptions)) == (1, 2)
            await first.end()
            await (await third).take(1)
            assert len(bus.subscriptions) == 3

        talk(bus, scenario)


def test_a_client_that_goes_away_is_noticed(talk: Talk) -> None:
    """A cancelled call ends its stream, and the call log states it."""
    with Emulator() as bus:
        topic = bus.define_event("Order__e", ORDER)

        async def scenario(client: Any) -> None:
            stream = await client.subscribe(topic, 10)
            await stream.ask(1)
            stream.call.cancel()

        talk(bus, scenario)
        bus.wait_open_streams(0)
        assert {seen.ended for seen in bus.subscriptions} <= {"CANCELLED"}


def test_streams_left_in_the_middle_do_no_harm(talk: Talk) -> None:
    """Thirty vanished clients leave neither an open stream nor a defect."""
    with Emulator(knobs=QUICK) as bus:
        topic, _ = published(bus, 2000, size=2000)

        async def scenario(client: Any) -> None:
            streams = [await client.subscribe(topic) for _ in range(30)]
            for turn, stream in enumerate(streams):
                for _ in range(turn % 5):
                    await stream.ask(len((await stream.read()).events))
                if turn % 2:
                    stream.call.cancel()

        talk(bus, scenario)
        bus.wait_open_streams(0)
        bus.check()
        assert {seen.ended for seen in bus.subscriptions} == {"CANCELLED"}


def test_round_trip_and_spread_pace_a_stream(talk: Talk) -> None:
    """Early top-ups are about twice as fast as stop-and-wait."""
    with Emulator(
        knobs=Knobs(round_trip_seconds=0.05, spread_seconds=0.05, half_close_seconds=0.01)
    ) as bus:
        topic, _ = published(bus, 600)

        async def topping_up(client: Any) -> float:
            began = time.monotonic()
            stream, got = await client.subscribe(topic), 0
            while got < 600:
                count = len((await stream.read()).events)
                got += count
                await stream.ask(count)
            return time.monotonic() - began

        async def stop_and_wait(client: Any) -> float:
            began = time.monotonic()
            stream = await client.subscribe(topic)
            for batch in range(6):
                await stream.take(100)
                if batch < 5:
                    await stream.ask(100)
            return time.monotonic() - began

        fast, slow = talk(bus, topping_up), talk(bus, stop_and_wait)
        # At least 6 x 50 ms of events; 6 x (50 + 50) ms without overlap. A busy machine adds to
        # both.
        assert fast >= 0.3
        assert slow >= 0.59
        assert fast < 0.9 * slow
