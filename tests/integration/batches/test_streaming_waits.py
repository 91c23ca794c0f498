"""Waits, faults and quiet topics over the Streaming API, without Airflow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import (
    ReplayIdRefusedError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging import keepalive_point
from airflow_provider_sfevents.streaming.topic_client import StreamingTopicClient
from tests.integration.batches.conftest import (
    TOPIC,
    Consumer,
    Waiter,
    age_records,
    publish,
    staged_ids,
    until,
)
from tests.integration.batches.killed import kill_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCALE = 0.02
"""Of the 110 s for which the service holds a poll."""


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(cometd_time_scale=SCALE, cometd_batch_events=3)) as emulator:
        emulator.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        yield emulator
        emulator.check()


@pytest.fixture
def consumer(bus: Emulator, tmp_path: Path) -> Consumer:
    return Consumer(
        bus=bus,
        root=tmp_path / "staging",
        transport="streaming",
        bounds=Bounds(idle_seconds=1.5),
    )


@pytest.fixture
def waiter(consumer: Consumer) -> Waiter:
    return Waiter(consumer=consumer, bounds=Bounds(idle_seconds=1.5))


def test_each_event_is_in_one_batch(bus: Emulator, consumer: Consumer) -> None:
    """Batches that are smaller than an answer have each event once, and none twice."""
    publish(bus, 1, 8)
    consumer.bounds = Bounds(idle_seconds=1.5, max_events=2)

    batches = [consumer.run_once() for _ in range(4)]

    assert [one.manifest.events for one in batches if isinstance(one, Staged)] == [2, 2, 2, 2]
    staged = [one for batch in batches for one in staged_ids(consumer, batch)]
    assert len(set(staged)) == 8
    assert isinstance(consumer.run_once(), Empty)


def test_a_wait_stages_what_woke_it(bus: Emulator, consumer: Consumer, waiter: Waiter) -> None:
    """A triggerer's wait stages its event, and the task continues after it."""
    next_batch = waiter.next_batch()

    async def run() -> int:
        listening = asyncio.create_task(waiter.wait(next_batch))
        await asyncio.to_thread(publish, bus, 1, 1)
        return (await listening).events

    assert asyncio.run(run()) == 1
    publish(bus, 2, 2)
    staged = consumer.run_once()
    assert len(set(staged_ids(consumer, staged))) == 3


def test_a_poke_stages_what_is_pending(bus: Emulator, consumer: Consumer, waiter: Waiter) -> None:
    """A poke without an event finds none, and one with events stages them."""
    assert not waiter.poke().enough
    publish(bus, 1, 2)
    assert waiter.poke().enough
    assert len(staged_ids(consumer, consumer.run_once())) == 2


@pytest.mark.parametrize("polls", [False, True], ids=["without a wait", "with a wait"])
def test_silence_of_two_days(
    bus: Emulator, consumer: Consumer, waiter: Waiter, polls: bool
) -> None:
    """One event, 96 hours of silence, one event: each lands once, with or without a wait meanwhile.

    Without one it is unknown what was missed, so a loss window is recorded.
    """
    publish(bus, 1, 1)
    consumer.run_once()
    if polls:
        age_records(consumer, 96)
        assert not waiter.poke().enough
    bus.clock.advance(hours=96)
    if not polls:
        age_records(consumer, 96)
    publish(bus, 2, 1)

    staged = consumer.run_once()

    assert isinstance(staged, Staged)
    assert len(staged_ids(consumer, staged)) == 1
    assert bool(staged.manifest.losses) is not polls


@pytest.mark.parametrize(
    ("hours", "of_worker"), [(48, 48), (24.1, 23.9)], ids=["two days", "the worker's clock is late"]
)
def test_silence_on_a_standard_volume_topic(
    bus: Emulator, consumer: Consumer, hours: float, of_worker: float
) -> None:
    """An event that came and expired without a wait is in a recorded loss window.

    Standard-volume events are kept for 24 hours, and their names do not tell.
    """
    topic = bus.define_event("Old__e", {"Number__c": "Double"}, standard_volume=True)
    old = replace(consumer, topic=topic)
    bus.publish(topic, [{"Number__c": 1.0}])
    old.run_once()
    bus.publish(topic, [{"Number__c": 2.0}])
    bus.clock.advance(hours=hours)
    age_records(old, of_worker)
    bus.publish(topic, [{"Number__c": 3.0}])

    staged = old.run_once()

    assert isinstance(staged, Staged)
    assert len(staged_ids(old, staged)) == 1
    assert staged.manifest.losses


