"""Client and emulator, which share only the .proto."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_sfevents.emulator import EmulatorClock as BusClock
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    ReplayIdRefusedError,
    SchemaUnknownError,
)
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint
from tests.integration.pubsub.emulated import LONG, QUICK, TOPIC, Received, publish, running

pytestmark = pytest.mark.anyio


async def test_batch_after_batch() -> None:
    """Each batch begins at the end of the one before, without extra deliveries."""
    async with running() as (bus, client):
        published = publish(bus, 1000)
        received, start = Received(), "earliest"
        for _ in range(3):
            result = await client.fetch(
                TOPIC, ReplayPoint(start), Bounds(max_events=350, **QUICK), received
            )
            start = result.last_replay_id.hex()
        assert received.replay_ids == published
        assert bus.deliveries(TOPIC) == 1000
        assert bus.open_streams == 0
        assert [one.max_outstanding for one in bus.subscriptions] == [100, 100, 100]
        assert [one.ended for one in bus.subscriptions] == ["OK", "OK", "OK"]


async def test_a_keepalive_is_a_place_to_start_from() -> None:
    """On a quiet topic a keepalive's replay id is learned, and later events follow it."""
    async with running(keepalive_seconds=0.1) as (bus, client):
        quiet = Bounds(max_seconds=120, idle_seconds=0.05, learn_seconds=10)
        result = await client.fetch(TOPIC, LATEST, quiet, Received())
        assert (result.ended_by, result.events) == ("idle_seconds", 0)
        published, received = publish(bus, 4), Received()
        await client.fetch(
            TOPIC,
            ReplayPoint(result.latest_replay_id.hex()),
            Bounds(max_events=4, max_seconds=120),
            received,
        )
        assert received.replay_ids == published


@pytest.mark.parametrize("start", ["ff" * 10, "00"], ids=["unknown", "malformed"])
async def test_a_replay_id_the_bus_does_not_know(start: str) -> None:
    """A refused replay id is tried once, and nothing is delivered."""
    async with running() as (bus, client):
        publish(bus, 3)
        with pytest.raises(ReplayIdRefusedError, match="rpc id"):
            await client.fetch(TOPIC, ReplayPoint(start), Bounds(**QUICK), Received())
        assert (len(bus.subscriptions), bus.deliveries()) == (1, 0)


async def test_an_expired_token_is_renewed_before_a_stream() -> None:
    """A token that expired between two batches costs one login, and the batch runs."""
    async with running() as (bus, client):
        publish(bus, 4)
        bounds = Bounds(max_events=2, **LONG)
        first = await client.fetch(TOPIC, EARLIEST, bounds, Received())
        bus.expire_tokens()
        second = await client.fetch(
            TOPIC, ReplayPoint(first.last_replay_id.hex()), bounds, Received()
        )
        assert (first.events, second.events) == (2, 2)
        assert [call.rpc for call in bus.requests].count("token") == 2


async def test_change_events_have_their_own_times() -> None:
    """On a channel of several types each event's time is read with its own schema."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    async with running(BusClock(start=noon)) as (bus, client):
        bus.define_entity("Account", {"Name": "Text"})
        bus.define_entity("Contact", {"LastName": "Text"})
        bus.change("Account", "CREATE", "001000000000001AAA", {"Name": "A"})
        bus.change("Contact", "CREATE", "003000000000001AAA", {"LastName": "C"})
        bounds = Bounds(until=noon, max_seconds=120, idle_seconds=5)
        result = await client.fetch("/data/ChangeEvents", EARLIEST, bounds, Received())
        assert (result.ended_by, result.last_event_at) == ("until", noon)


@pytest.mark.parametrize("schema_id", ["", "unknown-id"], ids=["none", "unknown"])
async def test_an_event_of_an_unknown_schema(schema_id: str) -> None:
    """An event without a schema is handed over and has no time; the service's denial is final."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    async with running(BusClock(start=noon)) as (bus, client):
        published = publish(bus, 2)
        [poison] = bus.publish_raw(TOPIC, b"who knows", schema_id or " ")
        received, bounds = Received(), Bounds(until=noon + timedelta(days=1), **QUICK)
        result = await client.fetch(TOPIC, EARLIEST, bounds, received)
        assert (result.ended_by, received.replay_ids) == ("idle_seconds", [*published, poison])
        assert (result.last_event_at, result.error) == (None, None)
        asked = len(bus.requests)
        with pytest.raises(SchemaUnknownError):
            await client.get_schema(schema_id)
        assert len(bus.requests) - asked == bool(schema_id)


async def test_an_event_whose_schema_may_not_be_read() -> None:
    """Without a schema's permission `until` fails: the batch ends with its events and an error."""
    async with running(unknown_schema="PERMISSION_DENIED") as (bus, client):
        bus.publish_raw(TOPIC, b"who knows", "not-ours")
        received, bounds = Received(), Bounds(until=datetime.now(UTC), **QUICK)
        result = await client.fetch(TOPIC, EARLIEST, bounds, received)
        assert (result.ended_by, result.events, len(received.replay_ids)) == ("error", 1, 1)
        assert type(result.error) is ConfigurationError
        assert "grant read" in str(result.error)
