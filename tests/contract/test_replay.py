"""Starts of a subscription: presets, replay ids and retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.contract.wire import StreamError

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

CORRUPTED = ("INVALID_ARGUMENT", "subscription.fetch.replayid.corrupted")
HOURS_KEPT = 72


def test_custom_starts_strictly_after(org: OrgUnderTest) -> None:
    """CUSTOM does not deliver the event with the given id. Source: Subscribe RPC page."""
    first, second = org.publish(org.event(), org.event())
    with org.after(first, 1) as stream:
        assert [one.replay_id for one in stream.take(1)] == [second]


def test_eight_bytes_of_a_replay_id_will_do(org: OrgUnderTest) -> None:
    """A replay id without its two zero bytes is the same start.

    Source: Salesforce's Node client, live logs.
    """
    first, second = org.publish(org.event(), org.event())
    with org.after(first[:8], 1) as stream:
        assert [one.replay_id for one in stream.take(1)] == [second]


def test_earliest_begins_with_the_oldest_event(org: OrgUnderTest) -> None:
    """EARLIEST starts with retained events, not with the last one. Source: Subscribe RPC page."""
    first, last = org.publish(org.event(), org.event())
    with org.client.subscribe(
        topic_name=org.topic, replay_preset=pb.EARLIEST, num_requested=1
    ) as stream:
        [got] = stream.take(1)
    assert got.replay_id <= first < last


def test_latest_begins_with_what_comes_next(org: OrgUnderTest) -> None:
    """LATEST does not deliver earlier events. Source: Subscribe RPC page."""
    org.publish(org.event("before"))
    with org.client.subscribe(
        topic_name=org.topic, replay_preset=pb.LATEST, num_requested=1
    ) as stream:
        org.begun(stream)
        event = org.event("after")
        org.publish(event)
        assert [one.event.id for one in stream.take(1)] == [event.id]


def test_latest_is_what_is_meant_by_saying_nothing(org: OrgUnderTest) -> None:
    """A first request without a preset means LATEST. Source: .proto."""
    org.publish(org.event("before"))
    with org.client.subscribe(topic_name=org.topic, num_requested=1) as stream:
        assert stream.is_silent(min(5.0, org.times.keepalive / 4))


def test_custom_without_a_replay_id_is_refused(org: OrgUnderTest) -> None:
    """CUSTOM without a replay id is refused. Source: Handle Errors page."""
    with org.after(b"", 1) as stream:
        assert stream.end().what == (
            "INVALID_ARGUMENT",
            "subscription.fetch.replayid.validation.failed",
        )


@pytest.mark.parametrize(
    "replay_id", [b"rubbish", b"\xff" * 10, b"\x00" * 7], ids=["text", "beyond", "short"]
)
def test_an_unknown_replay_id_is_refused(org: OrgUnderTest, replay_id: bytes) -> None:
    """Malformed ids and ids beyond the bus have the same code. Source: Handle Errors page."""
    with org.after(replay_id, 1) as stream:
        found = stream.end()
    assert found.what == CORRUPTED
    assert "Replay ID validation failed" in found.message


def test_a_replay_id_of_before_retention_is_refused(org: OrgUnderTest) -> None:
    """A replay id older than 72 hours is refused like a malformed one.

    Source: Event message durability page.
    """
    with org.set_up("it takes a replay id of four days ago") as other:
        assert other.emulator
        old = other.base()
        other.emulator.clock.advance(hours=HOURS_KEPT + 1)
        with other.client.with_headers(other.door.headers(other.http)).subscribe(
            topic_name=other.topic, replay_preset=pb.CUSTOM, replay_id=old, num_requested=1
        ) as stream:
            assert stream.end().what == CORRUPTED


def test_events_are_kept_for_72_hours(org: OrgUnderTest) -> None:
    """An event of 71 hours is still delivered. Source: event message durability page."""
    with org.set_up("it takes three days") as other:
        assert other.emulator
        event = other.event()
        other.publish(event)
        other.emulator.clock.advance(hours=HOURS_KEPT - 1)
        with other.client.with_headers(other.door.headers(other.http)).subscribe(
            topic_name=other.topic, replay_preset=pb.EARLIEST, num_requested=1
        ) as stream:
            assert [one.event.id for one in stream.take(1)] == [event.id]


def test_a_place_of_another_topic_is_a_place(org: OrgUnderTest) -> None:
    """A replay id of another topic is a valid start. Source: live logs."""
    topic = f"/data/{org.need('entity')}ChangeEvent"
    with (
        org.after(org.base(), 1, topic=topic) as stream,
        pytest.raises(StreamError, match="is open"),
    ):
        stream.read(min(5.0, org.times.keepalive / 4))


def test_one_event_under_two_replay_ids(org: OrgUnderTest) -> None:
    """A publisher's retry puts one event id on the bus twice.

    Source: Event message durability page.
    """
    base, event = org.base(), org.event()
    first, second = org.publish(event), org.publish(event)
    with org.after(base, 2) as stream:
        got = stream.take(2)
    assert [one.event.id for one in got] == [event.id, event.id]
    assert [one.replay_id for one in got] == [*first, *second]
