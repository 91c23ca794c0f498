"""Publish and PublishStream: results, ids and refusals."""

from __future__ import annotations

import io
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.contract.test_headers import UUID
from tests.contract.wire import refused

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

MEGABYTE = 1024 * 1024
WAYS = ("Publish", "PublishStream")


def publish(org: OrgUnderTest, way: str, *events: pb.ProducerEvent) -> Any:
    """Response to these events by either RPC."""
    if way == "Publish":
        return org.client.publish(org.topic, *events)
    org.counter.published += len(events)
    with org.client.publishing(topic_name=org.topic, events=events) as stream:
        return stream.read()


@pytest.mark.parametrize("way", WAYS)
def test_each_event_has_its_result_in_order(org: OrgUnderTest, way: str) -> None:
    """Each result has the event's id as correlation key, and a replay id.

    Source: .proto, Publish RPC page.
    """
    events = [org.event(str(number)) for number in range(3)]
    answer = publish(org, way, *events)
    assert [one.correlation_key for one in answer.results] == [one.id for one in events]
    assert all(one.replay_id for one in answer.results)
    assert not any(one.HasField("error") for one in answer.results)


@pytest.mark.parametrize("way", WAYS)
def test_the_answer_names_schema_and_call(org: OrgUnderTest, way: str) -> None:
    """The response has the topic's `schema_id` and the rpc id. Source: .proto."""
    answer = publish(org, way, org.event())
    assert answer.schema_id == org.schema_id
    assert re.fullmatch(UUID, answer.rpc_id)


def test_an_event_without_an_id_is_given_one(org: OrgUnderTest) -> None:
    """An event without an id gets a UUID, which is its correlation key.

    Source: .proto, event message durability page.
    """
    base = org.base()
    [result] = org.client.publish(org.topic, org.event(id="")).results
    assert str(uuid.UUID(result.correlation_key)) == result.correlation_key
    with org.after(base, 1) as stream:
        [got] = stream.take(1)
    assert (got.event.id, got.replay_id) == (result.correlation_key, result.replay_id)


def test_the_created_date_is_not_checked(org: OrgUnderTest) -> None:
    """CreatedDate may be in seconds, as in Salesforce's Python sample. Source: that sample."""
    assert org.publish(org.event(created=int(time.time())))


@pytest.mark.parametrize("way", WAYS)
def test_too_large_an_event_fails_alone(org: OrgUnderTest, way: str) -> None:
    """An event above 1 MB fails in its result; the others are published.

    Source: Publish RPC page, Allocations page.
    """
    small, large = org.event(), org.event(size=MEGABYTE + 1)
    first, second = publish(org, way, large, small).results
    assert (first.error.code, bool(first.error.msg)) == (pb.PUBLISH, True)
    assert second.replay_id
    assert not second.HasField("error")


@pytest.mark.parametrize("way", WAYS)
def test_a_request_above_four_megabytes_is_refused(org: OrgUnderTest, way: str) -> None:
    """A request above 4 MB gets UNAVAILABLE from the proxy, without an error code.

    Source: Allocations page, live logs.
    """
    events = [org.event(size=MEGABYTE - 1000) for _ in range(5)]
    if way == "Publish":
        assert refused(org.client.publish, org.topic, *events).what == ("UNAVAILABLE", "")
        return
    with org.client.publishing(topic_name=org.topic, events=events) as stream:
        assert stream.end().what == ("UNAVAILABLE", "")


def test_a_request_without_events_is_refused(org: OrgUnderTest) -> None:
    """A request without events is refused. Source: Handle Errors page."""
    found = refused(org.client.publish, org.topic)
    assert found.what == ("INVALID_ARGUMENT", "publish.event.count.invalid")


def test_a_request_without_a_topic_is_refused(org: OrgUnderTest) -> None:
    """A request without a topic is refused. Source: Handle Errors page."""
    found = refused(org.client.publish, "", org.event())
    assert found.what == ("INVALID_ARGUMENT", "publish.topic.validation.empty")


def test_an_unknown_topic_is_refused(org: OrgUnderTest) -> None:
    """An unknown topic is refused with one of two codes.

    Source: Handle Errors page and live logs, which differ.
    """
    assert refused(org.client.publish, "/event/No_Such__e", org.event()).what in {
        ("NOT_FOUND", "topic.not.found"),
        ("PERMISSION_DENIED", "topic.meta.permission"),
    }


def test_an_unknown_schema_fails_its_event(org: OrgUnderTest) -> None:
    """An event of an unknown schema fails in its result; its form is not documented.

    Source: Publish RPC page.
    """
    [result] = org.client.publish(org.topic, org.event(schema_id="A" * 22)).results
    assert result.HasField("error")


# --- PublishStream --------------------------------------------------------------------------------


