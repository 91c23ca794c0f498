"""The parts of an apply that need no Spark: rows to events, intervals, and options."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark import apply, entity_snapshot
from airflow_provider_sfevents.spark.changes import serial
from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.current_state import state_merges
from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
from airflow_provider_sfevents.spark.current_state.event_rows import (
    EventPlace,
    decoded_events,
    entity_of,
    event_rows,
    light,
    undecodable_events,
)
from airflow_provider_sfevents.spark.current_state.fold_records import changed_intervals
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import time_of
from airflow_provider_sfevents.spark.current_state.state_rows import (
    entry_of,
    entry_row,
    order_parts,
)
from airflow_provider_sfevents.spark.current_state.value_translation import Target, Translation
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import FieldType
from tests.unit.changes.building import A, B, change, entry, order, second, state

READING = EventPlace(generation=2, batch_number=7)
HEADER = {
    "entityName": "Account",
    "recordIds": [A],
    "changeType": "UPDATE",
    "transactionKey": "t",
    "sequenceNumber": 3,
    "changedFields": ["Industry"],
    "nulledFields": [],
    "diffFields": [],
}
_TEXTS = {"type": "array", "items": "string"}
SCHEMA = {
    "type": "record",
    "name": "AccountChangeEvent",
    "fields": [
        {
            "name": "ChangeEventHeader",
            "type": {
                "type": "record",
                "name": "ChangeEventHeader",
                "fields": [
                    {"name": "entityName", "type": "string"},
                    {"name": "recordIds", "type": _TEXTS},
                    {"name": "changeType", "type": "string"},
                    {"name": "transactionKey", "type": "string"},
                    {"name": "sequenceNumber", "type": "int"},
                    {"name": "commitTimestamp", "type": "long"},
                ],
            },
        },
        {"name": "Industry", "type": ["null", "string"]},
    ],
}


TEXT = FieldType(kind="string")
WAY = Translation(targets={"s": {"Industry": Target(column="Industry", had=TEXT, wanted=TEXT)}})


def decoded(header: dict[str, Any] | None, way: Translation = WAY, **values: Any) -> list[Any]:
    rows = {
        envelope.SCHEMA_ID: pa.array(["s"]),
        envelope.ORDINAL: pa.array([4]),
        envelope.RECEIVED_AT: pa.array([second(9)], pa.timestamp("us", tz="UTC")),
        "ChangeEventHeader": pa.array([header and {**header, "commitTimestamp": second(5)}]),
        **{name: pa.array([value]) for name, value in values.items()},
    }
    batch = pa.RecordBatch.from_pydict(rows)
    (made,) = decoded_events(READING, "Account", way, iter([batch]))
    return [serial.from_text(row["event_text"]) for row in made.to_pylist()]


def undecodable(payload: bytes, schema: str = json.dumps(SCHEMA)) -> Any:
    row = {
        envelope.ORDINAL: 4,
        envelope.RECEIVED_AT: second(9),
        envelope.SCHEMA_ID: "s",
        envelope.EVENT_TYPE: "AccountChangeEvent",
        envelope.REASON: "it is spoilt",
        envelope.RAW_PAYLOAD: payload,
    }
    batch = pa.RecordBatch.from_pylist([row])
    (made,) = undecodable_events(READING, {"s": schema}, frozenset(), iter([batch]))
    return serial.from_text(made.to_pylist()[0]["event_text"])


def payload(ids: list[str], entity: str = "Account") -> bytes:
    stream = io.BytesIO()
    header = {**HEADER, "entityName": entity, "recordIds": ids, "commitTimestamp": 1000}
    schemaless_writer(
        stream, parse_schema(SCHEMA), {"ChangeEventHeader": header, "Industry": "Mining"}
    )
    return stream.getvalue()


@pytest.mark.parametrize(
    ("event_type", "entity"),
    [
        ("AccountChangeEvent", "Account"),
        ("Parcel__ChangeEvent", "Parcel__c"),
        ("acme__Parcel__ChangeEvent", "acme__Parcel__c"),
        ("Order__e", ""),
        ("ChangeEvent", ""),
    ],
)
def test_an_event_type_names_its_entity(event_type: str, entity: str) -> None:
    """Custom objects end in `__c`, with or without a namespace; other event types name none."""
    assert entity_of(event_type) == entity


def test_a_decoded_row_is_the_event() -> None:
    """A decoded row gives the event's place, its header, and the values that are not null."""
    (found,) = decoded(HEADER, Industry="Mining", Phone=None)
    assert (found.order, found.committed_at) == (EventOrder(2, 7, 4), second(5))
    assert (found.entity, found.change_type, found.record_ids) == ("Account", "UPDATE", (A,))
    assert (found.changed, found.values, found.defect) == (
        ("Industry",),
        {"Industry": "Mining"},
        "",
    )


