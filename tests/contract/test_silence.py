"""Silence on a stream: keepalives, closing without credit, half-close."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.contract.wire import StreamError

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest


def test_a_silent_stream_gets_keepalives(org: OrgUnderTest) -> None:
    """Within 270 s an empty response has a replay id and uses no credit.

    Source: Subscribe RPC page.
    """
    org.wait_long(org.times.keepalive)
    with org.after(org.base(), 7) as stream:
        response = stream.read(org.times.keepalive + org.times.slack)
    assert not response.events
    assert len(response.latest_replay_id) >= 8  # Salesforce's Node client reads so many
    assert response.rpc_id
    assert response.pending_num_requested == 7


def test_a_keepalives_replay_id_is_a_start(org: OrgUnderTest) -> None:
    """A keepalive's id is after the last event and before the next. Source: Subscribe RPC page."""
    org.wait_long(org.times.keepalive)
    with org.after(org.base(), 1) as stream:
        place = stream.read(org.times.keepalive + org.times.slack).latest_replay_id
    event = org.event()
    org.publish(event)
    with org.after(place, 1) as stream:
        assert [one.event.id for one in stream.take(1)] == [event.id]


@pytest.mark.full
def test_keepalives_hold_a_stream_open(org: OrgUnderTest) -> None:
    """A stream with outstanding events outlives 60 s of silence. Source: Subscribe RPC page."""
    org.wait_long(3 * org.times.keepalive)
    with org.after(org.base(), 1) as stream:
        for _ in range(3):
            assert not stream.read(org.times.keepalive + org.times.slack).events


def test_latest_says_nothing_before_the_first_keepalive(org: OrgUnderTest) -> None:
    """A subscription is not acknowledged. Source: live logs."""
    with org.client.subscribe(
        topic_name=org.topic, replay_preset=pb.LATEST, num_requested=1
    ) as stream:
        assert stream.is_silent(min(20.0, org.times.keepalive / 4))


def test_a_stream_without_credit_is_closed(org: OrgUnderTest) -> None:
    """Without credit a stream ends after 60 s; its status is not documented.

    Source: Subscribe RPC page.
    """
    org.wait_long(org.times.idle_close)
    base = org.base()
    org.publish(org.event())
    with org.after(base, 1) as stream:
        stream.take(1)
        assert stream.end(org.times.idle_close + org.times.slack).status in {"OK", "UNAVAILABLE"}


def test_asking_again_keeps_a_stream_open(org: OrgUnderTest) -> None:
    """A request within the 60 s keeps the stream open. Source: Subscribe RPC page."""
    base = org.base()
    first, second = org.publish(org.event(), org.event())
    with org.after(base, 1) as stream:
        assert [one.replay_id for one in stream.take(1)] == [first]
        assert stream.is_silent(org.times.idle_close / 4)
        stream.ask(num_requested=1)
        assert [one.replay_id for one in stream.take(1)] == [second]


@pytest.mark.parametrize("waiting", [0, 3], ids=["nothing waits", "events wait"])
def test_a_half_closed_stream_ends_with_ok(org: OrgUnderTest, waiting: int) -> None:
    """A half-closed stream soon ends with OK, despite deliverable events. Source: live logs."""
    base = org.base()
    with org.after(base, 5) as stream:
        org.publish(*(org.event() for _ in range(waiting))) if waiting else None
        stream.half_close()
        assert stream.end(org.times.half_close + org.times.slack).status == "OK"


@pytest.mark.full
def test_a_stream_survives_the_end_of_its_session(org: OrgUnderTest) -> None:
    """The token is checked only when a stream begins. Source: Use gRPC APIs page."""
    with org.set_up("its session would have to expire") as other:
        assert other.emulator
        with other.after(other.base(), 1) as stream:
            assert not stream.read(other.times.keepalive + other.times.slack).events
            other.emulator.expire_tokens()
            assert not stream.read(other.times.keepalive + other.times.slack).events


@pytest.mark.full
def test_a_running_stream_ends_with_its_session(org: OrgUnderTest) -> None:
    """The token is checked throughout a stream. Source: live logs of one client."""
    with org.set_up("its session would have to expire") as other:
        assert other.emulator
        with other.after(other.base(), 1) as stream:
            assert not stream.read(other.times.keepalive + other.times.slack).events
            other.emulator.expire_tokens()
            with pytest.raises(StreamError, match=r"UNAUTHENTICATED.*service\.auth\.error"):
                stream.read(other.times.keepalive + other.times.slack)
