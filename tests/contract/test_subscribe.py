"""Subscribe: requests, credit, responses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.contract.test_headers import UUID
from tests.contract.wire import StreamError

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

CODE = "subscription.fetch."


def _ids(events: list[Any]) -> list[str]:
    return [one.event.id for one in events]


def test_what_is_published_is_delivered(org: OrgUnderTest) -> None:
    """An event has its id, schema, bytes and the replay id of its publication.

    Source: Subscribe RPC page.
    """
    base, event = org.base(), org.event("delivered")
    [replay_id] = org.publish(event)
    with org.after(base, 1) as stream:
        [got] = stream.take(1)
    assert (got.event.id, got.event.schema_id) == (event.id, event.schema_id)
    assert got.event.payload == event.payload
    assert got.replay_id == replay_id


def test_events_come_in_the_order_of_their_request(org: OrgUnderTest) -> None:
    """Events of one publish request are delivered in order. Source: Subscribe RPC page."""
    base, events = org.base(), [org.event(str(number)) for number in range(5)]
    org.publish(*events)
    with org.after(base, 5) as stream:
        assert _ids(stream.take(5)) == [one.id for one in events]


def test_replay_ids_grow(org: OrgUnderTest) -> None:
    """Within a stream each replay id is above the one before.

    Source: Subscribe RPC page, live logs (ten bytes, big-endian).
    """
    base = org.base()
    org.publish(*(org.event() for _ in range(5)))
    with org.after(base, 5) as stream:
        replay_ids = [one.replay_id for one in stream.take(5)]
    assert replay_ids == sorted(set(replay_ids))


def test_a_replay_id_has_ten_bytes(org: OrgUnderTest) -> None:
    """A replay id is a 64-bit number and two zero bytes. Source: Live logs since September 2022."""
    replay_id = org.base()
    assert (len(replay_id), replay_id[-2:]) == (10, b"\0\0")


def test_no_more_comes_than_was_asked_for(org: OrgUnderTest) -> None:
    """Two requested events are delivered, and nothing stays outstanding.

    Source: Pull Subscription and Flow Control page.
    """
    base = org.base()
    org.publish(*(org.event() for _ in range(4)))
    with org.after(base, 2) as stream:
        got, pending = 0, 2
        while got < 2:
            response = stream.read()
            got, pending = got + len(response.events), response.pending_num_requested
        assert (got, pending) == (2, 0)
        assert stream.is_silent(min(1.0, org.times.idle_close / 2))


def test_each_response_tells_what_is_outstanding(org: OrgUnderTest) -> None:
    """`pending_num_requested` is requested less delivered, including this response.

    Source: .proto.
    """
    base = org.base()
    org.publish(*(org.event() for _ in range(5)))
    with org.after(base, 10) as stream:
        got = 0
        while got < 5:
            response = stream.read()
            got += len(response.events)
            assert response.pending_num_requested == 10 - got


def test_requests_add_up(org: OrgUnderTest) -> None:
    """A later request adds to the outstanding number.

    Source: Pull Subscription and Flow Control page.
    """
    base = org.base()
    with org.after(base, 3) as stream:
        stream.ask(topic_name=org.topic, num_requested=4)
        org.publish(*(org.event() for _ in range(5)))
        got, pending = 0, 7
        while got < 5:
            response = stream.read()
            got, pending = got + len(response.events), response.pending_num_requested
        assert (got, pending) == (5, 2)


def test_more_than_100_outstanding_is_treated_as_100(org: OrgUnderTest) -> None:
    """A request for 150 leaves 99 after one event.

    Source: Pull Subscription and Flow Control page.
    """
    base = org.base()
    org.publish(org.event())
    with org.after(base, 150) as stream:
        assert stream.read().pending_num_requested == 99


def test_requests_add_up_to_100(org: OrgUnderTest) -> None:
    """Requests for 60 and 60 leave 99 after one event.

    Source: Pull Subscription and Flow Control page.
    """
    base = org.base()
    with org.after(base, 60) as stream:
        stream.ask(num_requested=60)
        org.publish(org.event())
        first = stream.read().pending_num_requested
        org.publish(org.event())
        second = stream.read().pending_num_requested
    # The second request may be behind the first event, or even behind both.
    assert (first, second) in {(99, 98), (59, 99), (59, 58)}


def test_more_than_100_outstanding_is_refused(org: OrgUnderTest) -> None:
    """Too many outstanding events are refused with the overflow code.

    Source: Comment of a client in production.
    """
    with org.after(org.base(), 101) as stream:
        org.publish(org.event())
        with pytest.raises(StreamError, match=CODE + "overflow"):
            stream.read()


@pytest.mark.parametrize("number", [0, -1])
def test_asking_for_nothing_is_refused(org: OrgUnderTest, number: int) -> None:
    """`num_requested` must be above zero. Source: Handle Errors page."""
    with org.client.subscribe(topic_name=org.topic, num_requested=number) as stream:
        assert stream.end().what == ("INVALID_ARGUMENT", CODE + "requested.events.invalid")


def test_later_requests_ask_for_something_too(org: OrgUnderTest) -> None:
    """A later request for zero events ends the stream. Source: Handle Errors page."""
    with org.after(org.base(), 1) as stream:
        stream.ask(topic_name=org.topic, num_requested=0)
        assert stream.end().what == ("INVALID_ARGUMENT", CODE + "requested.events.invalid")


def test_the_first_request_names_the_topic(org: OrgUnderTest) -> None:
    """A first request without a topic is refused. Source: Handle Errors page."""
    with org.client.subscribe(num_requested=1) as stream:
        assert stream.end().what == ("INVALID_ARGUMENT", "topic.validation.empty")


def test_an_unknown_topic_ends_the_stream(org: OrgUnderTest) -> None:
    """An unknown topic is refused with one of two codes.

    Source: Handle Errors page and live logs, which differ.
    """
    with org.client.subscribe(topic_name="/event/No_Such__e", num_requested=1) as stream:
        assert stream.end().what in {
            ("NOT_FOUND", "topic.not.found"),
            ("PERMISSION_DENIED", "topic.meta.permission"),
        }


@pytest.mark.parametrize("omitted", [True, False])
def test_later_requests_may_omit_the_topic(org: OrgUnderTest, omitted: bool) -> None:
    """Later requests may omit or repeat the topic. Source: .proto, Subscribe RPC page."""
    base = org.base()
    org.publish(org.event(), org.event())
    with org.after(base, 1) as stream:
        stream.take(1)
        stream.ask(topic_name="" if omitted else org.topic, num_requested=1)
        assert len(stream.take(1)) == 1


def test_another_topic_in_a_stream_is_refused(org: OrgUnderTest) -> None:
    """A stream accepts one topic only. Source: .proto, Handle Errors page."""
    with org.after(org.base(), 1) as stream:
        stream.ask(topic_name="/event/Other__e", num_requested=1)
        assert stream.end().what == ("INVALID_ARGUMENT", CODE + "topic.mismatch")


def test_replay_arguments_count_in_the_first_request_alone(org: OrgUnderTest) -> None:
    """Later replay arguments have no effect. Source: .proto."""
    base = org.base()
    first, second = org.publish(org.event(), org.event())
    with org.after(base, 1) as stream:
        assert [one.replay_id for one in stream.take(1)] == [first]
        stream.ask(replay_preset=pb.CUSTOM, replay_id=base, num_requested=1)
        assert [one.replay_id for one in stream.take(1)] == [second]


def test_responses_have_the_last_events_replay_id(org: OrgUnderTest) -> None:
    """`latest_replay_id` is the last event's replay id. Source: live logs."""
    base = org.base()
    org.publish(org.event(), org.event())
    with org.after(base, 2) as stream:
        got = 0
        while got < 2:
            response = stream.read()
            got += len(response.events)
            assert response.latest_replay_id == response.events[-1].replay_id


def test_responses_have_the_rpc_id(org: OrgUnderTest) -> None:
    """Each response names its call. Source: .proto."""
    base = org.base()
    org.publish(org.event())
    with org.after(base, 1) as stream:
        assert re.fullmatch(UUID, stream.read().rpc_id)


def test_each_of_two_streams_gets_every_event(org: OrgUnderTest) -> None:
    """Two streams of a topic each get every event. Source: Allocations page."""
    base, event = org.base(), org.event()
    org.publish(event)
    with org.after(base, 1) as one, org.after(base, 1) as other:
        assert _ids(one.take(1)) == _ids(other.take(1)) == [event.id]


def test_a_channel_carries_its_members_events(org: OrgUnderTest) -> None:
    """A channel's events have their own topic's replay id and schema id.

    Source: Custom channels page, live logs.
    """
    channel, base, event = org.need("channel"), org.base(), org.event()
    [replay_id] = org.publish(event)
    with org.after(base, 1, topic=channel) as stream:
        [got] = stream.take(1)
    assert (got.event.id, got.event.schema_id) == (event.id, event.schema_id)
    assert got.replay_id == replay_id
