"""The sample is a realistic org."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry
from airflow_provider_sfevents.emulator.org.org import Org
from airflow_provider_sfevents.emulator.org.org_verbs import OrgParts
from airflow_provider_sfevents.emulator.org.sample_org import SALES, define_sample, publish_sample
from airflow_provider_sfevents.emulator.state.call_log import CallLog
from airflow_provider_sfevents.emulator.state.org_identity import Identity


def _org() -> Org:
    clock = EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
    identity = Identity.new("acme")
    bus = Bus(name="same", clock=clock, knobs=Knobs())
    org = Org(
        parts=OrgParts(
            identity=identity,
            bus=bus,
            clock=clock,
            call_log=CallLog(),
            managed=ManagedRegistry(bus=bus, clock=clock),
        ),
        instance_url="http://127.0.0.1:1",
    )
    define_sample(org)
    return org


def test_everything_in_the_sample_decodes() -> None:
    """Every sample event fits its schema, and the channels carry their members."""
    org = _org()
    published = publish_sample(org, 400, seed=7)
    assert sum(published.values()) == 400
    assert set(published) == {
        "/event/Order__e",
        "/event/Shipment__e",
        "/data/AccountChangeEvent",
        "/data/ContactChangeEvent",
    }
    for topic, count in published.items():
        events = org.events(topic)
        assert len(events) == count
        assert all("fields" in event for event in events)
    assert len(org.events(SALES)) == published["/event/Order__e"] + published["/event/Shipment__e"]
    assert len(org.events("/data/ChangeEvents")) == 400 - len(org.events(SALES))


def test_records_are_created_before_they_change() -> None:
    """The first change of each record is its creation; updates and deletions follow."""
    org = _org()
    publish_sample(org, 600, seed=7)
    headers = [event["fields"]["ChangeEventHeader"] for event in org.events("/data/ChangeEvents")]
    first: dict[str, str] = {}
    for header in headers:
        first.setdefault(header["recordIds"][0], header["changeType"])
    assert set(first.values()) == {"CREATE"}
    assert {header["changeType"] for header in headers} == {"CREATE", "UPDATE", "DELETE"}
    assert any("." in name for header in headers for name in header["changedFields"])


def test_the_same_seed_tells_the_same_story() -> None:
    """Two orgs with the same seed have the same orders."""
    stories = []
    for _ in range(2):
        org = _org()
        publish_sample(org, 50, seed=3)
        stories.append(
            [event["fields"]["Order_Number__c"] for event in org.events("/event/Order__e")]
        )
    assert stories[0] == stories[1]