def test_a_header_of_another_entity_is_a_defect_of_the_whole_entity() -> None:
    """An event that names another entity, or none, is a defect of the whole entity."""
    (found,) = decoded({**HEADER, "entityName": "Contact"}, Industry="Mining")
    assert found.defect == "its header names Contact, not Account"
    assert found.is_about_the_entity
    (none,) = decoded(None)
    assert none.defect == "its header names no entity, not Account"


def test_values_that_the_entitys_table_refuses_are_a_defect_of_the_record() -> None:
    """Values that the table refuses mark the record in the header, not the entity."""
    (found,) = decoded(HEADER, Translation(refused={"s": "no column"}), Industry="Mining")
    assert (found.defect, found.values, found.record_ids) == ("no column", {}, (A,))


def test_a_payload_that_is_damaged_behind_its_header_says_which_record_it_is_of() -> None:
    """A payload with a readable header marks only the records that it names."""
    found = undecodable(payload([A, B]) + b"more")
    assert (found.record_ids, found.change_type) == ((A, B), "UPDATE")
    assert (found.identity, found.defect) != ("", "")
    assert found.committed_at == datetime.fromtimestamp(1, UTC)


@pytest.mark.parametrize(
    "spoilt",
    [b"", b"\x00spoilt", payload(["no id!"]), payload([A], "Contact")],
    ids=["empty", "rubbish", "no-id", "another-entity"],
)
def test_a_payload_without_a_header_is_about_the_entity(spoilt: bytes) -> None:
    """A payload without a readable and plausible header is about the entity."""
    found = undecodable(spoilt)
    assert (found.entity, found.record_ids, found.transaction_key) == ("Account", (), "")
    assert found.is_about_the_entity


def test_a_payload_of_a_schema_that_nobody_has_is_about_the_entity() -> None:
    """A payload of an unknown schema is about the entity."""
    assert undecodable(payload([A]), "").record_ids == ()


def test_what_the_driver_sees_of_an_event_has_its_identity() -> None:
    """The driver gets an event's identity; its values only if it is about an entity."""
    told = change(3, "UPDATE", A, Industry="Mining")
    (row,) = event_rows([told]).to_pylist()
    seen = light({**row, "event_text": None})
    assert (seen.identity, seen.order, seen.values) == (told.identity, told.order, {})
    assert (row["named_ids"], row["is_wide"]) == ([A], False)
    wide = change(4, "UPDATE", "001*", A, Industry=None)
    (row,) = event_rows([wide]).to_pylist()
    assert (row["named_ids"], row["is_wide"]) == ([A], True)
    assert light(row).changed == ("Industry",)


def test_an_interval_ends_where_the_next_begins() -> None:
    """The newest existing interval, by order, ends where the first new one begins."""
    past = [{**order_parts(order(n)), "valid_from": second(n)} for n in (1, 2)]
    closes, opens = changed_intervals(A, past, [state(5, Industry="Mining")])
    assert [(one["applied_ordinal"], one["valid_to"]) for one in closes] == [(2, second(5))]
    assert [(one["valid_from"], one["valid_to"], one["Industry"]) for one in opens] == [
        (second(5), None, "Mining")
    ]


def test_a_job_that_is_run_again_finds_the_same_interval_to_end() -> None:
    """A job that runs again ends the same interval, beside its own from before."""
    past = [{**order_parts(order(n)), "valid_from": second(n)} for n in (2, 5)]
    closes, _ = changed_intervals(A, past, [state(5, Industry="Mining")])
    assert [(one["applied_ordinal"], one["valid_to"]) for one in closes] == [(2, second(5))]


