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
NOWHERE = b""


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
    """Ids grow across topics, have ten bytes, and are not contiguous; a channel shows the same ids."""
    bus = _bus(clock)
    ids = [_publish(bus, topic, b"x")[0] for topic in [A, B] * 50]
    numbers = [int.from_bytes(one[:8], "big") for one in ids]
    assert {len(one) for one in ids} == {10}
    assert numbers == sorted(set(numbers))
    assert numbers[-1] - numbers[0] > len(numbers) - 1
    assert [bus.replay_id(event.position) for event in bus.read(BOTH, 0, 1000)] == ids


def test_the_same_seed_gives_the_same_ids(clock: EmulatorClock) -> None:
    """Ids repeat from run to run, but not from org to org."""
    first, second = _publish(_bus(clock), A, b"x", b"y"), _publish(_bus(clock), A, b"x", b"y")
    other = Bus(name="other", clock=clock, knobs=Knobs())
    other.define(BusTopic(name=A, kind="event"))
    assert first == second
    assert _publish(other, A, b"x", b"y") != first


def test_a_start_is_strictly_after_its_id(clock: EmulatorClock) -> None:
    """CUSTOM begins after the id, EARLIEST with the oldest, LATEST with what is yet to come."""
    bus = _bus(clock)
    ids = _publish(bus, A, b"1", b"2", b"3")
    latest = bus.start(pb.LATEST, NOWHERE)
    _publish(bus, A, b"4")
    assert _payloads(bus, A, bus.start(pb.CUSTOM, ids[0])) == [b"2", b"3", b"4"]
    assert _payloads(bus, A, bus.start(pb.EARLIEST, NOWHERE)) == [b"1", b"2", b"3", b"4"]
    assert _payloads(bus, A, latest) == [b"4"]


def test_an_id_of_another_topic_is_a_start(clock: EmulatorClock) -> None:
    """Ids are places on the org's bus, whichever topic they were seen on; eight bytes will do."""
    bus = _bus(clock)
    [first] = _publish(bus, B, b"b")
    _publish(bus, A, b"a")
    assert _payloads(bus, A, bus.start(pb.CUSTOM, first[:8])) == [b"a"]


@pytest.mark.parametrize(
    "replay_id",
    [b"rubbish", b"\xff" * 10, (0).to_bytes(10, "big"), (2**40).to_bytes(8, "big") + b"\0\0"],
)
def test_ids_never_given_out_are_refused(clock: EmulatorClock, replay_id: bytes) -> None:
    """Malformed ids and places the bus never named end with the one code there is for it."""
    bus = _bus(clock)
    _publish(bus, A, b"1")
    with pytest.raises(RefusalError) as refused:
        bus.start(pb.CUSTOM, replay_id)
    assert refused.value.code == "subscription.fetch.replayid.corrupted"
    assert refused.value.status == "INVALID_ARGUMENT"


def test_an_id_between_two_events_is_refused(clock: EmulatorClock) -> None:
    """A gap in the sequence is no place, however near."""
    bus = _bus(clock)
    numbers = [int.from_bytes(one[:8], "big") for one in _publish(bus, A, *[b"x"] * 50)]
    between = next(number + 1 for number in numbers[:-1] if number + 1 not in numbers)
    with pytest.raises(RefusalError, match="corrupted"):
        bus.start(pb.CUSTOM, bus.replay_id(between))


def test_custom_without_an_id_is_refused(clock: EmulatorClock) -> None:
    """CUSTOM needs an id, and says so with a code of its own."""
    with pytest.raises(RefusalError, match=r"replayid\.validation\.failed"):
        _bus(clock).start(pb.CUSTOM, NOWHERE)


def test_events_age_out_after_72_hours(clock: EmulatorClock) -> None:
    """What is older is gone, and its id no longer a start; what is younger stays."""
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
    """EARLIEST may still find what is too old to be a start."""
    bus = _bus(clock, purge_late_hours=10)
    [old] = _publish(bus, A, b"old")
    clock.advance(hours=75)
    assert _payloads(bus, A, 0) == [b"old"]
    with pytest.raises(RefusalError, match="corrupted"):
        bus.start(pb.CUSTOM, old)


def test_a_keepalive_is_a_start_that_loses_nothing(clock: EmulatorClock) -> None:
    """A keepalive's place lies after all that was published and before all that will be; it ages like any other."""
    bus = _bus(clock)
    [before] = _publish(bus, A, b"before")
    keepalive = _keepalive(bus, bus.start(pb.CUSTOM, before))
    _publish(bus, A, b"after")
    assert _payloads(bus, A, bus.start(pb.CUSTOM, keepalive)) == [b"after"]
    clock.advance(hours=73)
    with pytest.raises(RefusalError, match="corrupted"):
        bus.start(pb.CUSTOM, keepalive)


def test_without_drift_a_keepalive_repeats_the_last_id(clock: EmulatorClock) -> None:
    """The knob keeps the bus from moving by itself."""
    bus = _bus(clock, keepalive_drift=False)
    [last] = _publish(bus, A, b"1")
    assert _keepalive(bus, bus.start(pb.CUSTOM, last)) == last


def test_no_keepalive_while_an_event_waits(clock: EmulatorClock) -> None:
    """A place beyond an event the stream has not had would lose that event for whoever starts there."""
    bus = _bus(clock)
    first, _ = _publish(bus, A, b"had", b"waits")
    assert bus.keepalive_position(A, bus.start(pb.CUSTOM, first)) is None
    assert bus.keepalive_position(B, bus.start(pb.CUSTOM, first))


def test_a_channel_carries_the_past_of_its_members(clock: EmulatorClock) -> None:
    """A channel defined later shows what is on the bus, in order."""
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
    """Events go to defined topics, not to channels."""
    with pytest.raises(EmulatorError, match=why):
        _publish(_bus(clock), topic, b"x")


def test_listeners_hear_of_events_until_they_end(clock: EmulatorClock) -> None:
    """A stream is woken by what is published, and no longer when it is gone."""
    bus, heard = _bus(clock), []
    end = bus.listen(lambda: heard.append(1))
    _publish(bus, A, b"1")
    end()
    _publish(bus, A, b"2")
    assert heard == [1]


def test_listeners_hear_of_their_own_topic(clock: EmulatorClock) -> None:
    """A stream is not woken by other topics' events, but by those of its channel's members, and when nobody is named."""
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
    """What ages out between two others goes when it is due, not with the first or the last."""
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
    """No more events are read than were asked for."""
    bus = _bus(clock)
    _publish(bus, A, b"1", b"2", b"3")
    assert _payloads(bus, A, 0, limit=2) == [b"1", b"2"]