def test_a_stream_publishes_again_and_again(org: OrgUnderTest) -> None:
    """Later requests may omit the topic, and each has a response.

    Source: PublishStream RPC page.
    """
    events = [org.event(str(number)) for number in range(3)]
    base = org.base()
    org.counter.published += 3
    with org.client.publishing() as stream:
        keys = []
        for number, event in enumerate(events):
            stream.ask(topic_name="" if number else org.topic, events=[event])
            keys += [one.correlation_key for one in stream.read().results]
    assert keys == [one.id for one in events]
    with org.after(base, 3) as stream:
        assert [one.event.id for one in stream.take(3)] == keys


def test_requests_need_not_wait_for_answers(org: OrgUnderTest) -> None:
    """Pipelined requests are answered in order. Source: PublishStream RPC page."""
    events = [org.event(str(number)) for number in range(4)]
    org.counter.published += 4
    with org.client.publishing() as stream:
        for event in events:
            stream.ask(topic_name=org.topic, events=[event])
        keys = [stream.read().results[0].correlation_key for _ in events]
    assert keys == [one.id for one in events]


def test_required_fields_are_not_asked_for(org: OrgUnderTest) -> None:
    """An event without custom fields is published. Source: Publish RPC page."""
    record = {"CreatedDate": 0, "CreatedById": org.user_id}
    raw = io.BytesIO()
    fastavro.schemaless_writer(raw, fastavro.parse_schema(dict(org.schema)), record)
    assert org.publish(org.event(payload=raw.getvalue()))


def test_another_topic_in_a_publish_stream_is_refused(org: OrgUnderTest) -> None:
    """A publish stream accepts one topic only. Source: .proto, Handle Errors page."""
    org.counter.published += 1
    with org.client.publishing(topic_name=org.topic, events=[org.event()]) as stream:
        stream.read()
        stream.ask(topic_name="/event/Other__e", events=[org.event()])
        assert stream.end().what == ("INVALID_ARGUMENT", "publish.topic.mismatch")


def test_a_publish_stream_begins_with_a_topic(org: OrgUnderTest) -> None:
    """A publish stream without a topic is refused. Source: Handle Errors page."""
    with org.client.publishing(events=[org.event()]) as stream:
        assert stream.end().what == ("INVALID_ARGUMENT", "publish.topic.validation.empty")


def test_a_publish_stream_does_not_begin_with_a_new_token(org: OrgUnderTest) -> None:
    """`auth_refresh` in the first request is refused. Source: Handle Errors page."""
    with org.client.publishing(
        topic_name=org.topic, events=[org.event()], auth_refresh="x"
    ) as stream:
        assert stream.end().what == ("INVALID_ARGUMENT", "publish.auth.refresh.invalid")


def test_a_request_without_events_ends_a_publish_stream(org: OrgUnderTest) -> None:
    """A request without events ends a publish stream. Source: .proto, Handle Errors page."""
    with org.client.publishing(topic_name=org.topic) as stream:
        assert stream.end().what == ("INVALID_ARGUMENT", "publish.event.count.invalid")


def test_a_half_closed_publish_stream_ends_with_ok(org: OrgUnderTest) -> None:
    """Pending requests are answered before a half-closed stream ends with OK.

    Source: PublishStream RPC page.
    """
    org.counter.published += 1
    with org.client.publishing(topic_name=org.topic, events=[org.event()]) as stream:
        assert len(stream.read().results) == 1
        stream.half_close()
        assert stream.end(org.times.half_close + org.times.slack).status == "OK"


def test_a_silent_publish_stream_gets_keepalives(org: OrgUnderTest) -> None:
    """Responses without results come within 270 s. Source: Salesforce's Node client."""
    org.wait_long(org.times.publish_keepalive)
    org.counter.published += 1
    with org.client.publishing(topic_name=org.topic, events=[org.event()]) as stream:
        assert len(stream.read().results) == 1
        answer = stream.read(org.times.publish_keepalive + org.times.slack)
    assert not answer.results
    assert answer.schema_id == org.schema_id
    assert answer.rpc_id


@pytest.mark.full
def test_an_idle_publish_stream_is_swept(org: OrgUnderTest) -> None:
    """A stream is swept after 1,800 s without a request; its status is not documented.

    Source: Handle Errors page.
    """
    org.wait_long(org.times.publish_idle)
    org.counter.published += 1
    with org.client.publishing(topic_name=org.topic, events=[org.event()]) as stream:
        found = stream.end(org.times.publish_idle + org.times.slack)
    assert found.what == ("DEADLINE_EXCEEDED", "publish.stream.sweeper.timeout")


def test_an_idle_publish_stream_is_swept_after_70_seconds(org: OrgUnderTest) -> None:
    """Only a valid request every 70 s keeps a stream open. Source: .proto."""
    after = 70 * org.times.publish_idle / 1800
    org.wait_long(70)
    org.counter.published += 1
    with org.client.publishing(topic_name=org.topic, events=[org.event()]) as stream:
        assert stream.end(4 * after).code == "publish.stream.sweeper.timeout"
