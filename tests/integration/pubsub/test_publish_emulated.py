"""Publishing over streams to the emulator, which fails as Salesforce does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from typing_extensions import override

from airflow_provider_sfevents.exceptions import (
    PublishInterruptedError,
    QuotaExceededError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.publishing.event_encoder import checked, numbered
from airflow_provider_sfevents.pubsub.publishing.event_publisher import (
    PublishPace,
    send_all,
    stream_records,
)
from airflow_provider_sfevents.pubsub.timeouts import Timeouts
from airflow_provider_sfevents.replay_point import EARLIEST
from tests.integration.pubsub.emulated import QUICK, TOPIC, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import PublishResult
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery

pytestmark = pytest.mark.anyio
AT_ONCE = PublishPace(first_wait_seconds=0.0)


def records(count: int) -> list[dict[str, Any]]:
    return [{"Number__c": float(number)} for number in range(1, count + 1)]


async def publish(client: PubSubClient, given: Any) -> list[PublishResult]:
    results = client.publishing.stream(TOPIC, given, pace=AT_ONCE)
    return sorted([one async for one in results], key=lambda one: one.number)


def until(condition: Callable[[], bool]) -> None:
    """Wait in the thread of a source for a state of the emulator."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def read_back(client: PubSubClient) -> list[tuple[str, bytes]]:
    """Ids and replay ids of all events on the bus."""
    found: list[tuple[str, bytes]] = []

    async def receive(delivery: Delivery) -> None:
        found.extend(zip(delivery.ids, delivery.replay_ids, strict=True))

    await client.fetch(TOPIC, EARLIEST, Bounds(max_events=10_000, **QUICK), receive)
    return found


async def test_what_is_published_arrives() -> None:
    """Every record arrives once, in order, with the id and replay id of its result."""
    async with running() as (bus, client):
        results = await publish(client, records(1_000))
        assert await read_back(client) == [(one.event_id, one.replay_id) for one in results]
        assert [call.rpc for call in bus.requests].count("PublishStream") == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"how": "rst_stream"},
        {"how": "goaway"},
        {"status": "OK"},
        {"error_code": "service.unavailable"},
        {"error_code": "service.auth.error"},
        {"error_code": "publish.stream.sweeper.timeout"},
    ],
    ids=lambda fault: ",".join(fault.values()),
)
async def test_a_stream_that_breaks_mid_way(fault: dict[str, Any]) -> None:
    """All events arrive, and those that are on the bus twice share one id."""
    async with running() as (bus, client):
        bus.fail_next("PublishStream", after=300, **fault)
        results = await publish(client, records(600))
        found = await read_back(client)
    assert Counter(one.event_id for one in results) == Counter({key for key, _ in found})
    assert {(one.event_id, one.replay_id) for one in results} <= set(found)
    assert [one.error for one in results] == [""] * 600


async def test_an_answer_that_is_lost_with_its_connection() -> None:
    """Events with a lost answer are on the bus twice under one id."""
    async with running() as (bus, client):

        def source() -> Iterator[dict[str, Any]]:
            for number, record in enumerate(records(600)):
                if number == 400:
                    until(lambda: len(bus.events(TOPIC)) >= 200)
                    bus.drop_connections("reset")
                    bus.trickle("PublishStream", bytes_per_second=None)
                yield record

        encoder = await client.publishing.encoder(TOPIC)
        publisher = client.publishing.publisher(encoder, AT_ONCE)
        bus.trickle("PublishStream", bytes_per_second=1)
        answered = stream_records(publisher, encoder, source())
        results = sorted([one async for one in answered], key=lambda one: one.number)
        found = await read_back(client)
    assert [one.number for one in results] == list(range(1, 601))
    assert publisher.repeated >= 400
    assert len(found) >= 800
    assert {key for key, _ in found} == {one.event_id for one in results}
    assert [(one.event_id, one.replay_id) for one in results] == found[-600:]


@pytest.mark.parametrize(
    "order",
    [
        {"error_code": "service.unavailable"},
        {"error_code": "service.protection.triggered"},
        {"error_code": "service.auth.error"},
        {"how": "rst_stream"},
    ],
    ids=lambda order: ",".join(order.values()),
)
async def test_a_call_that_was_certainly_not_taken_is_repeated(order: dict[str, Any]) -> None:
    """After a refusal before any work all events are published, and none twice."""
    async with running(rst_stream_error="REFUSED_STREAM") as (bus, client):
        bus.fail_next("Publish", after=1, times=1 if "auth" in str(order) else 3, **order)
        results = await client.publish(TOPIC, records(500))
        assert await read_back(client) == [(one.event_id, one.replay_id) for one in results]
        assert [one.number for one in results] == list(range(1, 501))
        assert bus.faults() == ()