def test_events_behind_a_cut_batch_are_not_lost_silently(bus: Emulator, consumer: Consumer) -> None:
    """Events that `max_events` left on the bus, and that expire there, are in a loss window.

    The batch's fetch began less than a day before, but it did not see that no event followed.
    """
    topic = bus.define_event("Old__e", {"Number__c": "Double"}, standard_volume=True)
    old = replace(consumer, topic=topic, bounds=Bounds(idle_seconds=1.5, max_events=3))
    bus.publish(topic, [{"Number__c": float(number)} for number in range(7)])
    bus.clock.advance(hours=2)
    old.run_once()
    bus.clock.advance(hours=23)
    age_records(old, 23)
    bus.publish(topic, [{"Number__c": 7.0}])

    batches = [old.run_once() for _ in range(3)]

    staged = [one for one in batches if isinstance(one, Staged)]
    assert [len(one.manifest.losses) for one in staged if one.manifest.losses] == [1]


def test_a_wrong_start_of_a_first_run_is_refused(bus: Emulator, consumer: Consumer) -> None:
    """A replay id that a user gives, and that the service does not have, is an error."""
    publish(bus, 1, 1)
    consumer.initial_replay = f"{2**40:016x}"
    with pytest.raises(ReplayIdRefusedError, match="is the task's initial_replay"):
        consumer.stage()


def test_a_run_without_events_counts_as_listening(bus: Emulator, consumer: Consumer) -> None:
    """A run that finds nothing records its time, so that an expired replay id loses nothing."""
    publish(bus, 1, 1)
    consumer.run_once()
    age_records(consumer, 96)
    assert isinstance(consumer.run_once(), Empty)
    assert consumer.position.resume_after == consumer.position.replay_id
    bus.clock.advance(hours=96)
    publish(bus, 2, 1)

    staged = consumer.run_once()

    assert isinstance(staged, Staged)
    assert (staged.manifest.events, staged.manifest.losses) == (1, ())


def test_a_long_wait_records_its_silence(bus: Emulator, consumer: Consumer, waiter: Waiter) -> None:
    """An answer without events is a keepalive: beside the batches stands how long it was quiet."""
    publish(bus, 1, 1)
    consumer.run_once()
    next_batch = waiter.next_batch()
    folder = next_batch.topic_folder(waiter.area).folder

    async def run() -> None:
        listening = asyncio.create_task(waiter.wait(next_batch))
        await until(lambda: keepalive_point.read(folder))
        listening.cancel()
        await asyncio.wait([listening])

    asyncio.run(run())
    point = keepalive_point.read(folder)
    assert point is not None
    assert point.replay_id == consumer.position.replay_id


@pytest.mark.parametrize(
    ("answered", "silences"),
    [(0, 0), (3, 0), (4, 1)],
    ids=["never subscribed", "answered at once", "session lost"],
)
def test_a_wait_that_ends_during_an_outage_shows_no_silence(
    bus: Emulator, consumer: Consumer, answered: int, silences: int
) -> None:
    """A wait that is stopped while the service is away has no keepalive of that moment.

    Nor has the first connect of a session, which is answered at once.
    """
    publish(bus, 1, 1)
    consumer.run_once()
    keepalives: list[str] = []
    bus.fail_next("cometd", status="UNAVAILABLE", after=answered, times=1000)

    async def receive(_: object) -> None:
        raise AssertionError("there is no event")

    async def keep(replay_id: str) -> None:
        keepalives.append(replay_id)

    async def run() -> None:
        stop = asyncio.Event()
        start = consumer.position.start
        async with StreamingTopicClient(consumer.settings) as client:
            fetch = client.fetch(
                TOPIC, start, Bounds(idle_seconds=90), receive, stop=stop, on_keepalive=keep
            )
            waiting = asyncio.create_task(fetch)
            await until(lambda: any(one.times < 999 for one in bus.faults()))
            stop.set()
            await waiting

    asyncio.run(run())
    assert len(keepalives) == silences


def test_latest_in_a_wait(bus: Emulator, consumer: Consumer, waiter: Waiter) -> None:
    """A poke at `latest` pins its time; events after it land, those before it do not."""
    publish(bus, 1, 2)
    bus.clock.advance(seconds=5)
    consumer.initial_replay = "latest"
    assert not waiter.poke().enough
    assert consumer.position.start.not_before is not None
    publish(bus, 3, 1)

    staged = consumer.run_once()

    assert isinstance(staged, Staged)
    assert staged.manifest.events == 1
    assert consumer.position.replay_id == staged_ids(consumer, staged)[-1]


