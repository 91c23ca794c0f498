"""Events over CometD have the form of the guides."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow_provider_sfevents.emulator.bus import avro_schemas
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.bus.change_events import ChangeMessage, to_record
from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.payload_codec import Codec
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent
from airflow_provider_sfevents.emulator.cometd.event_json import event_message
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.org.sample_org import ACCOUNT
from airflow_provider_sfevents.emulator.salesforce_ids import position_of

EVENT, CHANGE, CHANNEL = "/event/Low_Ink__e", "/data/AccountChangeEvent", "/event/All__chn"
INK = avro_schemas.platform_event_schema(
    "Low_Ink__e",
    {
        "Model__c": "Text",
        "Level__c": "Double",
        "At__c": "DateTime",
        "Day__c": "DateOnly",
        "T__c": "TimeOnly",
    },
    FieldTypes(),
)
ACCOUNTS = avro_schemas.change_event_schema("Account", ACCOUNT, FieldTypes(), snapshot=True)


def _bus() -> Bus:
    bus = Bus(name="00D", clock=EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC)), knobs=Knobs())
    bus.define(BusTopic(name=EVENT, kind="event", record="Low_Ink__e", schema_id="ink"))
    bus.define(BusTopic(name=CHANGE, kind="change", record="Account", schema_id="acc"))
    bus.define(BusTopic(name=CHANNEL, kind="channel", members=(EVENT,)))
    bus.add_schema("ink", avro_schemas.to_json(INK))
    bus.add_schema("acc", avro_schemas.to_json(ACCOUNTS))
    return bus


def _shown(bus: Bus, topic: str, channel: str = "") -> dict[str, Any] | None:
    [event] = bus.retained(topic, 1)
    return event_message(event, channel or topic, bus)


def _changed(change_type: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Payload of a change event in CometD's form."""
    bus = _bus()
    change = ChangeMessage(
        entity="Account",
        change_type=change_type,
        record_ids=("001000000000001AAA",),
        user_id="005000000000001AAA",
        committed_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        fields=fields,
        transaction_key="key",
        commit_number=2**60,
        origin="",
        **more,
    )
    bus.append(
        CHANGE, [EncodedEvent("uuid", "acc", Codec(ACCOUNTS).encode(to_record(change, ACCOUNTS)))]
    )
    shown = _shown(bus, CHANGE)
    assert shown is not None
    [event] = bus.retained(CHANGE)
    assert shown["channel"] == CHANGE
    assert {name: shown["data"][name] for name in ("schema", "event")} == {
        "schema": "acc",
        "event": {"replayId": event.position},
    }
    return dict(shown["data"]["payload"])


def test_platform_event() -> None:
    """A platform event has schema, ISO times, nulls, EventUuid and a numeric replay id."""
    bus = _bus()
    values = {
        "CreatedDate": "2017-04-09T18:31:40.517Z",
        "CreatedById": "005D0000001cSZs",
        "Model__c": "XZO-5",
        "Level__c": 0.5,
        "At__c": "2026-01-02T03:04:05Z",
        "Day__c": "2026-01-02",
        "T__c": "03:04:05",
    }
    [replay_id] = bus.append(EVENT, [EncodedEvent("uuid-1", "ink", Codec(INK).encode(values))])
    event = {"EventUuid": "uuid-1", "replayId": position_of(replay_id)}
    payload = {**values, "At__c": "2026-01-02T03:04:05.000Z", "T__c": "03:04:05.000Z"}
    data = {"schema": "ink", "payload": payload, "event": event}
    assert _shown(bus, EVENT) == {"data": data, "channel": EVENT}
    named = {**event, "EventApiName": "Low_Ink__e"}
    assert _shown(bus, EVENT, CHANNEL) == {"data": {**data, "event": named}, "channel": CHANNEL}


def test_nulls_of_a_platform_event() -> None:
    """A missing value is null, and text that looks like a time stays unchanged."""
    bus = _bus()
    given = {"CreatedDate": 0, "CreatedById": "005", "Model__c": "2026-01-02T03:04:05+00:00"}
    bus.append(EVENT, [EncodedEvent("u", "ink", Codec(INK).encode(given))])
    shown = _shown(bus, EVENT)
    assert shown is not None
    assert shown["data"]["payload"] == {
        "CreatedDate": "1970-01-01T00:00:00.000Z",
        "CreatedById": "005",
        "Model__c": "2026-01-02T03:04:05+00:00",
        "Level__c": None,
        "At__c": None,
        "Day__c": None,
        "T__c": None,
    }


def test_update() -> None:
    """An update names fields instead of bitmaps and has only the changed values."""
    address = {"Street": None, "City": "Porto"}
    payload = _changed("UPDATE", {"Industry": "Retail", "Rating": None, "BillingAddress": address})
    assert payload == {
        "ChangeEventHeader": {
            "commitNumber": 2**60,
            "commitUser": "005000000000001AAA",
            "sequenceNumber": 1,
            "entityName": "Account",
            "changeType": "UPDATE",
            "changedFields": [
                "Industry",
                "Rating",
                "LastModifiedDate",
                "BillingAddress.Street",
                "BillingAddress.City",
            ],
            "changeOrigin": "",
            "transactionKey": "key",
            "commitTimestamp": 1767323045000,
            "recordIds": ["001000000000001AAA"],
        },
        "BillingAddress": {"Street": None, "City": "Porto"},
        "Industry": "Retail",
        "Rating": None,
        "LastModifiedDate": "2026-01-02T03:04:05.000Z",
    }


def test_diff() -> None:
    """A value that is a diff is nested; other values are not."""
    payload = _changed(
        "UPDATE", {"Description": "--- \n+++ ab\n", "Industry": "X"}, diff_fields=("Description",)
    )
    assert payload["Description"] == {"diff": "--- \n+++ ab\n"}
    assert payload["Industry"] == "X"


def test_creation_and_deletion() -> None:
    """A creation has every value and no changedFields; a deletion has only the header."""
    created = _changed("CREATE", {"Name": "Nord", "BillingAddress": {"City": "Porto"}})
    assert created["ChangeEventHeader"]["changedFields"] == []
    assert set(created) == {
        "ChangeEventHeader",
        "Name",
        "BillingAddress",
        "CreatedDate",
        "CreatedById",
        "LastModifiedDate",
        "LastModifiedById",
    }
    assert created["BillingAddress"] == {"City": "Porto"}
    assert set(_changed("DELETE", {})) == {"ChangeEventHeader"}


def test_what_cannot_be_shown() -> None:
    """An event that does not decode, or has an unknown schema, has no JSON form."""
    bus = _bus()
    bus.append(EVENT, [EncodedEvent("u", "ink", b"\xff\xff\xff")])
    assert _shown(bus, EVENT) is None
    bus.append(EVENT, [EncodedEvent("u", "unknown", b"")])
    assert _shown(bus, EVENT) is None
