"""Client and emulator, which share only the .proto."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_sfevents.emulator import EmulatorClock as BusClock
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    ReplayIdRefusedError,
    SchemaUnknownError,
    TopicError,
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


async def test_latest_takes_only_what_comes() -> None:
    """A first run at `latest` fetches no event that was on the bus before."""
    async with running() as (bus, client):
        publish(bus, 5)
        task = asyncio.ensure_future(
            client.fetch(TOPIC, LATEST, Bounds(max_events=3, max_seconds=120), Received())
        )
        await asyncio.to_thread(bus.wait_open_streams, 1)
        while not bus.subscriptions[0].requests:  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(0.005)
        new = publish(bus, 3)
        assert (await task).last_replay_id == new[-1]
        assert bus.deliveries() == 3


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


@pytest.mark.parametrize("unknown", ["PERMISSION_DENIED", "NOT_FOUND"])
async def test_an_unknown_topic(unknown: str) -> None:
    """An unknown topic raises a TopicError that names it, before a stream is opened."""
    async with running(unknown_topic=unknown) as (bus, client):
        with pytest.raises(TopicError, match="/event/Nothing__e"):
            await client.fetch("/event/Nothing__e", EARLIEST, Bounds(), Received())
        assert bus.subscriptions == ()


async def test_a_topic_this_user_may_not_read() -> None:
    """A missing permission to subscribe is reported before anything is spent."""
    async with running() as (bus, client):
        bus.define_event("Secret__e", {"A__c": "Text"}, can_subscribe=False)
        with pytest.raises(TopicError, match="Secret__e"):
            await client.fetch("/event/Secret__e", EARLIEST, Bounds(), Received())
        assert bus.subscriptions == ()


@pytest.mark.parametrize("start", ["ff" * 10, "00"], ids=["unknown", "malformed"])
async def test_a_replay_id_the_bus_does_not_know(start: str) -> None:
    """A refused replay id is tried once, and nothing is delivered."""
    async with running() as (bus, client):
        publish(bus, 3)
        with pytest.raises(ReplayIdRefusedError, match="rpc id"):
            await client.fetch(TOPIC, ReplayPoint(start), Bounds(**QUICK), Received())
        assert (len(bus.subscriptions), bus.deliveries()) == (1, 0)


async def test_a_replay_id_that_has_aged_out() -> None:
    """An id older than 72 hours is refused; the client does not choose another start."""
    clock = BusClock()
    async with running(clock) as (bus, client):
        old = publish(bus, 1)[0]
        clock.advance(hours=73)
        publish(bus, 1)
        with pytest.raises(ReplayIdRefusedError):
            await client.fetch(TOPIC, ReplayPoint(old.hex()), Bounds(**QUICK), Received())
        assert bus.deliveries() == 0


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


async def test_a_token_that_ends_its_stream_is_renewed() -> None:
    """If a stream ends with its token, the batch continues with a new one after the last event."""
    async with running(expiry_ends_streams=True) as (bus, client):
        published = publish(bus, 3)
        received = Received()
        task = asyncio.ensure_future(
            client.fetch(TOPIC, EARLIEST, Bounds(max_events=6, max_seconds=120), received)
        )
        while len(received.replay_ids) < 3:  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(0.005)
        bus.expire_tokens()
        published += publish(bus, 3)
        result = await task
        assert received.replay_ids == published
        assert (result.losses, bus.deliveries()) == (1, 6)


async def test_a_token_refused_again_and_again_is_given_up() -> None:
    """A service that refuses every token is asked once per renewal and then raises."""
    async with running() as (bus, client):
        bus.fail_next("GetTopic", error_code="service.auth.error", times=10)
        with pytest.raises(AuthenticationError, match=r"service\.auth\.error"):
            await client.get_topic(TOPIC)
        assert [call.rpc for call in bus.requests].count("token") == 2


@pytest.mark.parametrize("status", ["UNAVAILABLE", "INTERNAL"])
async def test_faults_in_mid_stream(status: str) -> None:
    """With streams cut after 40 events, every event comes once and none is paid for twice."""
    async with running() as (bus, client):
        published, received = publish(bus, 300), Received()
        bus.fail_next("Subscribe", status=status, times=5, after=40)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=300, **LONG), received)
        assert received.replay_ids == published
        assert (result.losses, result.deliveries, bus.deliveries()) == (5, 300, 300)


async def test_a_used_up_allowance_ends_the_batch() -> None:
    """The events before a used-up allowance are a batch, and its result holds the error."""
    async with running(delivery_allocation=50) as (bus, client):
        publish(bus, 100)
        result = await client.fetch(TOPIC, EARLIEST, Bounds(**LONG), Received())
        assert (result.ended_by, result.events) == ("error", 50)
        assert isinstance(result.error, QuotaExceededError)
        assert bus.deliveries() == 50


async def test_until_by_the_events_own_time() -> None:
    """A batch with `until` ends with the first event created at or after it."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    clock = BusClock(start=noon - timedelta(hours=1))
    async with running(clock, response_events=1, spread_seconds=1.0) as (bus, client):
        for _ in range(12):
            publish(bus, 10)
            clock.advance(minutes=10)
        result = await client.fetch(
            TOPIC, EARLIEST, Bounds(until=noon, max_seconds=120, idle_seconds=5), Received()
        )
        assert result.ended_by == "until"
        assert 61 <= result.events < 75
        assert result.last_event_at is not None
        assert result.last_event_at >= noon


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


async def test_two_clients_share_nothing_but_the_bus() -> None:
    """Two consumers at once each get every event, and each delivery counts."""
    async with running() as (bus, client):
        published, one, other = publish(bus, 200), Received(), Received()
        bounds = Bounds(max_events=200, **LONG)
        await asyncio.gather(
            client.fetch(TOPIC, EARLIEST, bounds, one),
            client.fetch(TOPIC, EARLIEST, bounds, other),
        )
        assert one.replay_ids == other.replay_ids == published
        assert bus.deliveries() == 400


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


async def test_an_event_whose_schema_is_not_ours_to_see() -> None:
    """Without a schema's permission `until` fails: the batch ends with its events and an error."""
    async with running(unknown_schema="PERMISSION_DENIED") as (bus, client):
        bus.publish_raw(TOPIC, b"who knows", "not-ours")
        received, bounds = Received(), Bounds(until=datetime.now(UTC), **QUICK)
        result = await client.fetch(TOPIC, EARLIEST, bounds, received)
        assert (result.ended_by, result.events, len(received.replay_ids)) == ("error", 1, 1)
        assert type(result.error) is ConfigurationError
        assert "grant read" in str(result.error)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        ("NOT_FOUND", "schema.meta.permission", SchemaUnknownError),
        ("NOT_FOUND", "", SchemaUnknownError),
        ("INVALID_ARGUMENT", "schema.validation.failed", SchemaUnknownError),
        ("INVALID_ARGUMENT", "", SchemaUnknownError),
        ("PERMISSION_DENIED", "schema.meta.permission", ConfigurationError),
        ("PERMISSION_DENIED", "", ConfigurationError),
    ],
)
async def test_a_schema_that_is_gone(
    status: str, code: str, kind: type[ConfigurationError]
) -> None:
    """Every form of the service's denial makes a schema unknown; a missing permission does not."""
    async with running(unknown_schema=status, unknown_schema_code=code) as (bus, client):
        schema_id = bus.schema_id("Order__e")
        bus.forget_schema(schema_id)
        with pytest.raises(ConfigurationError) as raised:
            await client.get_schema(schema_id)
        assert type(raised.value) is kind
        assert repr(schema_id) in str(raised.value)
