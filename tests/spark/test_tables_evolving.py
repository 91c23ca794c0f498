"""Schemas that change, within a batch and between batches, in tables of every format."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark import read_quarantine, read_table
from tests.spark.conftest import FIRST_DAY_MS, SOAKED_DELTA_OF_ANY

if TYPE_CHECKING:
    from tests.spark.conftest import Staging
    from tests.spark.lakes import Tables

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

VALUES = (
    "batch_number",
    "batch_ordinal",
    "Number__c",
    "Amount__c",
    "Size__c",
    "Place__c.Latitude",
    "Place__c.Longitude",
    "Note__c",
)


def place(*members: str) -> dict[str, Any]:
    """A compound with these members."""
    fields = [{"name": name, "type": ["null", "double"]} for name in members]
    return {"type": "record", "name": "Location", "fields": fields}


def version(**types: Any) -> dict[str, Any]:
    """A schema of Order__e with these fields, in this order."""
    fields = [
        {"name": name, "type": ["null", kind], "doc": f"Data:{name}:00N", "default": None}
        for name, kind in types.items()
    ]
    created = {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"}
    return {"type": "record", "name": "Order__e", "fields": [created, *fields]}


VERSIONS = {
    "v1": version(
        Number__c="string", Amount__c="double", Size__c="int", Place__c=place("Latitude")
    ),
    # Re-ordered, widened, a member and a field added, a field removed.
    "v2": version(
        Size__c="long",
        Number__c="string",
        Note__c="string",
        Place__c=place("Longitude", "Latitude"),
    ),
    # A field narrower than its column, one of another kind, the others removed.
    "v3": version(Amount__c="int", Number__c="double"),
    "v4": version(Number__c="boolean"),
}


@pytest.fixture
def staging(staging: Staging) -> Staging:
    staging.schemas |= VERSIONS
    return staging


def said(tables: Tables, batch_id: str) -> list[tuple[str, str]]:
    """Changes of columns by the ledger's row of a batch."""
    return sorted((one["what"], one.get("column", "")) for one in tables.landed()[batch_id].drift)


OLD_VALUES = {
    "Number__c": "one",
    "Amount__c": 0.5,
    "Size__c": 3,
    "Place__c": {"Latitude": 48.4},
}
NEW_VALUES = {
    "Size__c": 2**40,
    "Number__c": "two",
    "Note__c": "new",
    "Place__c": {"Longitude": 9.9, "Latitude": None},
}


@SOAKED_DELTA_OF_ANY
def test_a_table_lives_through_all_that_a_schema_does(any_tables: Tables, staging: Staging) -> None:
    """Columns are added and never dropped, each keeps its type, and the ledger has each change."""
    tables, at = any_tables, FIRST_DAY_MS
    old = staging.event("v1", CreatedDate=at, **OLD_VALUES)
    new = staging.event("v2", CreatedDate=at, **NEW_VALUES)
    tables.land(staging.write([old, new]))
    narrow = staging.event("v3", CreatedDate=at, Amount__c=7, Number__c=1.5)
    tables.land(staging.write([old, narrow], batch_number=2))
    alert = staging.event("alert", CreatedDate=at, CreatedById="005A", At__c=1)
    other = staging.event("v4", CreatedDate=at, Number__c=True)
    third = staging.write([other, alert, old, ("v1", b"")], batch_number=3)
    tables.land(third, on_type_change="quarantine")

    assert tables.rows("Order__e", *VALUES, "Number__c__double") == [
        (1, 0, "one", 0.5, 3, 48.4, None, None, None),
        (1, 1, "two", None, 2**40, None, 9.9, "new", None),
        (2, 0, "one", 0.5, 3, 48.4, None, None, None),
        (2, 1, None, 7.0, None, None, None, None, 1.5),
        (3, 2, "one", 0.5, 3, 48.4, None, None, None),
    ]
    assert tables.rows("Alert__e", "batch_number", "At__c") == [(3, "00:00:00.001")]
    ((_, reason), (_, spoilt)) = tables.rows("_quarantine", "batch_ordinal", "quarantine_reason")
    assert "ends before" in spoilt
    assert (
        reason == "schema v4: field Number__c is boolean, but in the table it is string or double"
    )

    # Decided: the batch is landed again, and what was in quarantine moves to the table.
    tables.land(third)

    assert tables.events("_quarantine") == [("0f3c-3", 3)]
    assert tables.rows("Order__e", *VALUES[:3], "Number__c__boolean")[-2:] == [
        (3, 0, None, True),
        (3, 2, "one", None),
    ]
    table = read_table(tables.spark, tables.table, "Order__e", table_format=tables.table_format)
    own = [name for name in table.columns if name[0].isupper()]
    assert own == [
        *("CreatedDate", "Number__c", "Amount__c", "Size__c", "Place__c", "Note__c"),
        *("Number__c__double", "Number__c__boolean"),
    ]
    assert table.schema["Size__c"].dataType.simpleString() == "bigint"
    assert said(tables, "0f3c-1") == [("new_table", "")]
    assert said(tables, "0f3c-2") == [
        *(("absent", name) for name in ("Note__c", "Place__c", "Size__c")),
        ("changed", "Number__c__double"),
        ("widened", "Amount__c"),
    ]
    assert {("new_table", ""), ("quarantined", ""), ("changed", "Number__c__boolean")}.issubset(
        said(tables, "0f3c-3")
    )
    seen = [(one.schema_id, key) for key, row in tables.landed().items() for one in row.schemas]
    assert sorted(seen) == [
        ("alert", "0f3c-3"),
        ("v1", "0f3c-1"),
        ("v2", "0f3c-1"),
        ("v3", "0f3c-2"),
        ("v4", "0f3c-3"),
    ]


