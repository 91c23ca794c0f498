"""What /limits says follows from the knobs and from what was used."""

from __future__ import annotations

from airflow_provider_sfevents.emulator.http.rest.limits_resource import UsedAllowances, limits
from airflow_provider_sfevents.emulator.knobs import Knobs

NOTHING = UsedAllowances(delivered=0, published=0, cometd_clients=0)


def test_every_key_of_the_event_bus() -> None:
    """Ten keys, each with its size and what is left."""
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
    """Knobs say how much there is; what was used is gone, and nothing is less than nothing."""
    knobs = Knobs(delivery_allocation=100, publish_allocation=10, cometd_max_clients=5)
    found = limits(knobs, UsedAllowances(delivered=30, published=12, cometd_clients=2))
    assert found["DailyDeliveredPlatformEvents"] == {"Max": 100, "Remaining": 70}
    assert found["HourlyPublishedPlatformEvents"] == {"Max": 10, "Remaining": 0}
    assert found["DurableStreamingApiConcurrentClients"] == {"Max": 5, "Remaining": 3}
