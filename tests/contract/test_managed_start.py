"""ManagedSubscribe: names, start and credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.managing import managed, taken

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest


@pytest.fixture(scope="module")
def subscription_id(org: OrgUnderTest) -> str:
    """Id of the managed subscription, of 18 characters, as the Tooling API gives it."""
    name = org.need("managed")
    [record] = org.query(
        f"SELECT Id FROM ManagedEventSubscription WHERE DeveloperName='{name}'"  # noqa: S608
    )
    return str(record["Id"])


@pytest.mark.parametrize("length", [18, 15])
def test_it_can_be_named_by_its_id(org: OrgUnderTest, subscription_id: str, length: int) -> None:
    """An id of either length is accepted and may be repeated.

    Source: .proto, Handle Errors page.
    """
    name = subscription_id[:length]
    org.publish(org.event(), org.event())
    with taken(org, subscription_id=name) as stream:
        [first] = stream.take(1)
        stream.ask(subscription_id=name, num_requested=1)
        assert stream.take(1)[0].replay_id > first.replay_id


def test_the_next_client_is_accepted_after_a_cut(org: OrgUnderTest) -> None:
    """After a cut the next client is accepted within seconds. Source: live logs."""
    event = org.event()
    with managed(org, leave="uncommitted") as one:
        org.publish(event)
        one.take(1)
    with taken(org) as stream:
        assert stream.take(1)[0].event.id == event.id


def test_the_first_request_may_ask_for_nothing(org: OrgUnderTest) -> None:
    """Zero events are legal in every managed request. Source: Handle Errors page."""
    org.publish(org.event())
    with taken(org, developer_name=org.need("managed"), num_requested=0) as stream:
        assert len(stream.take(1)) == 1


def test_more_than_100_outstanding_is_treated_as_100(org: OrgUnderTest) -> None:
    """More than 100 outstanding events are treated as 100.

    Source: ManagedSubscribe RPC page, Pull Subscription and Flow Control page.
    """
    with managed(org) as one:
        org.publish(org.event())
        one.stream.ask(num_requested=150)
        response = one.stream.read()
        one.place = response.latest_replay_id
    assert response.pending_num_requested == 99


def test_it_starts_with_what_comes_next_unless_set_otherwise(org: OrgUnderTest) -> None:
    """Without a commit the default start is LATEST. Source: Managed Subscription page."""
    emulator = org.staged("another subscription would be left behind")
    emulator.define_managed_subscription("Latest", org.topic)
    org.publish(org.event("before"))
    with org.client.managed(developer_name="Latest", num_requested=1) as stream:
        org.begun(stream)
        event = org.event("after")
        org.publish(event)
        assert stream.take(1)[0].event.id == event.id


def test_each_subscription_has_a_slot_of_its_own(org: OrgUnderTest) -> None:
    """Two subscriptions of a topic have separate slots, and each gets every event.

    Source: Managed Subscription page.
    """
    emulator = org.staged("another subscription would be left behind")
    emulator.define_managed_subscription("Second", org.topic)
    with org.client.managed(developer_name="Second", num_requested=1) as second:
        org.begun(second)
        with managed(org) as one:
            assert second.take(1)[0].replay_id == one.place
