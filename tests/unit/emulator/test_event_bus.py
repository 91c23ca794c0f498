"""The bus keeps order, ids and retention as documented."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import EmulatorError, RefusalError
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

A, B, BOTH = "/event/A__e", "/event/B__e", "/event/Both__chn"


@pytest.fixture
def clock() -> EmulatorClock:
    return EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))


def _bus(clock: EmulatorClock, **knobs: object) -> Bus:
    bus = Bus(name="00D", clock=clock, knobs=Knobs(**knobs))  # type: ignore[arg-type]
    bus.define(BusTopic(name=A, kind="event", record="A__e", schema_id="a"))
    bus.define(BusTopic(name=B, kind="event", record="B__e", schema_id="b"))
    bus.define(BusTopic(name=BOTH, kind="channel", members=(A, B)))
    return bus


def _publish(bus: Bus, topic: str, *payloads: bytes) -> list[bytes]:
    return bus.append(topic, [EncodedEvent(payload.decode(), "s", payload) for payload in payloads])


def _payloads(bus: Bus, topic: str, after: int, limit: int = 100) -> list[bytes]:
    return [
        pb.FetchResponse.FromString(e.wire).events[0].event.payload
        for e in bus.read(topic, after, limit)
    ]


def _keepalive(bus: Bus, after: int) -> bytes:
    place = bus.keepalive_position(A, after)
    assert place
    return bus.replay_id(place)


def test_one_sequence_for_all_topics(clock: EmulatorClock) -> None:
    """Replay ids grow across topics, have ten bytes and gaps; a channel shows the same ids."""
    bus = _bus(clock)
    ids = [_publish(bus, topic, b"x")[0] for topic in [A, B] * 50]
    numbers = [int.from_bytes(one[:8], "big") for one in ids]
    assert {len(one) for one in ids} == {10}
    assert numbers == sorted(set(numbers))
    assert numbers[-1] - numbers[0] > len(numbers) - 1
    assert [bus.replay_id(event.position) for event in bus.read(BOTH, 0, 1000)] == ids


def test_the_same_seed_gives_the_same_ids(clock: EmulatorClock) -> None:
    """Replay ids repeat from run to run, but differ between orgs."""
    first, second = _publish(_bus(clock), A, b"x", b"y"), _publish(_bus(clock), A, b"x", b"y")
    other = Bus(name="other", clock=clock, knobs=Knobs())
    other.define(BusTopic(name=A, kind="event"))
    assert first == second
    assert _publish(other, A, b"x", b"y") != first


def test_an_id_of_another_topic_is_a_start(clock: EmulatorClock) -> None:
    """A replay id of any topic of the org is a valid start, also with eight bytes."""
    bus = _bus(clock)
    [first] = _publish(bus, B, b"b")
    _publish(bus, A, b"a")
    assert _payloads(bus, A, bus.start(pb.CUSTOM, first[:8])) == [b"a"]


@pytest.mark.parametrize(
    "replay_id",
    [b"rubbish", b"\xff" * 10, (0).to_bytes(10, "big"), (2**40).to_bytes(8, "big") + b"\0\0"],
)
def test_ids_never_given_out_are_refused(clock: EmulatorClock, replay_id: bytes) -> None:
    """Malformed and never issued replay ids are refused with the same code."""
    bus = _bus(clock)
    _publish(bus, A, b"1")
    with pytest.raises(RefusalError) as refused:
        bus.start(pb.CUSTOM, replay_id)
    assert refused.value.code == "subscription.fetch.replayid.corrupted"
    assert refused.value.status == "INVALID_ARGUMENT"


def test_an_id_between_two_events_is_refused(clock: EmulatorClock) -> None:
    """A number in a gap between two replay ids is no valid start."""
    bus = _bus(clock)
    numbers = [int.from_bytes(one[:8], "big") for one in _publish(bus, A, *[b"x"] * 50)]
    between = next(number + 1 for number in numbers[:-1] if number + 1 not in numbers)
    with pytest.raises(RefusalError, match="corrupted"):
        bus.start(pb.CUSTOM, bus.replay_id(between))


def test_events_age_out_after_72_hours(clock: EmulatorClock) -> None:
    """Older events are gone and their ids are no starts; younger events stay."""
    bus = _bus(clock)
    [old] = _publish(bus, A, b"old")
    clock.advance(hours=71)
    [young] = _publish(bus, A, b"young")
    assert _payloads(bus, A, bus.start(pb.CUSTOM, old)) == [b"young"]
    clock.advance(hours=2)
    assert _payloads(bus, A, 0) == _payloads(bus, BOTH, 0) == [b"young"]
    assert bus.start(pb.CUSTOM, young)
    with pytest.raises(RefusalError, match="corrupted"):
        bus.start(pb.CUSTOM, old)


def test_the_purge_may_be_late(clock: EmulatorClock) -> None:
    """EARLIEST may still return events that are too old as a start."""
    bus = _bus(clock, purge_late_hours=10)
    [old] = _publish(bus, A, b"old")
    clock.advance(hours=75)
    assert _payloads(bus, A, 0) == [b"old"]
    with pytest.raises(RefusalError, match="corrupted"):
        bus.start(pb.CUSTOM, old)


def test_a_keepalive_is_a_start_that_loses_nothing(clock: EmulatorClock) -> None:
    """A keepalive's id is between past and future events, and expires like any id."""
    bus = _bus(clock)
    [before] = _publish(bus, A, b"before")
    keepalive = _keepalive(bus, bus.start(pb.CUSTOM, before))
    _publish(bus, A, b"after")
    assert _payloads(bus, A, bus.start(pb.CUSTOM, keepalive)) == [b"after"]
    clock.advance(hours=73)
    with pytest.raises(RefusalError, match="corrupted"):
        bus.start(pb.CUSTOM, keepalive)


