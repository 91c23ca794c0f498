"""ManagedSubscribe: access, start and commits."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.contract.managing import PREFIX, managed, refused, taken

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest


# --- the first request ----------------------------------------------------------------------------


def test_it_must_say_which_subscription(org: OrgUnderTest) -> None:
    """A request without id and developer name is refused. Source: Handle Errors page."""
    assert refused(org) == ("INVALID_ARGUMENT", "id.or.developer.name.empty")


def test_it_may_not_say_it_twice(org: OrgUnderTest) -> None:
    """A request with both id and developer name is refused by the same code.

    Source: Handle Errors page.
    """
    found = refused(org, subscription_id="18x000000000001AAA", developer_name="X")
    assert found == ("INVALID_ARGUMENT", "id.or.developer.name.empty")


def test_an_unknown_name_is_not_found(org: OrgUnderTest) -> None:
    """An unknown developer name is not found. Source: Handle Errors page, live logs."""
    found = refused(org, developer_name="No_Such_Subscription")
    assert found == ("NOT_FOUND", "developer.name.not.found")


def test_an_unknown_id_is_not_found(org: OrgUnderTest) -> None:
    """An unknown id is not found. Source: Handle Errors page."""
    found = refused(org, subscription_id="18x000000000001AAA")
    assert found == ("NOT_FOUND", "subscription.id.not.found")


@pytest.mark.parametrize("wrong", ["18x", "18x0000000000011"], ids=["short", "16 characters"])
def test_an_id_has_15_or_18_characters(org: OrgUnderTest, wrong: str) -> None:
    """An id without 15 or 18 characters is refused. Source: Handle Errors page."""
    found = refused(org, subscription_id=wrong)
    assert found == ("INVALID_ARGUMENT", "subscription.id.invalid")


def test_less_than_nothing_cannot_be_asked_for(org: OrgUnderTest) -> None:
    """A negative `num_requested` is refused. Source: Handle Errors page."""
    found = refused(org, developer_name=org.need("managed"), num_requested=-1)
    assert found == ("INVALID_ARGUMENT", "fetch.request.events.invalid")


def test_it_may_not_commit(org: OrgUnderTest) -> None:
    """A commit in the first request is refused. Source: Handle Errors page."""
    request = pb.CommitReplayRequest(commit_request_id=str(uuid.uuid4()), replay_id=b"1" * 10)
    found = refused(
        org,
        developer_name=org.need("managed"),
        num_requested=1,
        commit_replay_id_request=request,
    )
    assert found == ("INVALID_ARGUMENT", "fetch.request.commit.request.restricted")


def test_it_may_not_refresh_the_token(org: OrgUnderTest) -> None:
    """`auth_refresh` in the first request is refused. Source: Handle Errors page."""
    found = refused(org, developer_name=org.need("managed"), auth_refresh="x")
    assert found == ("INVALID_ARGUMENT", "fetch.request.auth.request.restricted")


# --- delivery -------------------------------------------------------------------------------------


def test_what_is_published_is_delivered(org: OrgUnderTest) -> None:
    """Events and credit are as for Subscribe. Source: ManagedSubscribe RPC page."""
    event = org.event("managed")
    with managed(org) as one:
        org.publish(event)
        one.stream.ask(num_requested=2)
        response = one.stream.read()
        [got] = response.events
        one.place = got.replay_id
    assert (got.event.id, got.event.payload) == (event.id, event.payload)
    assert response.pending_num_requested == 1
    assert response.latest_replay_id == got.replay_id


def test_what_was_not_committed_comes_again(org: OrgUnderTest) -> None:
    """The next stream starts after the last commit. Source: ManagedSubscribe RPC page."""
    first, second = org.event("committed"), org.event("not committed")
    with managed(org, leave="uncommitted") as one:
        org.publish(first, second)
        got = one.take(2)
        one.commit(got[0].replay_id)
        one.answer()
    with taken(org) as stream:
        [got] = stream.take(1)
    assert got.event.id == second.id


def test_one_client_at_a_time(org: OrgUnderTest) -> None:
    """A second client is refused while the subscription is active.

    Source: Handle Errors page, live logs.
    """
    name = org.need("managed")
    with managed(org), org.client.managed(developer_name=name, num_requested=1) as second:
        found = second.end()
    assert found.what == ("ALREADY_EXISTS", f"{PREFIX}already.active")
    assert found.message.startswith(
        "An active managed subscription with the same ID already exists."
    )


def test_the_next_client_is_accepted_after_a_half_close(org: OrgUnderTest) -> None:
    """The next client is accepted about 15 s after a half-close. Source: live logs."""
    with managed(org):
        pass
    with managed(org) as one:
        assert one.place


# --- commits --------------------------------------------------------------------------------------


def test_a_commit_is_answered(org: OrgUnderTest) -> None:
    """A commit has a response without events, with its id, replay id and time.

    Source: .proto, live logs.
    """
    with managed(org) as one:
        request_id = one.commit()
        response = one.answer()
    answer = response.commit_response
    assert not response.events
    assert (answer.commit_request_id, answer.replay_id) == (request_id, one.place)
    assert not answer.HasField("error")
    assert abs(answer.process_time / 1000 - time.time()) < 3600


def test_an_answer_to_a_commit_has_what_every_response_has(org: OrgUnderTest) -> None:
    """A commit's response has a replay id and the outstanding number.

    Source: Salesforce's Java and Node clients.
    """
    with managed(org) as one:
        one.commit(num_requested=3)
        response = one.answer()
        assert len(response.latest_replay_id) >= 8
        assert response.rpc_id
        assert response.pending_num_requested == 3


def test_commits_may_be_answered_together(org: OrgUnderTest) -> None:
    """Several commits may share a response with the last values.

    Source: .proto, ManagedSubscribe RPC page.
    """
    with managed(org) as one:
        org.publish(org.event(), org.event())
        first, second = one.take(2)
        asked = [one.commit(first.replay_id), one.commit(second.replay_id)]
        answers = [one.answer().commit_response]
        if answers[-1].commit_request_id != asked[-1]:
            answers.append(one.answer().commit_response)
    assert answers[-1].commit_request_id == asked[-1]
    assert answers[-1].replay_id == second.replay_id


@pytest.mark.parametrize(
    "replay_id", [b"", b"rubbish", b"\xff" * 10], ids=["none", "text", "beyond"]
)
def test_a_commit_that_fails_does_not_end_the_stream(org: OrgUnderTest, replay_id: bytes) -> None:
    """A failed commit is answered with an error of code COMMIT. Source: Handle Errors page."""
    with managed(org) as one:
        one.commit(replay_id)
        answer = one.answer().commit_response
        assert (answer.error.code, bool(answer.error.msg)) == (pb.COMMIT, True)
        one.commit()
        assert not one.answer().commit_response.HasField("error")


def test_what_was_not_delivered_cannot_be_committed(org: OrgUnderTest) -> None:
    """An event that has not been delivered cannot be committed. Source: Handle Errors page."""
    with managed(org) as one:
        [ahead] = org.publish(org.event())
        one.commit(ahead)
        assert one.answer().commit_response.error.code == pb.COMMIT
        one.take(1)


def test_a_commit_does_not_go_back(org: OrgUnderTest) -> None:
    """A replay id before the committed one cannot be committed. Source: Handle Errors page."""
    with managed(org) as one:
        org.publish(org.event(), org.event())
        first, second = one.take(2)
        one.commit(second.replay_id)
        one.answer()
        one.commit(first.replay_id)
        assert one.answer().commit_response.error.code == pb.COMMIT


def test_the_same_place_can_be_committed_again(org: OrgUnderTest) -> None:
    """The committed id can be committed again, to keep a silent stream open. Source: live logs."""
    with managed(org) as one:
        one.commit()
        one.answer()
        one.commit()
        assert not one.answer().commit_response.HasField("error")
