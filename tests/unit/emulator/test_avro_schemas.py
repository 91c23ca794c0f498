"""Schemas and their ids equal those of live orgs."""

from __future__ import annotations

from typing import Any

import pytest

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


def test_unknown_type_is_refused() -> None:
    """An unknown type is refused with its name and field."""
    with pytest.raises(EmulatorError, match=r"'F'.*'Strng'"):
        FieldTypes().field("F", "Strng")


def _members(schema: dict[str, Any], name: str) -> list[str]:
    [field] = [field for field in schema["fields"] if field["name"] == name]
    return [member["name"] for member in field["type"][-1]["fields"]]


def test_state_picklists_add_codes_to_addresses() -> None:
    """With state picklists, addresses have StateCode and CountryCode."""
    made = avro_schemas.change_event_schema(
        "Lead", {"Address": "Address"}, FieldTypes(state_picklists=True), snapshot=True
    )
    assert _members(made, "Address")[5:7] == ["StateCode", "CountryCode"]


@pytest.mark.parametrize(("add", "remove"), [({"A__c": "Text"}, ()), ({}, ("Nope__c",))])
def test_evolving_into_nonsense_is_refused(add: dict[str, str], remove: tuple[str, ...]) -> None:
    """Adding an existing field or removing a missing one is refused."""
    first = avro_schemas.platform_event_schema("X__e", {"A__c": "Text"}, FieldTypes())
    with pytest.raises(EmulatorError, match=r"A__c|Nope__c"):
        avro_schemas.evolved(first, add, remove, FieldTypes())
