"""Streams lost against the emulator: every event once and in order, credit within the bound."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import (
    QuotaExceededError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.rpc_errors import is_transient
from airflow_provider_sfevents.replay_point import EARLIEST, ReplayPoint
from tests.integration.pubsub.emulated import LONG, TOPIC, Received, publish, running

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery

pytestmark = pytest.mark.anyio


def called(bus: Emulator, rpc: str) -> int:
    return [call.rpc for call in bus.requests].count(rpc)


async def test_no_credit_is_asked_twice_over_many_losses() -> None:
    """Each new stream requests only the events that the batch still has room for, at most 100."""
    async with running() as (bus, client):
        published, received = publish(bus, 400), Received()
        bus.fail_next("Subscribe", status="UNAVAILABLE", times=8, after=30)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=300, **LONG), received)
        assert (result.ended_by, received.replay_ids) == ("max_events", published[:300])
        assert (result.losses, bus.deliveries()) == (8, 300)
        for stream, left in zip(bus.subscriptions, range(300, 0, -30), strict=False):
            assert sum(request.num_requested for request in stream.requests) <= left
            assert stream.max_outstanding <= 100
        bus.wait_open_streams(0)


async def test_the_end_that_a_write_met_is_known() -> None:
    """A write at the end of a stream does not hide the status of a used-up allowance."""
    async with running() as (bus, client):
        published = publish(bus, 40)
        for rounds in range(1, 41):
            received = Received()
            bus.fail_next("Subscribe", error_code="subscription.limit.exceeded", after=30)
            result = await client.fetch(TOPIC, EARLIEST, Bounds(**LONG), received)
            assert isinstance(result.error, QuotaExceededError)
            assert received.replay_ids == published[:30]
            assert len(bus.subscriptions) == rounds


async def test_a_server_that_restarts(tmp_path: Path) -> None:
    """After a restart without sessions the batch continues with one login after its last event."""
    async with running(folder=tmp_path / "bus", chance=0.3) as (bus, client):
        published, received = publish(bus, 50), Received()
        task = asyncio.ensure_future(
            client.fetch(TOPIC, EARLIEST, Bounds(max_events=100, **LONG), received)
        )
        await received.wait_for(50)
        await asyncio.to_thread(bus.stop)
        await asyncio.to_thread(bus.start)
        published += publish(bus, 50, first=50)
        result = await task
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (bus.deliveries(), called(bus, "token")) == (50, 1)  # since the restart
        bus.wait_open_streams(0)


async def test_a_service_away_for_longer_than_one_try() -> None:
    """GetTopic is tried until the service is back, then the stream continues."""
    async with running() as (bus, client):
        published, received = publish(bus, 20), Received()
        bus.fail_next("Subscribe", status="UNAVAILABLE", after=10)
        bus.fail_next("GetTopic", status="UNAVAILABLE", times=11, after=1)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=20, **LONG), received)
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (len(bus.subscriptions), result.losses) == (2, 1)


async def test_a_service_that_does_not_come_back() -> None:
    """After all tries a batch ends with its events and a passing error; an empty one raises it."""
    async with running() as (bus, client):
        published, received = publish(bus, 10), Received()
        task = asyncio.ensure_future(client.fetch(TOPIC, EARLIEST, Bounds(**LONG), received))
        await received.wait_for(10)
        await asyncio.to_thread(bus.stop)
        result = await task
        assert (result.ended_by, received.replay_ids) == ("lost", published)
        assert result.last_replay_id == published[-1]
        assert result.error is not None
        assert is_transient(result.error)
        with pytest.raises(TransportError):
            await client.fetch(TOPIC, ReplayPoint(published[-1].hex()), Bounds(**LONG), received)


async def test_a_service_that_is_away_when_time_runs_out(tmp_path: Path) -> None:
    """The client waits for the service until `max_seconds`, and keeps the events that came."""
    async with running(folder=tmp_path / "bus", chance=1.0) as (bus, client):
        published, received = publish(bus, 10), Received()
        began = asyncio.get_running_loop().time()
        bounds = Bounds(max_seconds=0.6, idle_seconds=120)
        task = asyncio.ensure_future(client.fetch(TOPIC, EARLIEST, bounds, received))
        await received.wait_for(10)
        await asyncio.to_thread(bus.stop)
        result = await task
        assert asyncio.get_running_loop().time() - began < 100
        assert (result.ended_by, received.replay_ids) == ("lost", published)
        assert result.error is not None
        assert is_transient(result.error)


async def test_sessions_that_expire_again_and_again() -> None:
    """Each session that has worked may be renewed once when it is refused."""
    async with running() as (bus, client):
        published, received = publish(bus, 30), Received()
        bus.fail_next("Subscribe", error_code="service.auth.error", times=5, after=5)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=30, **LONG), received)
        assert (result.ended_by, received.replay_ids) == ("max_events", published)
        assert (len(bus.subscriptions), called(bus, "token"), bus.deliveries()) == (6, 6, 30)


async def test_a_topic_is_looked_up_once_in_a_run() -> None:
    """A readable topic is not looked up again before a stream, but after a loss it is."""
    async with running() as (bus, client):
        publish(bus, 4)
        await client.require_readable(TOPIC)
        await client.fetch(TOPIC, EARLIEST, Bounds(max_events=4, **LONG), Received())
        assert called(bus, "GetTopic") == 1
        bus.fail_next("Subscribe", status="UNAVAILABLE", after=2)
        await client.fetch(TOPIC, EARLIEST, Bounds(max_events=4, **LONG), Received())
        assert called(bus, "GetTopic") == 2


@pytest.mark.parametrize("megabytes", [3, 12])
async def test_events_of_a_megabyte(megabytes: int) -> None:
    """The largest events arrive whole, also in responses beyond gRPC's default limit of 4 MB."""
    async with running(max_response_bytes=megabytes << 20, response_events=10) as (bus, client):
        payloads = [bytes([n]) * 1_000_000 for n in range(10)]
        published = bus.publish_raw(TOPIC, payloads)
        got: list[bytes] = []

        async def receive(delivery: Delivery) -> None:
            got.extend(delivery.payloads)

        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=10, **LONG), receive)
        assert (result.ended_by, got) == ("max_events", payloads)
        assert (result.last_replay_id, bus.deliveries(), result.losses) == (published[-1], 10, 0)
        assert (bus.subscriptions[0].responses == 1) is (megabytes == 12)
