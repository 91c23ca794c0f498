"""The client and the emulator, which share nothing but the .proto."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Clock as BusClock, Emulator, Knobs
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    QuotaExceeded,
    ReplayIdRefused,
    TopicError,
)
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.schema_cache import SchemaCache
from airflow_provider_sfevents.pubsub.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.settings import ClientCredentials, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.delivery import Delivery

pytestmark = pytest.mark.anyio
TOPIC = "/event/Order__e"
QUICK: dict[str, Any] = {"max_seconds": 20.0, "idle_seconds": 0.2}


@asynccontextmanager
async def running(
    bus_clock: BusClock | None = None, **knobs: Any
) -> AsyncIterator[tuple[Emulator, PubSubClient]]:
    """An emulator with one topic, and a client logged in to it by client credentials."""
    with Emulator(knobs=Knobs(**{"half_close_seconds": 0.02, **knobs}), clock=bus_clock) as bus:
        bus.define_event("Order__e", {"Number__c": "Double"})
        login = ClientCredentials(
            login_url=bus.my_domain_url,
            client_id=bus.org.consumer_key,
            client_secret=bus.org.consumer_secret,
        )
        settings = Settings(login=login, endpoint=bus.endpoint, plaintext=True)
        clock = Clock(chance=lambda: 0.0)
        async with PubSubClient(
            settings, sessions=SessionCache(), schemas=SchemaCache(), clock=clock
        ) as client:
            yield bus, client
        bus.check()


def publish(bus: Emulator, count: int, first: int = 0) -> list[bytes]:
    return bus.publish(
        TOPIC, [{"Number__c": float(number)} for number in range(first, first + count)]
    )


class Received:
    def __init__(self) -> None:
        self.replay_ids: list[bytes] = []

    async def __call__(self, delivery: Delivery) -> None:
        self.replay_ids += delivery.replay_ids


async def test_batch_after_batch() -> None:
    """Each batch begins where the one before ended: every event once, in order, and no more deliveries than events."""
    async with running() as (bus, client):
        published = publish(bus, 1000)
        received, start = Received(), "earliest"
        for _ in range(3):
            result = await client.fetch(TOPIC, start, Bounds(max_events=350, **QUICK), received)
            start = result.last_replay_id.hex()
        assert received.replay_ids == published
        assert bus.deliveries(TOPIC) == 1000
        assert bus.open_streams == 0
        assert [one.max_outstanding for one in bus.subscriptions] == [100, 100, 100]
        assert [one.ended for one in bus.subscriptions] == ["OK", "OK", "OK"]


async def test_latest_takes_only_what_comes() -> None:
    """A first run at `latest` leaves what is on the bus."""
    async with running() as (bus, client):
        publish(bus, 5)
        task = asyncio.ensure_future(
            client.fetch(TOPIC, "latest", Bounds(max_events=3, max_seconds=20), Received())
        )
        await asyncio.to_thread(bus.wait_open_streams, 1)
        while not bus.subscriptions[0].requests:  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(0.005)
        new = publish(bus, 3)
        assert (await task).last_replay_id == new[-1]
        assert bus.deliveries() == 3


async def test_a_keepalive_is_a_place_to_start_from() -> None:
    """On a quiet topic a keepalive's replay id is learned, and what is published later lies after it."""
    async with running(keepalive_seconds=0.1) as (bus, client):
        quiet = Bounds(max_seconds=20, idle_seconds=0.05, learn_seconds=10)
        result = await client.fetch(TOPIC, "latest", quiet, Received())
        assert (result.ended_by, result.events) == ("idle_seconds", 0)
        published, received = publish(bus, 4), Received()
        await client.fetch(
            TOPIC, result.latest_replay_id.hex(), Bounds(max_events=4, max_seconds=20), received
        )
        assert received.replay_ids == published


@pytest.mark.parametrize("unknown", ["PERMISSION_DENIED", "NOT_FOUND"])
async def test_an_unknown_topic(unknown: str) -> None:
    """However the service says it, it is a TopicError that names the topic, before a stream is opened."""
    async with running(unknown_topic=unknown) as (bus, client):
        with pytest.raises(TopicError, match="/event/Nothing__e"):
            await client.fetch("/event/Nothing__e", "earliest", Bounds(), Received())
        assert bus.subscriptions == ()


async def test_a_topic_this_user_may_not_read() -> None:
    """No permission to subscribe is found out before anything is spent."""
    async with running() as (bus, client):
        bus.define_event("Secret__e", {"A__c": "Text"}, can_subscribe=False)
        with pytest.raises(TopicError, match="Secret__e"):
            await client.fetch("/event/Secret__e", "earliest", Bounds(), Received())
        assert bus.subscriptions == ()