@SOAKED_DELTA_OF_ANY
def test_a_table_without_a_record_of_its_columns_is_landed_into(
    any_tables: Tables, staging: Staging
) -> None:
    """A table without a record of its columns keeps their types, and gets a record."""
    tables = any_tables
    alert = staging.event("alert", CreatedDate=FIRST_DAY_MS, CreatedById="005A", At__c=1)
    tables.land(staging.write([staging.order(1), alert]))
    shutil.rmtree(tables.folder / "_types")

    changed = staging.event("order3", CreatedDate=FIRST_DAY_MS, CreatedById="005A", Number__c=1.5)
    tables.land(staging.write([staging.order(2), changed, alert], batch_number=2))

    assert tables.rows("Order__e", *VALUES[:3], "Number__c__double") == [
        (1, 0, "N1", None),
        (2, 0, "N2", None),
        (2, 1, None, 1.5),
    ]
    assert tables.rows("Alert__e", "batch_number", "At__c") == [
        (1, "00:00:00.001"),
        (2, "00:00:00.001"),
    ]
    assert ("new_table", "") not in said(tables, "0f3c-2")
    recorded = {
        kind: json.loads((tables.folder / f"_types/{kind}/000001.json").read_text())["columns"]
        for kind in ("Alert__e", "Order__e")
    }
    assert [one["name"] for one in recorded["Order__e"]][-1] == "Number__c__double"
    assert {one["name"]: one["type"] for one in recorded["Alert__e"]}["At__c"] == "time"


def test_a_field_that_is_named_like_a_column_of_the_landing_keeps_its_values(
    any_tables: Tables, staging: Staging
) -> None:
    """A field named like a column of the landing gets another column name, alike in each format."""
    text = {"type": ["null", "string"], "doc": "Data:Text", "default": None}
    own = staging.schemas["order"]["fields"][:2]
    fields = [*own, {"name": "event_id", **text}, {"name": "sfevents_gone", **text}]
    staging.schemas["odd"] = {**staging.schemas["order"], "fields": fields}
    record = {"event_id": "mine", "sfevents_gone": "G"}
    odd = staging.event("odd", CreatedDate=FIRST_DAY_MS, CreatedById="005A", **record)

    any_tables.land(staging.write([odd]))

    names = ("event_id", "event_id_", "sfevents_gone_")
    assert any_tables.rows("Order__e", *names) == [("id-0", "mine", "G")]


@SOAKED_DELTA_OF_ANY
def test_landed_batches_and_quarantine_are_read_alike_in_every_format(
    any_tables: Tables, staging: Staging
) -> None:
    """Landed batches and quarantine read alike in each format, without unfinished batches."""
    tables = any_tables
    for batch_number in (1, 2):
        tables.land(
            staging.write([staging.order(batch_number), ("order", b"")], batch_number=batch_number)
        )
    tables.forget("0f3c-2")
    root = tables.table

    landed = read_table(tables.spark, root, "Order__e", landed_only=True)
    quarantine = read_quarantine(tables.spark, root, landed_only=True)

    assert [row.batch_id for row in landed.collect()] == ["0f3c-1"]
    assert [row.batch_id for row in quarantine.collect()] == ["0f3c-1"]
    assert read_quarantine(tables.spark, root).count() == 2
