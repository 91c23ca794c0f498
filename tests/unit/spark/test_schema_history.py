"""Rows of the table of all schemas."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from airflow_provider_sfevents.spark.plan import BatchPlan, plan_batch
from airflow_provider_sfevents.spark.schema_history import KEY, SQL, SeenSchema, new_schemas
from airflow_provider_sfevents.staging.manifest import Manifest


def manifest(sequence: int) -> Manifest:
    return Manifest(
        org_id="00D000000000001EAA",
        instance_url="https://org.example",
        topic="/event/A__e",
        consumer="dag",
        epoch="e",
        sequence=sequence,
        batch_id=f"e-{sequence}",
        position_start="earliest",
        start="earliest",
        end="0a",
        events=1,
        bytes=1,
        ended_by="max_events",
        parts=(),
        schemas=("s",),
        created_at=f"2026-11-0{sequence}T10:00:00+01:00",
    )


def plan(**kinds: str) -> BatchPlan:
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


def test_a_row_says_what_was_first_seen_where_and_when() -> None:
    """The columns are those of the DDL, in its order; a schema that cannot be had has no row."""
    batch = plan(s="Data:DateOnly")

    rows = new_schemas(manifest(1), batch, ())

    assert rows == (
        SeenSchema(
            org_id="00D000000000001EAA",
            event_type="A__e",
            schema_id="s",
            schema_json=batch.schemas["s"],
            event_topic="/event/A__e",
            batch_id="e-1",
            batch_sequence=1,
            first_seen_at=datetime(2026, 11, 1, 9, tzinfo=UTC),
        ),
    )
    names = [column.split()[0] for column in SQL.split(", ")]
    assert dict(zip(names, rows[0].values(), strict=True)) == {
        name: getattr(rows[0], name) for name in names
    }
    assert tuple(getattr(rows[0], name) for name in KEY) == rows[0].key


def test_a_batch_adds_only_what_no_other_brought() -> None:
    """Landing it again gives the same rows; a later batch with the same schema gives none."""
    first = new_schemas(manifest(1), plan(s="Data:DateOnly"), ())
    known = {row.key for row in first}

    assert new_schemas(manifest(1), plan(s="Data:DateOnly"), ()) == first
    assert new_schemas(manifest(2), plan(s="Data:DateOnly"), known) == ()
    assert [
        row.schema_id
        for row in new_schemas(manifest(2), plan(s="Data:DateOnly", t="Data:DateOnly"), known)
    ] == ["t"]


def test_two_schemas_of_one_id_are_two_rows() -> None:
    """A date that becomes an instant changes no id: both are longs to Avro."""
    known = {row.key for row in new_schemas(manifest(1), plan(s="Data:DateOnly"), ())}

    rows = new_schemas(manifest(2), plan(s="Data:DateTime"), known)

    assert [row.schema_id for row in rows] == ["s"]
    assert "DateTime" in rows[0].schema_json


def test_schemas_whose_events_are_quarantined_are_kept_too() -> None:
    """They are what somebody will want to look at."""
    twins = '{"type": "record", "name": "A__e", "fields": [{"name": "X", "type": "int"}, {"name": "x", "type": "int"}]}'

    rows = new_schemas(manifest(1), plan_batch({"s": twins}, dict), ())

    assert [row.schema_json for row in rows] == [twins]
