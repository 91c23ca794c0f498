"""The /limits resource follows the knobs and the usage."""

from __future__ import annotations

from airflow_provider_sfevents.emulator.http.rest.limits_resource import UsedAllowances, limits
from airflow_provider_sfevents.emulator.knobs import Knobs

NOTHING = UsedAllowances(delivered=0, published=0, cometd_clients=0)


def test_every_key_of_the_event_bus() -> None:
    """All ten keys have their size and their rest."""
    found = limits(Knobs(), NOTHING)
    assert sorted(found) == [
        "DailyDeliveredPlatformEvents",
        "DailyDurableGenericStreamingApiEvents",
        "DailyDurableStreamingApiEvents",
        "DailyGenericStreamingApiEvents",
        "DailyStandardVolumePlatformEvents",
        "DailyStreamingApiEvents",
        "DurableStreamingApiConcurrentClients",
        "HourlyPublishedPlatformEvents",
        "MonthlyPlatformEventsUsageEntitlement",
        "StreamingApiConcurrentClients",
    ]
    assert found["DailyDeliveredPlatformEvents"] == {"Max": 50_000, "Remaining": 50_000}
    assert all(one["Remaining"] == one["Max"] for one in found.values())


def test_what_is_left() -> None:
    """The rest is the knob's size less the usage, and never negative."""
    knobs = Knobs(delivery_allocation=100, publish_allocation=10, cometd_max_clients=5)
    found = limits(knobs, UsedAllowances(delivered=30, published=12, cometd_clients=2))
    assert found["DailyDeliveredPlatformEvents"] == {"Max": 100, "Remaining": 70}
    assert found["HourlyPublishedPlatformEvents"] == {"Max": 10, "Remaining": 0}
    assert found["DurableStreamingApiConcurrentClients"] == {"Max": 5, "Remaining": 3}