def test_a_read_ends_the_interval_of_the_event_whose_order_it_has() -> None:
    """A read has the order of the record's last event."""
    past = [{**order_parts(order(5)), "valid_from": second(5)}]
    read = state(5, read=8, Industry="Mining")
    closes, opens = changed_intervals(
        A, past, [type(read)(**{**_parts(read), "committed_at": second(8)})]
    )
    assert [(one["valid_from"], one["valid_to"]) for one in closes] == [(second(5), second(8))]
    assert [(one["valid_from"], one["was_read"]) for one in opens] == [(second(8), True)]


def _parts(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def test_an_entry_comes_back_from_its_row() -> None:
    """A resync entry is equal after a round trip through its row."""
    told = entry(3)
    assert entry_of(entry_row(told)) == told


def test_a_row_never_goes_back() -> None:
    """A job that stalls leaves rows that a later job has written."""
    said = state_merges.merge(
        "t1",
        "s1",
        keys=["record_id"],
        columns=["record_id"],
        updates=["x"],
        when=state_merges.forward(),
        removes=True,
    )
    forward = (
        "struct(t.applied_generation, t.applied_batch_number, t.applied_ordinal) <= "
        "struct(s.applied_generation, s.applied_batch_number, s.applied_ordinal)"
    )
    assert f"WHEN MATCHED AND s.sfevents_gone AND ({forward}) THEN DELETE" in said
    assert f"WHEN MATCHED AND ({forward}) THEN UPDATE" in said


APPLY = ApplyOptions(manifest_url="m", current_state="s3a://lake/x", table_format="delta")


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"table_format": "parquet"}, "Give table_format='delta' or 'iceberg'"),
        ({"current_state": "lake x"}, "neither a URL"),
        ({"deletions": "forget"}, "deletions='forget'"),
        ({"new_entities": "full"}, "new_entities='full'"),
        ({"row_changes": "merge"}, "row_changes='merge' is not known; give rewrite or vectors"),
        ({"on_type_change": "ignore"}, "on_type_change='ignore'"),
    ],
)
def test_options_that_cannot_work_are_refused(given: dict[str, Any], match: str) -> None:
    """The error of a wrong option names it and its valid values."""
    APPLY.check()
    with pytest.raises(ConfigurationError, match=match):
        replace(APPLY, **given).check()


def test_a_read_has_a_time_with_a_zone_and_a_format() -> None:
    """A time without a zone and an unknown format are refused."""
    assert time_of("2026-11-01T06:30:00Z") == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    for text in ("2026-11-01T06:30:00", "yesterday"):
        with pytest.raises(ConfigurationError, match="read_at="):
            time_of(text)


def test_the_jobs_read_their_command_lines_before_spark_starts() -> None:
    """Options that cannot work are one error; `--no-flush` is there for templates."""
    landing = ["--manifest", "m", "--table", "s3a://lake/log", "--current-state", "s3a://lake/x"]
    table_format, about, _ = apply.job_of([*landing, "--format", "iceberg", "--no-flush"])
    assert (table_format, about) == ("iceberg", "m")
    with pytest.raises(ConfigurationError, match="need a format that can MERGE"):
        apply.job_of([*landing, "--format", "parquet"])
    read = ["--current-state", "s3a://lake/x", "--entity", "Account", "--records", "r"]
    more = ["--records-format", "csv", "--read-at", "2026-11-01T06:30:00Z"]
    table_format, about, _ = entity_snapshot.job_of(
        [*read, *more, "--format", "delta", "--partial"]
    )
    assert (table_format, about) == ("delta", "s3a://lake/x Account")
    with pytest.raises(ConfigurationError, match="need a format that can MERGE"):
        entity_snapshot.job_of([*read, *more, "--format", "parquet"])
    with pytest.raises(ConfigurationError, match="records_format='xml'"):
        entity_snapshot.job_of([*read, *more, "--format", "delta", "--records-format", "xml"])