KILLED_AT = (
    (steps.POSITION_BEGUN, 1),
    (steps.DELIVERED, 2),
    (steps.MANIFEST_WRITTEN, 1),
)
OTHERWISE_KILLED_AT = (
    (steps.AUTHENTICATED, 1),
    (steps.ORIGIN_WRITTEN, 1),
    (steps.LEASED, 1),
    (steps.DELIVERED, 1),
    (steps.SCHEMA_KEPT, 1),
    (steps.PART_CLOSED, 1),
    (steps.MANIFEST_NEXT, 1),
    (steps.CARRY_OVER_NEXT, 1),
    (steps.CARRY_OVER_LEASED, 1),
)


@pytest.mark.parametrize(
    ("start", "step", "nth"),
    [
        *(("earliest", *point) for point in KILLED_AT),
        *(
            pytest.param(start, *point, marks=pytest.mark.full)
            for start, points in (
                ("earliest", OTHERWISE_KILLED_AT),
                ("latest", KILLED_AT[1:] + OTHERWISE_KILLED_AT[2:]),
            )
            for point in points
        ),
    ],
)
def test_a_kill_anywhere_loses_and_doubles_nothing(
    bus: Emulator, consumer: Consumer, start: str, step: str, nth: int
) -> None:
    """A task that is killed at any step of its fetch leaves each event for one batch.

    At `latest` the events come after a first run that found none.
    """
    consumer.initial_replay = start
    consumer.bounds = Bounds(idle_seconds=1.5, max_events=5)
    published = publish(bus, 1, 2)
    if start == "latest":
        published.clear()
        bus.clock.advance(seconds=5)
        assert isinstance(consumer.run_once(), Empty)
    published += publish(bus, 3, 6)

    kill_at(consumer, step, nth)

    found: list[str] = []
    while isinstance(batch := consumer.run_once(), Staged):
        assert batch.manifest.events <= 5
        found += staged_ids(consumer, batch)
    assert len(found) == len(set(found)) == len(published)


def test_waits_take_turns(bus: Emulator, consumer: Consumer, tmp_path: Path) -> None:
    """With one session for three waits, each gets its event while the others are silent."""
    topics = [bus.define_event(f"Turn{one}__e", {"Number__c": "Double"}) for one in range(3)]
    waiters = [
        Waiter(
            consumer=replace(
                consumer, topic=topic, positions={}, root=tmp_path / topic[-7:], sessions=1
            )
        )
        for topic in topics
    ]
    batches = [one.next_batch() for one in waiters]

    async def run() -> list[int]:
        waits = [
            asyncio.create_task(one.wait(batch))
            for one, batch in zip(waiters, batches, strict=True)
        ]
        found = []
        for topic, wait in zip(reversed(topics), reversed(waits), strict=True):
            await asyncio.to_thread(bus.publish, topic, [{"Number__c": 1.0}])
            found.append((await wait).events)
        return found

    assert asyncio.run(run()) == [1, 1, 1]


@pytest.mark.parametrize(
    "status",
    ["NOT_FOUND", "UNAVAILABLE", "UNAUTHENTICATED"],
    ids=["session lost", "busy", "token refused"],
)
@pytest.mark.parametrize("after", [0, 2, 3, 4])
def test_a_fault_at_any_request_loses_nothing(
    bus: Emulator, consumer: Consumer, status: str, after: int
) -> None:
    """Whichever request fails, the batch has each event once."""
    publish(bus, 1, 7)
    consumer.bounds = Bounds(idle_seconds=30, max_events=7)
    bus.fail_next("cometd", status=status, after=after)

    assert len(set(staged_ids(consumer, consumer.run_once()))) == 7


def test_a_connect_that_never_works_is_not_silence(bus: Emulator, consumer: Consumer) -> None:
    """A run whose sessions are lost before their first connect fails, instead of "no event"."""
    consumer.bounds = Bounds(idle_seconds=30, max_seconds=1.5)
    bus.fail_next("cometd", how="cookies", after=1)
    for _ in range(500):
        bus.fail_next("cometd", how="cookies", after=2)

    with pytest.raises(TransportError, match="403::Unknown client"):
        consumer.stage()

    assert len(bus.requests) < 20


def test_a_topic_that_is_not_there(bus: Emulator, consumer: Consumer) -> None:
    """The subscription's refusal names the topic."""
    other = replace(consumer, topic="/event/Other__e")
    with pytest.raises(TopicError, match="/event/Other__e"):
        other.stage()


def test_a_token_that_expired_is_renewed_once(bus: Emulator, consumer: Consumer) -> None:
    """A token that the service does not take any more is renewed, and nothing is lost."""
    publish(bus, 1, 1)
    consumer.run_once()
    bus.expire_tokens()
    publish(bus, 2, 1)

    assert len(staged_ids(consumer, consumer.run_once())) == 1
