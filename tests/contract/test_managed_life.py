"""ManagedSubscribe over time: silence, deadlines and setup changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.contract.managing import managed, refused, taken

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

pytestmark = pytest.mark.full
STATES = "state would have to be changed, which takes minutes and forgets what is committed"
TOOLING = "tooling/sobjects/ManagedEventSubscription"


def test_a_silent_stream_gets_keepalives(org: OrgUnderTest) -> None:
    """A silent managed stream gets keepalives within 270 s. Source: ManagedSubscribe RPC page."""
    org.wait_long(org.times.keepalive)
    with managed(org) as one:
        one.stream.ask(num_requested=3)
        response = one.stream.read(org.times.keepalive + org.times.slack)
        while not response.events and response.HasField("commit_response"):
            response = one.stream.read(org.times.keepalive + org.times.slack)
    assert (list(response.events), response.pending_num_requested) == ([], 3)
    assert response.latest_replay_id


def test_a_keepalives_place_can_be_committed(org: OrgUnderTest) -> None:
    """A keepalive's id can be committed, so a silent topic keeps its position.

    Source: ManagedSubscribe RPC page, Salesforce's Java client.
    """
    org.wait_long(org.times.keepalive)
    with managed(org) as one:
        one.stream.ask(num_requested=1)
        one.place = one.stream.read(org.times.keepalive + org.times.slack).latest_replay_id
        one.commit()
        assert not one.answer().commit_response.HasField("error")


def test_a_stream_without_commits_is_closed(org: OrgUnderTest) -> None:
    """A stream without commits is closed after 1,800 s, despite keepalives. Source: live logs."""
    org.wait_long(org.times.commit_deadline)
    with managed(org, leave="ended") as one:
        one.stream.ask(num_requested=1)
        found = one.stream.end(org.times.commit_deadline + org.times.slack)
        assert found.status == "DEADLINE_EXCEEDED"
        assert found.message.startswith("No CommitReplayRequests sent in the last")
        assert "Closing managed subscription." in found.message


def test_committing_keeps_a_stream_open(org: OrgUnderTest) -> None:
    """A repeated commit keeps a stream open. Source: live logs."""
    org.wait_long(2 * org.times.commit_deadline)
    with managed(org) as one:
        one.stream.ask(num_requested=1)
        until = time.monotonic() + 1.5 * org.times.commit_deadline
        while time.monotonic() < until:
            one.place = one.stream.read(org.times.keepalive + org.times.slack).latest_replay_id
            one.commit()
        assert not one.answer().commit_response.HasField("error")


def test_a_stream_without_credit_is_closed(org: OrgUnderTest) -> None:
    """A managed stream without credit is closed 60 s after the last response.

    Source: ManagedSubscribe RPC page.
    """
    org.wait_long(org.times.idle_close)
    with managed(org, leave="ended") as one:
        found = one.stream.end(org.times.idle_close + org.times.slack)
        assert found.status in {"OK", "UNAVAILABLE"}


def test_a_half_closed_stream_ends_with_ok(org: OrgUnderTest) -> None:
    """A half-closed managed stream soon ends with OK. Source: live logs."""
    with managed(org, leave="ended") as one:
        one.stream.half_close()
        assert one.stream.end(org.times.half_close + org.times.slack).status == "OK"


# --- setup ----------------------------------------------------------------------------------------


def test_its_setup_can_be_queried(org: OrgUnderTest) -> None:
    """The Tooling API has the fields that Salesforce's Node client needs.

    Source: That client, Tooling API guide.
    """
    name = org.need("managed")
    query = "SELECT+Id,+DeveloperName,+Metadata+FROM+ManagedEventSubscription"
    where = f"+WHERE+DeveloperName='{name}'+LIMIT+1"
    body = org.rest("GET", f"tooling/query/?q={query}{where}").json()
    assert body["size"] == 1
    [record] = body["records"]
    assert (record["DeveloperName"], record["Id"][:3]) == (name, "18x")
    assert (record["Metadata"]["topicName"], record["Metadata"]["state"]) == (org.topic, "RUN")


def test_a_stopped_subscription_is_refused(org: OrgUnderTest) -> None:
    """A stopped subscription is refused. Source: Handle Errors page."""
    with org.set_up(f"its {STATES}") as other:
        assert other.emulator
        other.emulator.set_managed_subscription("Contract", state="STOP")
        found = refused(other, developer_name="Contract")
    assert found == ("FAILED_PRECONDITION", "config.stopped")


def test_stopping_forgets_what_was_committed(org: OrgUnderTest) -> None:
    """After a stop the next stream starts at the default replay.

    Source: Managed Subscription page.
    """
    with org.set_up(f"its {STATES}") as other:
        assert other.emulator
        event = other.event()
        other.publish(event)
        with managed(other):
            pass
        for state in ("STOP", "RUN"):
            other.emulator.set_managed_subscription("Contract", state=state)
        with taken(other) as stream:
            assert stream.take(1)[0].event.id == event.id  # EARLIEST


@pytest.mark.parametrize(
    ("replay", "again"), [("EARLIEST", True), ("LATEST", False)], ids=["earliest", "latest"]
)
def test_a_committed_place_that_has_aged_out(org: OrgUnderTest, replay: str, again: bool) -> None:
    """An expired committed id starts at `errorRecoveryReplay`, without an error.

    Source: Managed Subscription page.
    """
    with org.set_up("it takes three days") as other:
        assert other.emulator
        other.emulator.set_managed_subscription("Contract", error_recovery_replay=replay)
        with managed(other):
            pass
        other.emulator.clock.advance(hours=73)
        other.emulator.publish(other.topic, [{}])
        client = other.client.with_headers(other.door.headers(other.http))
        with taken(other, client) as stream:
            assert bool(stream.read(other.times.slack).events) == again


def test_a_deleted_subscription_is_refused(org: OrgUnderTest) -> None:
    """A deleted subscription is refused with one of two codes. Source: Handle Errors page."""
    with org.set_up("it would have to be deleted") as other:
        assert other.emulator
        other.emulator.delete_managed_subscription("Contract")
        found = refused(other, developer_name="Contract")
    assert found in {
        ("NOT_FOUND", "config.deleted"),
        ("NOT_FOUND", "developer.name.not.found"),
    }


def test_a_new_subscription_is_not_known_at_once(org: OrgUnderTest) -> None:
    """A new subscription is known to the service after minutes.

    Source: Managed Subscription page.
    """
    with org.set_up(
        "a subscription would be left behind", managed_propagation_seconds=120
    ) as other:
        assert other.emulator
        metadata = {
            "label": "New",
            "topicName": other.topic,
            "state": "RUN",
            "defaultReplay": "LATEST",
            "errorRecoveryReplay": "LATEST",
        }
        answer = other.rest("POST", TOOLING, {"FullName": "New", "Metadata": metadata})
        assert answer.status_code == 201
        found = refused(other, developer_name="New")
        assert found == ("NOT_FOUND", "developer.name.not.found")
        other.emulator.clock.advance(seconds=121)
        with other.client.managed(developer_name="New", num_requested=1) as stream:
            assert not stream.read(other.times.keepalive + other.times.slack).events


def test_a_subscription_cannot_be_paused(org: OrgUnderTest) -> None:
    """The state PAUSE is in the enumeration and refused. Source: live logs."""
    with org.set_up("a subscription would be left behind") as other:
        metadata = {"label": "P", "topicName": other.topic, "state": "PAUSE"}
        answer = other.rest("POST", TOOLING, {"FullName": "Paused", "Metadata": metadata})
        assert answer.status_code == 400
        assert "only to RUN or STOP" in answer.text
