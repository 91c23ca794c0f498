"""The parts of an apply that need no Spark: rows to events, intervals, and options."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark import apply, entity_snapshot
from airflow_provider_sfevents.spark.changes.order import EventOrder, before_batch
from airflow_provider_sfevents.spark.current_state import state_merges
from airflow_provider_sfevents.spark.current_state.event_rows import (
    decoded_events,
    entity_of,
    event_of,
    event_rows,
    held_rows,
    undecodable_events,
    values_column,
)
from airflow_provider_sfevents.spark.current_state.fold_records import Folding
from airflow_provider_sfevents.spark.current_state.frames import rows_of
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import time_of
from airflow_provider_sfevents.spark.current_state.state_rows import (
    entry_of,
    entry_row,
)
from airflow_provider_sfevents.spark.current_state.value_translation import (
    Target,
    Translation,
)
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from tests.unit.changes.building import LAYOUT, A, B, change, entry, second

PLACE = before_batch(2, 7)
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
INDUSTRY = Column(name="Industry", field="Industry", type=TEXT)
WAY = Translation(
    targets={"s": {"Industry": Target(column="Industry", had=TEXT, wanted=TEXT)}},
    columns=(INDUSTRY,),
)


def decoded(header: dict[str, Any] | None, way: Translation = WAY, **values: Any) -> list[Any]:
    rows = {
        envelope.SCHEMA_ID: pa.array(["s"]),
        envelope.ORDINAL: pa.array([4]),
        envelope.RECEIVED_AT: pa.array([second(9)], pa.timestamp("us", tz="UTC")),
        "ChangeEventHeader": pa.array([header and {**header, "commitTimestamp": second(5)}]),
        **{name: pa.array([value]) for name, value in values.items()},
    }
    batch = pa.RecordBatch.from_pydict(rows)
    (made,) = decoded_events(PLACE, "Account", way, iter([batch]))
    return [event_of(row) for row in rows_of(made)]


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
    (made,) = undecodable_events(PLACE, {"s": schema}, frozenset(), iter([batch]))
    return event_of(made.to_pylist()[0])


def payload(ids: list[str], entity: str = "Account") -> bytes:
    stream = io.BytesIO()
    header = {**HEADER, "entityName": entity, "recordIds": ids, "commitTimestamp": 1000}
    schemaless_writer(
        stream, parse_schema(SCHEMA), {"ChangeEventHeader": header, "Industry": "Mining"}
    )
    return stream.getvalue()


@pytest.mark.parametrize(
    "wrong",
    [
        {"commitTimestamp": "2026-11-01T00:00:00Z"},
        {"sequenceNumber": "3"},
        {"transactionKey": 5},
        {"changeType": 1},
        {"sequenceNumber": 2**31},
        {"sequenceNumber": -(2**31) - 1},
        {"sequenceNumber": True},
        {"commitTimestamp": 2**63},
        {"transactionKey": "\ud800"},
    ],
    ids=ascii,
)
def test_a_header_of_other_types_names_no_record(wrong: dict[str, Any]) -> None:
    """An event over the Streaming API whose header has values of other types marks the entity."""
    header = {**HEADER, "commitTimestamp": 1000}
    assert undecodable(streamed(header)).record_ids == (A,)
    assert undecodable(streamed({**header, **wrong})).record_ids == ()


def test_a_header_without_values_is_of_no_transaction() -> None:
    """Members of a header that are null count as missing, so the event ends no transaction."""
    names = ("transactionKey", "changeType", "sequenceNumber", "commitTimestamp")
    found = undecodable(streamed({**HEADER, **dict.fromkeys(names)}))
    assert (found.transaction_key, found.change_type, found.sequence_number) == ("", "", 0)
    assert (found.committed_at, found.record_ids) == (second(9), (A,))


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31)])
def test_a_header_has_any_whole_number_of_its_size(number: int) -> None:
    """The largest and the smallest number that Avro allows are read."""
    header = {**HEADER, "sequenceNumber": number, "commitTimestamp": 2**63 - 1}
    found = undecodable(streamed(header))
    assert (found.sequence_number, found.committed_at) == (number, second(9))


def streamed(header: dict[str, Any]) -> bytes:
    return json.dumps({"data": {"payload": {"ChangeEventHeader": header}}}).encode()


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
    (none,) = decoded(None, Industry=None)
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


def test_a_payload_of_an_unknown_schema_is_about_the_entity() -> None:
    """A payload whose schema is unknown concerns the whole entity, not single records."""
    assert undecodable(payload([A]), "").record_ids == ()


def test_values_of_fields_that_changed_their_kind_go_to_their_own_columns() -> None:
    """A column is translated event by event if schemas have it elsewhere, or in another type."""
    number, wide = FieldType(kind="int"), FieldType(kind="double")
    way = Translation(
        targets={
            "old": {"Size": Target(column="Size_text", had=TEXT, wanted=TEXT)},
            "new": {"Size_int": Target(column="Size", had=number, wanted=wide)},
            "other": {"Name": Target(column="Name", had=TEXT, wanted=TEXT)},
        },
        columns=tuple(
            Column(name=name, field=name, type=kind)
            for name, kind in (("Size_text", TEXT), ("Size", wide), ("Name", TEXT), ("New", TEXT))
        ),
    )
    rows = {
        envelope.SCHEMA_ID: pa.array(["old", "new", "other"]),
        envelope.ORDINAL: pa.array([0, 1, 2]),
        envelope.RECEIVED_AT: pa.array([second(9)] * 3, pa.timestamp("us", tz="UTC")),
        "ChangeEventHeader": pa.array([{**HEADER, "commitTimestamp": second(5)}] * 3),
        "Size": pa.array(["large", None, "of no field"]),
        "Size_int": pa.array([None, 7, 8], pa.int32()),
        "Name": pa.array(["of no field", None, "Acme"]),
    }

    (made,) = decoded_events(PLACE, "Account", way, iter([pa.RecordBatch.from_pydict(rows)]))

    assert [event_of(row).values for row in rows_of(made)] == [
        {"Size_text": "large"},
        {"Size": 7.0},
        {"Name": "Acme"},
    ]


@pytest.mark.parametrize("ids", [(A,), ("001*", A)])
def test_an_event_that_is_held_is_the_event(ids: tuple[str, ...]) -> None:
    """An event set aside has the columns of its identity, and reads back with all its values."""
    told = change(3, "UPDATE", *ids, Industry="Mining")
    columns = event_rows([told])
    values = pa.array([{"Industry": "Mining", "Phone": None}])
    (held,) = held_rows(iter([columns.append_column(values_column("Account"), values)]))

    (row,) = held.to_pylist()

    assert event_of(row) == told
    assert (row["event_identity"], row["named_ids"]) == (told.identity, [A])
    assert row["is_wide"] == (len(ids) > 1)


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


def test_a_row_that_is_partly_known_keeps_the_rest() -> None:
    """Columns that were not read stay as the table has them, and no new row comes of the others."""
    said = state_merges.merge(
        "t1",
        "s1",
        keys=["record_id"],
        columns=["record_id", "x", "y"],
        updates=["x", "y"],
        partial="row_partial",
        partly=["y"],
    )
    kept = "t.`y` = CASE WHEN s.row_partial THEN t.`y` ELSE s.`y` END"
    assert f"WHEN MATCHED THEN UPDATE SET t.`x` = s.`x`, {kept}" in said
    assert "WHEN NOT MATCHED AND NOT s.row_partial THEN INSERT" in said


@pytest.mark.parametrize(
    ("fields", "history", "read"),
    [
        (frozenset({"industry", "Address.City"}), False, ["Address", "Industry"]),
        (frozenset({"Industry"}), True, ["Name", "Address", "Industry", "Phone", "Description"]),
        (None, False, ["Name", "Address", "Industry", "Phone", "Description"]),
        (frozenset(), False, []),
    ],
)
def test_a_fold_reads_the_columns_that_events_set(
    fields: frozenset[str] | None, history: bool, read: list[str]
) -> None:
    """Values of other columns are not read, unless there is a history or a snapshot to fold."""
    folding = Folding(layout=LAYOUT, deletions="delete", entry=None, history=history, fields=fields)
    assert [one.name for one in folding.read] == read


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
    with pytest.raises(ConfigurationError, match="on_type_change='ignore'"):
        apply.job_of([*landing, "--format", "iceberg", "--on-type-change", "ignore"])
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
