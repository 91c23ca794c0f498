"""A response of the Streaming API holds as many events as fit and leaves the rest."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.bus import avro_schemas
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.payload_codec import Codec
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent
from airflow_provider_sfevents.emulator.cometd.connect_delivery import is_ready, take
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.faults.delivery_faults import DeliveryFaults
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.state.call_log import CallLog
from airflow_provider_sfevents.emulator.state.cometd_clients import (
    CometdClient,
    CometdClients,
    Subscribed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

TOPIC = "/event/X__e"
SCHEMA = avro_schemas.platform_event_schema("X__e", {"T__c": "LongTextArea"}, FieldTypes())
AT = datetime(2026, 1, 1, tzinfo=UTC)


def _bus() -> Bus:
    bus = Bus(name="00D", clock=EmulatorClock(AT), knobs=Knobs())
    bus.define(BusTopic(name=TOPIC, kind="event", record="X__e", schema_id="x"))
    bus.add_schema("x", avro_schemas.to_json(SCHEMA))
    return bus


def _publish(bus: Bus, texts: Iterable[str]) -> None:
    codec = Codec(SCHEMA)
    given = {"CreatedDate": 0, "CreatedById": "005"}
    payloads = [codec.encode({**given, "T__c": text}) for text in texts]
    bus.append(TOPIC, [EncodedEvent("uuid", "x", payload) for payload in payloads])


def _subscriber() -> CometdClient:
    client = CometdClients().add(
        org_id="00D", user_id="005", token="t", browser="", server="", numbering=0, until=0.0
    )
    page = CallLog().subscribed(
        topic=TOPIC, org_id="00D", client="key", username="u", started_at=AT
    )
    client.subscriptions[TOPIC] = Subscribed(channel=TOPIC, after=0, entry=page)
    return client


def test_ten_megabytes() -> None:
    """A response stays below the advised buffer size; the rest follows in the next one."""
    bus, client = _bus(), _subscriber()
    _publish(bus, ["x" * 1_000_000] * 12)
    assert [len(take(client, bus, 100, DeliveryFaults(Knobs())).parts) for _ in range(3)] == [
        10,
        2,
        0,
    ]


def test_an_event_that_is_larger_than_that() -> None:
    """An event above the limit is sent alone."""
    bus, client = _bus(), _subscriber()
    _publish(bus, ["x" * 11_000_000, "y"])
    faults = DeliveryFaults(Knobs())
    assert [len(take(client, bus, 100, faults).parts) for _ in range(2)] == [1, 1]


def test_what_does_not_decode_is_passed() -> None:
    """An event that does not decode is skipped for good, even without a following one."""
    bus, client = _bus(), _subscriber()
    bus.append(TOPIC, [EncodedEvent("uuid", "x", b"\xff\xff")])
    assert is_ready(client, bus)
    batch = take(client, bus, 100, DeliveryFaults(Knobs()))
    assert (batch.parts, dict(batch.counted), is_ready(client, bus)) == ([], {}, False)
