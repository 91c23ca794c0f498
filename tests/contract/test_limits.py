"""Limits of an org: deliveries, publishing, and the resource with the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.managing import managed
from tests.contract.wire import refused

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

SPENT = "its allowance would have to be used up"
KEYS = {"DailyDeliveredPlatformEvents", "HourlyPublishedPlatformEvents"}
MORE = [
    "MonthlyPlatformEventsUsageEntitlement",
    "DailyStandardVolumePlatformEvents",
    "DailyStreamingApiEvents",
    "DailyDurableStreamingApiEvents",
    "DailyGenericStreamingApiEvents",
    "DailyDurableGenericStreamingApiEvents",
    "StreamingApiConcurrentClients",
    "DurableStreamingApiConcurrentClients",
]


def test_limits_tell_what_is_left(org: OrgUnderTest) -> None:
    """The limits have maximum and rest of daily deliveries and hourly publishing.

    Source: Limits resource page, Allocations page.
    """
    body = org.rest("GET", "limits").json()
    assert set(body) >= KEYS
    for name in KEYS:
        assert 0 <= body[name]["Remaining"] <= body[name]["Max"]


@pytest.mark.parametrize("name", MORE)
def test_limits_tell_of_streaming_too(org: OrgUnderTest, name: str) -> None:
    """The limits have each of the documented keys.

    Source: Limits resource page, Platform Events guide.
    """
    assert set(org.rest("GET", "limits").json()[name]) >= {"Max", "Remaining"}


@pytest.mark.parametrize(
    ("name", "sizes", "step"),
    [
        ("DailyDeliveredPlatformEvents", (10_000, 25_000, 50_000), 100_000),
        ("HourlyPublishedPlatformEvents", (50_000, 250_000), 25_000),
    ],
)
def test_allowances_are_those_of_an_edition(
    org: OrgUnderTest, name: str, sizes: tuple[int, ...], step: int
) -> None:
    """The allowances are an edition's, plus add-on licences. Source: Allocations page."""
    most = org.rest("GET", "limits").json()[name]["Max"]
    assert any(most >= size and (most - size) % step == 0 for size in sizes)


def test_publishing_counts(org: OrgUnderTest) -> None:
    """Publishing over gRPC and REST counts; a real org counts late. Source: Allocations page."""
    org.staged("its count comes late")
    before = _left(org, "HourlyPublishedPlatformEvents")
    org.publish(org.event(), org.event())
    org.rest("POST", f"sobjects/{org.topic.rpartition('/')[2]}", {})
    assert before - _left(org, "HourlyPublishedPlatformEvents") == 3


def test_each_subscriber_is_counted(org: OrgUnderTest) -> None:
    """Two subscribers of an event are two deliveries, managed or not.

    Source: Allocations page, Managed Subscription page.
    """
    with org.set_up("its count comes late") as other, managed(other) as one:
        base = other.base()
        before = _left(other, "DailyDeliveredPlatformEvents")
        other.publish(other.event())
        with other.after(base, 1) as first, other.after(base, 1) as second:
            assert len(first.take(1) + second.take(1)) == 2
        one.take(2)  # one of them is that of `base`
        assert before - _left(other, "DailyDeliveredPlatformEvents") == 4


def _left(org: OrgUnderTest, name: str) -> int:
    return int(org.rest("GET", "limits").json()[name]["Remaining"])


def test_deliveries_end_with_their_allowance(org: OrgUnderTest) -> None:
    """Without allowance running and new streams end; events stay on the bus.

    Source: Allocations page, Handle Errors page.
    """
    with org.set_up(SPENT, delivery_allocation=3) as other:
        base = other.base()
        other.publish(*(other.event() for _ in range(5)))
        with other.after(base, 5) as stream:
            assert len(stream.take(3)) == 3
            found = stream.end()
        assert found.what == ("RESOURCE_EXHAUSTED", "subscription.limit.exceeded")
        assert "exceeded the event delivery limit" in found.message
        with other.after(base, 1) as stream:
            assert stream.end().code == "subscription.limit.exceeded"


def test_an_allowance_is_of_the_last_24_hours(org: OrgUnderTest) -> None:
    """A day later deliveries resume without a loss. Source: Allocations page."""
    with org.set_up(SPENT, delivery_allocation=1) as other:
        assert other.emulator
        base, event = other.base(), other.event()
        other.publish(other.event(), event)
        with other.after(base, 1) as stream:
            [got] = stream.take(1)
        other.emulator.clock.advance(hours=25)
        client = other.client.with_headers(other.door.headers(other.http))
        with client.subscribe(
            topic_name=other.topic, replay_preset=2, replay_id=got.replay_id, num_requested=1
        ) as stream:
            assert stream.take(1)[0].event.id == event.id


def test_publishing_ends_with_its_allowance(org: OrgUnderTest) -> None:
    """Events beyond the allowance get LIMIT_EXCEEDED; its form is not documented.

    Source: Allocations page.
    """
    with org.set_up(SPENT, publish_allocation=2) as other:
        first, second, third = other.client.publish(
            other.topic, *(other.event() for _ in range(3))
        ).results
        assert not first.HasField("error")
        assert not second.HasField("error")
        assert "LIMIT_EXCEEDED" in third.error.msg


def test_too_many_requests_on_a_stream_are_refused(org: OrgUnderTest) -> None:
    """Too many requests end a stream; the number is not documented.

    Source: Handle Errors page, live logs.
    """
    with (
        org.set_up("it would be an attack", fetches_per_second=20) as other,
        other.client.subscribe(topic_name=other.topic, num_requested=1) as stream,
    ):
        for _ in range(40):
            stream.ask(num_requested=1)
        found = stream.end()
    assert found.what == ("RESOURCE_EXHAUSTED", "service.protection.stream.limit.triggered")
    assert found.message.startswith("The service received too many FetchRequests")


def test_an_unavailable_service_says_so(org: OrgUnderTest) -> None:
    """The status of an unavailable service is INTERNAL. Source: live logs."""
    with org.set_up("it would have to be down") as other:
        assert other.emulator
        other.emulator.fail_next("GetTopic", error_code="service.unavailable")
        found = refused(other.client.get_topic, other.topic)
    assert found.what == ("INTERNAL", "service.unavailable")
    assert found.message.startswith("The service is unavailable. Try again later. rpcId: ")
