"""Rows of the ledger: one for each batch that has landed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa

from airflow_provider_sfevents.spark.schema.event_columns import SchemaPlan, plan_batch
from airflow_provider_sfevents.spark.tables import ledger
from airflow_provider_sfevents.spark.tables.ledger import (
    LandedTable,
    LedgerRow,
    SeenSchema,
    new_schemas,
    view_of,
)
from airflow_provider_sfevents.staging.manifest import LossWindow

STAGED_AT = datetime(2026, 11, 2, 6, 30, 0, 1, tzinfo=UTC)
SEEN = SeenSchema(event_type="A__e", schema_id="s", schema_json="{}")
ROW = LedgerRow(
    batch_id="e-7",
    org_id="00D",
    topic="/event/A__e",
    consumer="orders",
    epoch="e",
    batch_number=7,
    staged_at=STAGED_AT,
    landed_at=datetime(2026, 11, 2, 7, tzinfo=UTC),
    attempt="a",
    start="earliest",
    end="0a",
    ended_by="max_events",
    events=4,
    quarantined=1,
    duplicates=1,
    tables=(
        LandedTable(
            name="A__e",
            rows=2,
            dates=("2026-11-01", "2026-11-02"),
            earliest=datetime(1, 1, 1, tzinfo=UTC),
            latest=datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            files=("A__e/event_date=2026-11-01/e-7-00000.parquet",),
            schema_ids=("s",),
        ),
        LandedTable(name="_quarantine", rows=1, dates=("2026-11-02",)),
    ),
    losses=(LossWindow(after="01", start="earliest", at="2026-11-02T00:00:00+00:00", why="gone"),),
    drift=({"event_type": "A__e", "what": "new_table", "schemas": ["s"]},),
    schemas=(SEEN,),
    revision=2,
)


def through_arrow(*rows: LedgerRow) -> list[dict[str, object]]:
    table = pa.Table.from_pylist([row.to_values() for row in rows], ledger.COLUMNS)
    found: list[dict[str, object]] = table.to_pylist()
    return found


def test_a_row_is_read_as_it_was_written() -> None:
    """Each value comes back through Arrow, the earliest and the latest possible instants too."""
    (values,) = through_arrow(ROW)

    assert LedgerRow.from_values(values) == ROW
    assert (ROW.rows, ROW.dates["_quarantine"]) == ({"A__e": 2}, ("2026-11-02",))


def test_the_columns_are_spelt_in_sql() -> None:
    """The DDL has nested types, and each name is quoted."""
    said = ledger.rows_sql([])

    assert ", 'array<struct<`batch_id`: string, `org_id`: string" in said
    assert "`tables`: array<struct<`name`: string, `rows`: bigint, `dates`: array<date>, " in said


def test_of_several_rows_of_a_batch_the_last_revision_counts() -> None:
    """The row of the highest revision counts, and a claim is no landing."""
    other = replace(ROW, batch_id="e-8")
    claim = replace(ROW, batch_id=ledger.claim_id("e-7"), schemas=())
    rows = through_arrow(ROW, replace(ROW, revision=3), replace(ROW, revision=1), other, claim)

    found = view_of(rows, "e-7")

    assert (found.row, found.claimed_by) == (replace(ROW, revision=3), STAGED_AT)
    assert found.schemas == {("00D", "s", "{}")}
    assert view_of(rows[:3], "e-9").row is None


def plan(**kinds: str) -> SchemaPlan:
    schemas = {
        schema_id: json.dumps(
            {
                "type": "record",
                "name": "A__e",
                "fields": [{"name": "X", "type": "long", "doc": doc}],
            }
        )
        for schema_id, doc in kinds.items()
    }
    return plan_batch(schemas, dict, {"gone": "there is no schema gone"})


def keys(plan: SchemaPlan) -> set[ledger.SchemaKey]:
    return {("00D", schema_id, text) for schema_id, text in plan.schemas.items()}


def test_a_batch_brings_only_schemas_that_no_other_brought() -> None:
    """A batch's row has only schemas that are new and known."""
    first = plan(s="Data:DateOnly")
    more = plan(s="Data:DateOnly", t="Data:DateOnly")

    assert [one.schema_id for one in new_schemas(first, "00D", ())] == ["s"]
    assert new_schemas(first, "00D", keys(first)) == ()
    assert [one.schema_id for one in new_schemas(more, "00D", keys(first))] == ["t"]
    assert len(new_schemas(first, "00E", keys(first))) == 1


def test_two_texts_of_one_schema_id_are_two_schemas() -> None:
    """Two texts with one schema id are two schemas, such as a date that became an instant."""
    (found,) = new_schemas(plan(s="Data:DateTime"), "00D", keys(plan(s="Data:DateOnly")))

    assert (found.schema_id, "DateTime" in found.schema_json) == ("s", True)


def test_schemas_whose_events_are_quarantined_are_kept_too() -> None:
    """A refused schema is recorded too, because its events are in quarantine."""
    twins = (
        '{"type": "record", "name": "A__e", "fields": [{"name": "X", "type": "int"}, {"name": '
        '"x", "type": "int"}]}'
    )

    rows = new_schemas(plan_batch({"s": twins}, dict), "00D", ())

    assert [row.schema_json for row in rows] == [twins]