@pytest.mark.parametrize("start", ["ff" * 10, "00"], ids=["unknown", "malformed"])
async def test_a_replay_id_the_bus_does_not_know(start: str) -> None:
    """Refused as such, tried once, nothing delivered."""
    async with running() as (bus, client):
        publish(bus, 3)
        with pytest.raises(ReplayIdRefused, match="rpc id"):
            await client.fetch(TOPIC, start, Bounds(**QUICK), Received())
        assert (len(bus.subscriptions), bus.deliveries()) == (1, 0)


async def test_a_replay_id_that_has_aged_out() -> None:
    """After 72 hours an id is refused; the client does not choose another start."""
    clock = BusClock()
    async with running(clock) as (bus, client):
        old = publish(bus, 1)[0]
        clock.advance(hours=73)
        publish(bus, 1)
        with pytest.raises(ReplayIdRefused):
            await client.fetch(TOPIC, old.hex(), Bounds(**QUICK), Received())
        assert bus.deliveries() == 0


async def test_an_expired_token_is_renewed_before_a_stream() -> None:
    """A token that expired between two batches costs one login, and the batch runs."""
    async with running() as (bus, client):
        publish(bus, 4)
        bounds = Bounds(max_events=2, **QUICK)
        first = await client.fetch(TOPIC, "earliest", bounds, Received())
        bus.expire_tokens()
        second = await client.fetch(TOPIC, first.last_replay_id.hex(), bounds, Received())
        assert (first.events, second.events) == (2, 2)
        assert [call.rpc for call in bus.requests].count("token") == 2


async def test_a_token_that_ends_its_stream_is_renewed() -> None:
    """Where the service ends a stream with its token, the batch goes on with a new one, after the last event."""
    async with running(expiry_ends_streams=True) as (bus, client):
        published = publish(bus, 3)
        received = Received()
        task = asyncio.ensure_future(
            client.fetch(TOPIC, "earliest", Bounds(max_events=6, max_seconds=20), received)
        )
        while len(received.replay_ids) < 3:  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(0.005)
        bus.expire_tokens()
        published += publish(bus, 3)
        result = await task
        assert received.replay_ids == published
        assert (result.losses, bus.deliveries()) == (1, 6)


async def test_a_token_refused_again_and_again_is_given_up() -> None:
    """One renewal per refusal: a service that refuses every token is not asked for ever."""
    async with running() as (bus, client):
        bus.fail_next("GetTopic", error_code="service.auth.error", times=10)
        with pytest.raises(AuthenticationError, match=r"service\.auth\.error"):
            await client.get_topic(TOPIC)
        assert [call.rpc for call in bus.requests].count("token") == 2


@pytest.mark.parametrize("status", ["UNAVAILABLE", "INTERNAL"])
async def test_faults_in_mid_stream(status: str) -> None:
    """Streams cut after 40 events each: every event once, none paid for twice."""
    async with running() as (bus, client):
        published, received = publish(bus, 300), Received()
        bus.fail_next("Subscribe", status=status, times=5, after=40)
        result = await client.fetch(TOPIC, "earliest", Bounds(max_events=300, **QUICK), received)
        assert received.replay_ids == published
        assert (result.losses, result.deliveries, bus.deliveries()) == (5, 300, 300)


async def test_a_used_up_allowance_ends_the_batch() -> None:
    """What was delivered before the allowance ran out is a batch; the error is kept with it."""
    async with running(delivery_allocation=50) as (bus, client):
        publish(bus, 100)
        result = await client.fetch(TOPIC, "earliest", Bounds(**QUICK), Received())
        assert (result.ended_by, result.events) == ("error", 50)
        assert isinstance(result.error, QuotaExceeded)
        assert bus.deliveries() == 50


async def test_until_by_the_events_own_time() -> None:
    """A batch up to a time ends with the first event created at or after it."""
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    clock = BusClock(start=noon - timedelta(hours=1))
    async with running(clock, response_events=1, spread_seconds=1.0) as (bus, client):
        for _ in range(12):
            publish(bus, 10)
            clock.advance(minutes=10)
        result = await client.fetch(
            TOPIC, "earliest", Bounds(until=noon, max_seconds=20, idle_seconds=5), Received()
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
        bounds = Bounds(until=noon, max_seconds=20, idle_seconds=5)
        result = await client.fetch("/data/ChangeEvents", "earliest", bounds, Received())
        assert (result.ended_by, result.last_event_at) == ("until", noon)


async def test_two_clients_share_nothing_but_the_bus() -> None:
    """Two consumers at once each get every event; each delivery counts."""
    async with running() as (bus, client):
        published, one, other = publish(bus, 200), Received(), Received()
        bounds = Bounds(max_events=200, **QUICK)
        await asyncio.gather(
            client.fetch(TOPIC, "earliest", bounds, one),
            client.fetch(TOPIC, "earliest", bounds, other),
        )
        assert one.replay_ids == other.replay_ids == published
        assert bus.deliveries() == 400
