"""Error codes that no other module covers: status, trailers and cause of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator.errors import KNOWN, UNDOCUMENTED
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.contract.managing import managed, taken
from tests.contract.wire import refused

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

UNKNOWABLE = "no known way to cause it"
# Errors that only the service itself can cause. The statuses are the emulator's guesses.
ON_ORDER = [
    ("GetTopic", "service.tenant.license", "PERMISSION_DENIED"),
    ("GetTopic", "topic.api.unavailable", "UNAVAILABLE"),
    ("GetSchema", "schema.api.unavailable", "UNAVAILABLE"),
    ("GetSchema", "schema.meta.permission", "PERMISSION_DENIED"),
    ("Subscribe", "subscription.fetch.replay.repeated", "INTERNAL"),
    ("Subscribe", "subscription.fetch.request.invalid", "INVALID_ARGUMENT"),
    ("Subscribe", "subscription.internal.error", "INTERNAL"),
]


@pytest.mark.parametrize(("rpc", "code", "status"), ON_ORDER, ids=[row[1] for row in ON_ORDER])
def test_what_the_service_may_say_at_any_time(
    org: OrgUnderTest, rpc: str, code: str, status: str
) -> None:
    """A general error has its code in the trailers. Source: Handle Errors page."""
    emulator = org.staged(UNKNOWABLE)
    emulator.fail_next(rpc, error_code=code)
    if rpc == "Subscribe":
        with org.client.subscribe(topic_name=org.topic, num_requested=1) as stream:
            found = stream.end()
    elif rpc == "GetTopic":
        found = refused(org.client.get_topic, org.topic)
    else:
        found = refused(org.client.get_schema, org.schema_id)
    assert found.what == (status, code)
    assert found.trailers["type"] == rpc


def test_an_event_that_may_not_be_read_is_refused(org: OrgUnderTest) -> None:
    """GetTopic states that a topic cannot be subscribed to.

    Source: Handle Errors page, GetTopic RPC page.
    """
    topic = org.staged("it takes an event the user may not read").define_event(
        "Secret__e", {}, can_subscribe=False
    )
    assert not org.client.get_topic(topic).can_subscribe
    with org.client.subscribe(topic_name=topic, num_requested=1) as stream:
        assert stream.end().what == ("PERMISSION_DENIED", "subscription.topic.cannot.subscribe")


def test_an_event_that_may_not_be_published_is_refused(org: OrgUnderTest) -> None:
    """GetTopic states that a topic cannot be published to.

    Source: Publish RPC page, GetTopic RPC page.
    """
    topic = org.staged("it takes an event the user may not create").define_event(
        "Foreign__e", {}, can_publish=False
    )
    assert not org.client.get_topic(topic).can_publish
    assert refused(org.client.publish, topic, org.event()).status == "PERMISSION_DENIED"


def test_a_new_token_in_a_stream_must_be_good(org: OrgUnderTest) -> None:
    """An unknown token in `auth_refresh` is refused. Source: Handle Errors page."""
    with org.after(org.base(), 1) as stream:
        stream.ask(auth_refresh="wrong")
        assert stream.end().code == "service.auth.refresh.invalid"


def test_a_later_managed_request_asks_for_something(org: OrgUnderTest) -> None:
    """A later managed request needs events, a commit or a token. Source: Handle Errors page."""
    with managed(org, leave="ended") as one:
        one.stream.ask(num_requested=0)
        found = one.stream.end()
    assert found.what == ("INVALID_ARGUMENT", "managed.subscription.fetch.request.invalid")


def test_a_later_request_for_less_than_nothing_is_refused(org: OrgUnderTest) -> None:
    """A negative number of events is refused in a managed stream too.

    Source: Handle Errors page.
    """
    with managed(org, leave="ended") as one:
        one.stream.ask(num_requested=-1)
        found = one.stream.end()
    assert found.what == ("INVALID_ARGUMENT", "managed.subscription.fetch.request.events.invalid")


@pytest.mark.parametrize("rpc", ["PublishStream", "ManagedSubscribe"])
def test_too_many_requests_on_any_stream_are_refused(org: OrgUnderTest, rpc: str) -> None:
    """Too many requests are refused on any stream; the number is not documented.

    Source: Handle Errors page.
    """
    with org.set_up("it would be an attack", fetches_per_second=5) as other:
        if rpc == "PublishStream":
            event = other.event()
            with other.client.publishing(topic_name=other.topic, events=[event]) as stream:
                for _ in range(20):
                    stream.ask(topic_name=other.topic, events=[event])
                found = stream.end()
        else:
            other.publish(other.event())
            with taken(other) as stream:
                for _ in range(20):
                    stream.ask(num_requested=1)
                found = stream.end()
    assert found.what == ("RESOURCE_EXHAUSTED", "service.protection.stream.limit.triggered")


def test_too_many_calls_are_refused(org: OrgUnderTest) -> None:
    """Too many calls of an org are refused; the number is not documented.

    Source: Handle Errors page.
    """
    with org.set_up("it would be an attack", calls_per_second=3) as other:
        for _ in range(3):
            other.client.get_topic(other.topic)
        found = refused(other.client.get_topic, other.topic)
    assert found.what == ("RESOURCE_EXHAUSTED", "service.protection.triggered")


def test_too_many_clients_at_once_are_refused(org: OrgUnderTest) -> None:
    """Too many streams of an org are refused; the number is not documented.

    Source: Handle Errors page.
    """
    with org.set_up("the limit is unknown", max_clients=1) as other:
        base, event = other.base(), other.event()
        other.publish(event)
        with other.after(base, 1) as stream:
            stream.take(1)
            with other.client.publishing(topic_name=other.topic, events=[event]) as second:
                found = second.end()
    assert found.what == ("RESOURCE_EXHAUSTED", "concurrent.client.limit.exceeded")


def test_replay_ids_of_before_a_move_are_refused(org: OrgUnderTest) -> None:
    """Replay ids from before a move or refresh are refused like expired ones.

    Source: event message durability page.
    """
    with org.set_up("it would have to be moved") as other:
        assert other.emulator
        old = other.base()
        other.emulator.reset_replay_ids()
        with other.after(old, 1) as stream:
            found = stream.end()
    assert found.what == ("INVALID_ARGUMENT", "subscription.fetch.replayid.corrupted")


def test_a_token_that_was_revoked_opens_nothing(org: OrgUnderTest) -> None:
    """A revoked token keeps its open stream; the next call is refused. Source: live logs."""
    with org.set_up("a token would have to be revoked") as other:
        assert other.emulator
        base, event = other.base(), other.event()
        with other.after(base, 2) as stream:
            other.publish(other.event())
            stream.take(1)
            other.publish(event)
            other.emulator.revoke(other.headers["accesstoken"])
            assert stream.take(1)[0].event.id == event.id
        found = refused(other.client.get_topic, other.topic)
    assert found.what == ("UNAUTHENTICATED", "service.auth.error")


def test_every_error_code_has_its_test() -> None:
    """Each error code of the emulator has a test in this suite."""
    suite = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    documented = [code for code in KNOWN if code not in UNDOCUMENTED]
    assert [code for code in documented if _end(code) not in suite] == []


def _end(code: str) -> str:
    """Code as written in the modules, some of which have its prefix as a constant."""
    for prefix in ("managed.subscription.", "subscription.fetch."):
        code = code.removeprefix(prefix)
    return f'{code}"'


def test_commit_errors_have_their_code_in_the_proto() -> None:
    """An error inside a response is PUBLISH or COMMIT, without a status. Source: .proto."""
    assert pb.ErrorCode.items() == [("UNKNOWN", 0), ("PUBLISH", 1), ("COMMIT", 2)]
