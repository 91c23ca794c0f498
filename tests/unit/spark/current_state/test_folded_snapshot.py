"""Records of an entity snapshot whose outcomes are alike are folded as one, with one result."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given, strategies as st

from airflow_provider_sfevents.spark.avro.arrow_columns import arrow_type
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.current_state.fold_records import Folding, folded_snapshot
from airflow_provider_sfevents.spark.current_state.frames import rows_of
from airflow_provider_sfevents.spark.current_state.state_rows import (
    ENTRY_NAMES,
    entry_row,
    kept_row,
    order_parts,
    state_row,
)
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from tests.unit.changes.building import change, entry, order, second, state

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.changes.resync_entries import ResyncEntry

TEXT, NUMBER = FieldType(kind="string"), FieldType(kind="double")
COLUMNS = tuple(
    Column(name=name, field=name, type=kind)
    for name, kind in {
        "Industry": TEXT,
        "Revenue": FieldType(kind="decimal", precision=18, scale=2),
        "Place": FieldType(kind="struct", members=(("City", TEXT), ("Latitude", NUMBER))),
        "Tags": FieldType(kind="array", item=TEXT),
    }.items()
)
LAYOUT = Layout(columns=COLUMNS)
READ_AT = second(50)
"""Of the read; records' rows have times before and after it."""

VALUES = {
    "Industry": st.sampled_from([None, "Steel"]),
    "Revenue": st.sampled_from([None, Decimal("3.50")]),
    "Place": st.sampled_from([None, {"City": "Ulm", "Latitude": None}]),
    "Tags": st.sampled_from([None, [], ["a", None]]),
}
STATES = st.sampled_from(
    [
        None,
        None,
        state(10),
        state(11, read=5),
        state(49),
        state(60),
        state(12, deleted=True),
    ]
)


def batch_of(records: list[dict[str, Any]]) -> pa.RecordBatch:
    instant = pa.timestamp("us", tz="UTC")
    own = {one.name: arrow_type(one.type) for one in COLUMNS}
    times = {"committed_at": instant, "read_at": instant}
    parts = dict.fromkeys(order_parts(order(1)), pa.int64())
    buried = {"is_deleted": pa.bool_(), **parts, **times}
    marked = {
        **dict.fromkeys(ENTRY_NAMES, pa.int64()),
        "cause_at": instant,
        "resync_reasons": pa.string(),
        "resync_detail": pa.string(),
    }
    kinds = {
        "record_id": pa.string(),
        "read_values": pa.struct(own),
        "known_row": pa.struct({"record_id": pa.string(), **buried, **own}),
        "known_tombstone": pa.struct(buried),
        "known_entry": pa.struct(marked),
        "event_texts": pa.list_(pa.string()),
    }
    return pa.RecordBatch.from_pylist(records, pa.schema(list(kinds.items())))


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records of which most are alike, and some have what makes them differ."""
    found: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 30))):
        row: dict[str, Any] = {"record_id": f"001{number:012}AAA", "event_texts": []}
        known = draw(STATES)
        if known is not None:
            row["known_row"] = state_row(known) | {"Industry": "Coal"}
        row["read_values"] = draw(st.fixed_dictionaries(VALUES))
        special = draw(st.sampled_from(["", "", "", "gone", "buried", "marked", "kept"]))
        if special == "gone":
            row["read_values"] = None
        elif special == "buried":
            row["known_tombstone"] = state_row(state(20, deleted=True))
        elif special == "marked":
            row["known_entry"] = entry_row(entry(20)) | {"resync_reasons": "gap"}
        elif special == "kept":
            row["event_texts"] = [kept_row(change(55, Industry="Tin"))["event_text"]]
        found.append(row)
    return found


@given(records(), st.sampled_from([None, entry(15)]), st.sampled_from(["delete", "flag"]))
def test_a_batch_of_records_has_the_outcomes_of_each_record_alone(
    told: list[dict[str, Any]], whole: ResyncEntry | None, deletions: Any
) -> None:
    """Some have rows of one last event, and some a tombstone, an entry or kept events."""
    folding = Folding(layout=LAYOUT, deletions=deletions, entry=whole)

    def outcomes(*batches: pa.RecordBatch) -> list[dict[str, Any]]:
        made = folded_snapshot(folding, READ_AT, iter(batches))
        rows = [row for one in made for row in rows_of(one)]
        return sorted(rows, key=lambda row: row["record_id"])

    together = batch_of(told)
    assert outcomes(together) == outcomes(*(batch_of([one]) for one in told))