def test_without_drift_a_keepalive_repeats_the_last_id(clock: EmulatorClock) -> None:
    """With the knob off, a keepalive does not advance the bus."""
    bus = _bus(clock, keepalive_drift=False)
    [last] = _publish(bus, A, b"1")
    assert _keepalive(bus, bus.start(pb.CUSTOM, last)) == last


def test_no_keepalive_while_an_event_waits(clock: EmulatorClock) -> None:
    """No keepalive is issued while an event waits, which a start after it would lose."""
    bus = _bus(clock)
    first, _ = _publish(bus, A, b"had", b"waits")
    assert bus.keepalive_position(A, bus.start(pb.CUSTOM, first)) is None
    assert bus.keepalive_position(B, bus.start(pb.CUSTOM, first))


def test_a_channel_carries_the_past_of_its_members(clock: EmulatorClock) -> None:
    """A channel that is defined later carries the retained events, in order."""
    bus = _bus(clock)
    _publish(bus, A, b"1")
    _publish(bus, B, b"2")
    _publish(bus, A, b"3")
    bus.define(BusTopic(name="/event/Late__chn", kind="channel", members=(B, A)))
    assert _payloads(bus, "/event/Late__chn", 0) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("topic", "why"), [(BOTH, "is a channel"), ("/event/Nope__e", "was never defined")]
)
def test_publishing_nowhere_is_refused(clock: EmulatorClock, topic: str, why: str) -> None:
    """Events can be published to defined topics only, not to channels."""
    with pytest.raises(EmulatorError, match=why):
        _publish(_bus(clock), topic, b"x")


def test_listeners_hear_of_events_until_they_end(clock: EmulatorClock) -> None:
    """A listener is called for published events until it unsubscribes."""
    bus, heard = _bus(clock), []
    end = bus.listen(lambda: heard.append(1))
    _publish(bus, A, b"1")
    end()
    _publish(bus, A, b"2")
    assert heard == [1]


def test_listeners_hear_of_their_own_topic(clock: EmulatorClock) -> None:
    """A listener is called for its topic, its channel's members, and a call without topics."""
    bus = _bus(clock)
    heard: list[str] = []
    for topic in (A, B, BOTH):
        bus.listen(partial(heard.append, topic), topic)
    _publish(bus, A, b"1")
    assert set(heard) == {A, BOTH}
    heard.clear()
    bus.wake()
    assert set(heard) == {A, B, BOTH}


def test_each_age_is_noticed_in_its_time(clock: EmulatorClock) -> None:
    """Each event expires at its own time, not with the first or the last one."""
    bus = _bus(clock)
    for payload in (b"1", b"2", b"3"):
        _publish(bus, A, payload)
        clock.advance(hours=10)
    clock.advance(hours=43)
    assert _payloads(bus, A, 0) == [b"2", b"3"]
    clock.advance(hours=10)
    assert _payloads(bus, A, 0) == [b"3"]
    clock.advance(hours=10)
    assert _payloads(bus, A, 0) == []


def test_reading_is_bounded(clock: EmulatorClock) -> None:
    """A read returns at most the requested number of events."""
    bus = _bus(clock)
    _publish(bus, A, b"1", b"2", b"3")
    assert _payloads(bus, A, 0, limit=2) == [b"1", b"2"]
