"""Schemas and their ids equal those of live orgs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastavro import parse_schema

from airflow_provider_sfevents.emulator.bus import avro_schemas
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.errors import EmulatorError


@pytest.mark.parametrize(
    ("name", "fields", "schema_id"),
    [
        (
            "Low_Ink__e",
            {"Printer_Model__c": "Text", "Serial_Number__c": "Text", "Ink_Percentage__c": "Double"},
            "5E5OtZj5_Gm6Vax9XMXH9A",
        ),
        ("CM_Test_Event_Two__e", {"Message__c": "Text"}, "K98aAtiNFBjA-PJlcvaQ2g"),
        (
            "Order_Event__e",
            {"Order_Number__c": "Text", "City__c": "Text", "Amount__c": "Double"},
            "_CADE3qaegX3ECEW0rlbYA",
        ),
    ],
)
def test_ids_of_live_orgs(name: str, fields: dict[str, str], schema_id: str) -> None:
    """Three schemas seen in live orgs have exactly their ids."""
    assert (
        avro_schemas.schema_id(avro_schemas.platform_event_schema(name, fields, FieldTypes()))
        == schema_id
    )


def test_json_of_a_live_platform_event() -> None:
    """A schema's JSON equals a live org's, except for custom field ids."""
    made = avro_schemas.platform_event_schema(
        "Order_Event__e", {"City__c": "Text", "Amount__c": "Double"}, FieldTypes()
    )
    assert avro_schemas.to_json(made) == (
        '{"type":"record","name":"Order_Event__e","namespace":"com.sforce.eventbus","fields":['
        '{"name":"CreatedDate","type":"long","doc":"CreatedDate:DateTime"},'
        '{"name":"CreatedById","type":"string","doc":"CreatedBy:EntityId"},'
        '{"name":"City__c","type":["null","string"],"doc":"Data:Text:00NgL00000v0001","default":null},'
        '{"name":"Amount__c","type":["null","double"],"doc":"Data:Double:00NgL00000v0002","default":null}]}'
    )


def test_doc_does_not_count_for_the_id() -> None:
    """The same fields in two orgs with other field ids have the same schema id."""
    one, two = (
        avro_schemas.platform_event_schema("X__e", {"A__c": "Text"}, FieldTypes(prefix=prefix))
        for prefix in ("00NgL00000a", "00NgL00000b")
    )
    assert one != two
    assert avro_schemas.schema_id(one) == avro_schemas.schema_id(two)


@pytest.mark.parametrize(
    ("kind", "avro", "doc"),
    [
        ("Text", "string", "Data:Text"),
        ("LongTextArea", "string", "Data:StringPlusClob"),
        ("Picklist", "string", "Data:DynamicEnum"),
        ("Currency", "double", "Data:Currency"),
        ("Number", "double", "Data:Double"),
        ("Integer", "int", "Data:Integer"),
        ("Checkbox", "boolean", "Data:Boolean"),
        ("DateTime", "long", "Data:DateTime"),
        ("Date", "long", "Data:DateOnly"),
        ("Time", "long", "Data:TimeOnly"),
        ("Birthday", "long", "Data:Birthday"),
        ("Lookup", "string", "ForeignKey:EntityId"),
    ],
)
def test_types(kind: str, avro: str, doc: str) -> None:
    """Each Salesforce type has the Avro type and the hint of live schemas."""
    assert FieldTypes().field("F", kind) == {
        "name": "F",
        "type": ["null", avro],
        "doc": doc,
        "default": None,
    }


def test_unknown_type_is_refused() -> None:
    """An unknown type is refused with its name and field."""
    with pytest.raises(EmulatorError, match=r"'F'.*'Strng'"):
        FieldTypes().field("F", "Strng")


def _members(schema: dict[str, Any], name: str) -> list[str]:
    [field] = [field for field in schema["fields"] if field["name"] == name]
    return [member["name"] for member in field["type"][-1]["fields"]]


def test_change_event_has_its_header_first() -> None:
    """The header is field 0 of a change event, and every other field is nullable."""
    made = avro_schemas.change_event_schema(
        "Account", {"Name": "Text", "CreatedDate": "DateTime"}, FieldTypes(), snapshot=True
    )
    header, *others = made["fields"]
    assert (made["name"], header["name"], header["doc"]) == (
        "AccountChangeEvent",
        "ChangeEventHeader",
        "Data:ComplexValueType",
    )
    assert [member["name"] for member in header["type"]["fields"]] == [
        "entityName",
        "recordIds",
        "changeType",
        "changeOrigin",
        "transactionKey",
        "sequenceNumber",
        "commitTimestamp",
        "commitNumber",
        "commitUser",
        "nulledFields",
        "diffFields",
        "changedFields",
    ]
    assert [field["type"][0] for field in others] == ["null", "null"]
    assert others[1]["doc"] == "CreatedDate:DateTime"


@pytest.mark.parametrize(("snapshot", "symbols"), [(True, 10), (False, 9)])
def test_change_type_has_nine_or_ten_symbols(snapshot: bool, symbols: int) -> None:
    """The tenth ChangeType symbol, SNAPSHOT, exists since 2026."""
    made = avro_schemas.change_event_schema("Account", {}, FieldTypes(), snapshot=snapshot)
    kind = made["fields"][0]["type"]["fields"][2]["type"]
    assert (len(kind["symbols"]), kind["namespace"]) == (symbols, "")


def test_compounds_are_defined_once() -> None:
    """The first address defines its record, the second one references it."""
    fields = {
        "Name": "Switchable_PersonName",
        "BillingAddress": "Address",
        "ShippingAddress": "Address",
    }
    made = avro_schemas.change_event_schema("Account", fields, FieldTypes(), snapshot=True)
    assert made["fields"][1]["type"][:2] == ["null", "string"]
    assert _members(made, "BillingAddress")[:5] == [
        "Street",
        "City",
        "State",
        "PostalCode",
        "Country",
    ]
    assert made["fields"][3]["type"] == ["null", "Address"]
    assert (
        parse_schema(json.loads(avro_schemas.to_json(made)))["name"]
        == "com.sforce.eventbus.AccountChangeEvent"
    )


def test_state_picklists_add_codes_to_addresses() -> None:
    """With state picklists, addresses have StateCode and CountryCode."""
    made = avro_schemas.change_event_schema(
        "Lead", {"Address": "Address"}, FieldTypes(state_picklists=True), snapshot=True
    )
    assert _members(made, "Address")[5:7] == ["StateCode", "CountryCode"]


@pytest.mark.parametrize(
    ("entity", "name"),
    [("Account", "AccountChangeEvent"), ("Employee__c", "Employee__ChangeEvent")],
)
def test_change_event_names(entity: str, name: str) -> None:
    """A custom object's change event has its name without the c."""
    assert avro_schemas.change_event_name(entity) == name


def test_evolving_gives_a_new_id() -> None:
    """Each added or removed field changes the schema id."""
    first = avro_schemas.platform_event_schema("X__e", {"A__c": "Text"}, FieldTypes())
    added = avro_schemas.evolved(first, {"B__c": "Double"}, (), FieldTypes())
    back = avro_schemas.evolved(added, {}, ("B__c",), FieldTypes())
    assert [field["name"] for field in added["fields"]] == [
        "CreatedDate",
        "CreatedById",
        "A__c",
        "B__c",
    ]
    assert (
        avro_schemas.schema_id(added)
        != avro_schemas.schema_id(first)
        == avro_schemas.schema_id(back)
    )


@pytest.mark.parametrize(("add", "remove"), [({"A__c": "Text"}, ()), ({}, ("Nope__c",))])
def test_evolving_into_nonsense_is_refused(add: dict[str, str], remove: tuple[str, ...]) -> None:
    """Adding an existing field or removing a missing one is refused."""
    first = avro_schemas.platform_event_schema("X__e", {"A__c": "Text"}, FieldTypes())
    with pytest.raises(EmulatorError, match=r"A__c|Nope__c"):
        avro_schemas.evolved(first, add, remove, FieldTypes())
