"""Record of a table's columns."""

from __future__ import annotations

import json

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded, additions

TEXT = FieldType(kind="string")
NAME = FieldType(kind="struct", members=(("FirstName", TEXT), ("Name", TEXT)), text_member="Name")
MONEY = FieldType(kind="decimal", precision=18, scale=2)


def table(**types: FieldType) -> Recorded:
    return Recorded(
        columns=tuple(Column(name=name, field=name, type=kind) for name, kind in types.items())
    )


def test_every_kind_of_column_comes_back_as_it_was() -> None:
    """The text of a record is stable, as later releases read it."""
    recorded = Recorded(
        columns=(
            Column(name="Name", field="Name", type=NAME),
            Column(name="Amount__c", field="Amount__c", type=FieldType(kind="double")),
            Column(name="Amount__c__decimal_18_2", field="Amount__c", type=MONEY),
            Column(name="Tags", field="Tags", type=FieldType(kind="array", item=TEXT)),
            Column(name="Named", field="Named", type=FieldType(kind="map", item=NAME)),
        )
    )

    text = recorded.to_json()

    assert Recorded.from_json(text, "here") == recorded
    name = {
        "kind": "struct",
        "members": [{"name": "FirstName", "type": "string"}, {"name": "Name", "type": "string"}],
        "text_member": "Name",
    }
    assert json.loads(text) == {
        "version": 1,
        "columns": [
            {"name": "Name", "field": "Name", "type": name},
            {"name": "Amount__c", "field": "Amount__c", "type": "double"},
            {
                "name": "Amount__c__decimal_18_2",
                "field": "Amount__c",
                "type": {"kind": "decimal", "precision": 18, "scale": 2},
            },
            {"name": "Tags", "field": "Tags", "type": {"kind": "array", "item": "string"}},
            {"name": "Named", "field": "Named", "type": {"kind": "map", "item": name}},
        ],
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "columns": 1}',
        '{"version": 1, "columns": [{"name": "A", "field": "A"}]}',
        '{"version": 1, "columns": [{"name": "", "field": "A", "type": "int"}]}',
        '{"version": 1, "columns": [{"name": "A", "field": "A", "type": "bigint"}]}',
        '{"version": 1, "columns": [{"name": "A", "field": "A", "type": "struct"}]}',
        '{"version": 1, "columns": [{"name": "A", "field": "A", "type": {"kind": "int"}}]}',
        '{"version": 1, "columns": [{"name": "A", "field": "A", "type": {"kind": "array"}}]}',
        '{"version": 1, "columns": [{"name": "A", "field": "A", "type": {"kind": "decimal"}}]}',
        '{"version": 1, "columns": [{"name": "A", "field": "A", "type": '
        '{"kind": "struct", "members": [], "text_member": "T"}}]}',
        '{"version": 1, "columns": [{"name": "A", "field": "A", "type": "int"}, '
        '{"name": "a", "field": "A", "type": "long"}]}',
    ],
)
def test_a_text_that_is_damaged_is_refused_with_its_name(text: str) -> None:
    """A damaged record is refused with its name and the remedy."""
    with pytest.raises(StagingError, match=r"root/_types/A__e/3.json is no record of.*Restore it"):
        Recorded.from_json(text, "root/_types/A__e/3.json")


def test_a_newer_releases_text_is_refused_as_such() -> None:
    """A record of a newer release is refused."""
    with pytest.raises(StagingError, match=r"here has version 2 .* reads version 1.*a newer one"):
        Recorded.from_json('{"version": 2, "columns": []}', "here")


def test_what_a_table_needs_more_is_named_with_its_path() -> None:
    """New columns and members are listed with their paths."""
    one = FieldType(kind="struct", members=(("A", TEXT),))
    two = FieldType(kind="struct", members=(("A", TEXT), ("B", MONEY)))
    before = table(
        Old=TEXT,
        Struct=one,
        List=FieldType(kind="array", item=one),
        Map=FieldType(kind="map", item=one),
    )
    after = table(
        Old=TEXT,
        Struct=two,
        List=FieldType(kind="array", item=two),
        Map=FieldType(kind="map", item=two),
        New=one,
    )

    assert [(".".join(path), kind) for path, kind, _ in additions(before, after)] == [
        ("Struct.B", MONEY),
        ("List.element.B", MONEY),
        ("Map.value.B", MONEY),
        ("New", one),
    ]
    assert additions(after, after) == ()