@pytest.mark.parametrize("how", ["", "reset"])
async def test_a_call_whose_answer_is_lost_says_how_to_go_on(how: str) -> None:
    """Events left open by the error can be published again under their ids."""
    given = records(500)
    async with running() as (bus, client):
        bus.fail_next("Publish", after=1, late=True, how=how)
        with pytest.raises(PublishInterruptedError) as raised:
            await client.publish(TOPIC, given)
        error = raised.value
        assert list(error.uncertain) == list(range(201, 401))
        assert list(error.unsent) == list(range(401, 501))
        assert "May be on the bus, since the answer is lost: records 201 to 400." in str(error)
        assert "Not on the bus: records 401 to 500." in str(error)
        assert len(await read_back(client)) == 400
        again = await client.publish(
            TOPIC, [given[number - 1] for number in error.left], ids=list(error.left.values())
        )
        found = await read_back(client)
    ids = [one.event_id for one in (*error.results, *again)]
    assert [one.number for one in error.results] == list(range(1, 201))
    assert Counter(key for key, _ in found) == Counter(ids) + Counter(error.uncertain.values())
    assert len(set(ids)) == 500


async def test_a_service_that_stays_away() -> None:
    """If the service stays away, the error after the last try says that no event is on the bus."""
    async with running() as (bus, client):
        encoder = await client.publishing.encoder(TOPIC)
        made = iter(await asyncio.to_thread(checked, encoder, numbered(records(3))))
        publisher = client.publishing.publisher(encoder, AT_ONCE)
        bus.away()
        # What is written into a connection that is not known to be gone may have arrived, for all
        # one can tell.
        with pytest.raises(TransportError, match="Looking up"):
            await client.get_topic(TOPIC)
        with pytest.raises(PublishInterruptedError, match="Connection refused") as raised:
            [one async for one in send_all(publisher, made, encoder.schema_id)]
        assert (raised.value.uncertain, list(raised.value.unsent)) == ({}, [1, 2, 3])
        bus.back()


async def test_a_connection_that_dies_without_a_word() -> None:
    """Pings notice a dead connection, and unanswered events go over another one."""
    quick = Timeouts(ping_every_seconds=0.3, ping_timeout_seconds=0.3)
    async with running(timeouts=quick) as (bus, client):

        def source() -> Iterator[dict[str, Any]]:
            for number, record in enumerate(records(600)):
                if number == 200:
                    bus.drop_connections("half_open")
                yield record

        results = await publish(client, source())
        found = await read_back(client)
    assert [one.number for one in results] == list(range(1, 601))
    assert {key for key, _ in found} == {one.event_id for one in results}


@pytest.mark.parametrize("over", ["result", "status"])
async def test_the_hourly_allowance(over: str) -> None:
    """Events within the allowance are published; then the error names it, without a retry."""
    async with running(publish_allocation=300, publish_over=over) as (_, client):
        with pytest.raises(QuotaExceededError, match="LIMIT_EXCEEDED") as told:
            await publish(client, records(1_000))
        assert ".." not in str(told.value), "Salesforce's sentence ends with a full stop of its own"
        assert len(await read_back(client)) == (300 if over == "result" else 200)


class _Watched(list[dict[str, Any]]):
    """Records that know in which threads they were read."""

    threads: ClassVar[set[int]] = set()

    @override
    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.threads.add(threading.get_ident())
        yield from super().__iter__()


async def test_records_are_worked_on_beside_the_event_loop() -> None:
    """Records are encoded in another thread, so that the event loop stays free."""
    given = _Watched(records(3))
    async with running() as (_, client):
        assert len(await client.publishing.publish(TOPIC, given)) == 3
        assert len(await publish(client, given)) == 3
    assert _Watched.threads
    assert threading.get_ident() not in _Watched.threads


async def test_a_stream_swept_while_there_was_nothing_to_send() -> None:
    """An idle stream that the service ended is replaced, and nothing is on the bus twice."""
    async with running(publish_idle_seconds=0.1) as (bus, client):

        def source() -> Iterator[dict[str, Any]]:
            for number, record in enumerate(records(600)):
                if number == 450:
                    while any(bus.streams_by_connection):
                        time.sleep(
                            0.01
                        )  # in a thread of its own; the emulator has no event to wait for
                yield record

        assert len(await publish(client, source())) == 600
        assert len(await read_back(client)) == 600
        assert [call.rpc for call in bus.requests].count("PublishStream") == 2
