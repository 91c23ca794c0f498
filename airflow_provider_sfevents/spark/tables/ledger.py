"""The ledger `_batches`, a table beside the event tables: one row for each batch that has landed.

Values; no I/O, no Spark.

A batch has landed if it has a row, which is written after the last event table's commit. Landing a
batch again replaces its row. Schemas that no earlier batch had are stored in the row of the batch
that brought them. A schema id depends on the fields' names and Avro types only: it stays the same
if a date becomes an instant. Two schemas are therefore equal only if their texts are.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_sfevents.spark.tables.file_moves import QUARANTINE
from airflow_provider_sfevents.spark.tables.statements import ddl, text
from airflow_provider_sfevents.staging.manifest import LossWindow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.schema.event_columns import SchemaPlan

TABLE = "_batches"

_TEXT, _COUNT, _INSTANT = pa.string(), pa.int64(), pa.timestamp("us", tz="UTC")
_LOSS_WINDOW = pa.struct(
    dict.fromkeys(
        ("after", "start", "at", "why", "after_event_at", "first_event_at", "pinned"), _TEXT
    )
)
_DRIFT = pa.struct(
    {
        **dict.fromkeys(("event_type", "what", "column", "type", "of_table", "reason"), _TEXT),
        "schemas": pa.list_(_TEXT),
    }
)
_TABLE = pa.struct(
    {
        "name": _TEXT,
        "rows": _COUNT,
        "dates": pa.list_(pa.date32()),
        "earliest": _INSTANT,
        "latest": _INSTANT,
        "files": pa.list_(_TEXT),
        "schema_ids": pa.list_(_TEXT),
    }
)
_SCHEMA = pa.struct(dict.fromkeys(("event_type", "schema_id", "schema_json"), _TEXT))
COLUMNS = pa.schema(
    {
        "batch_id": _TEXT,
        "org_id": _TEXT,
        "event_topic": _TEXT,
        "consumer": _TEXT,
        "epoch": _TEXT,
        "previous_epoch": _TEXT,
        "batch_number": _COUNT,
        "revision": pa.int32(),
        "new_schemas": pa.int32(),
        "staged_at": _INSTANT,
        "landed_at": _INSTANT,
        "attempt": _TEXT,
        "start_point": _TEXT,
        "end_replay_id": _TEXT,
        "ended_by": _TEXT,
        "events": _COUNT,
        "quarantined": _COUNT,
        "duplicates": _COUNT,
        "tables": pa.list_(_TABLE),
        "loss_windows": pa.list_(_LOSS_WINDOW),
        "drift": pa.list_(_DRIFT),
        "schemas": pa.list_(_SCHEMA),
    }
)
"""The ledger's columns.

Columns that look-ups filter by come first, since Delta keeps statistics of the first 32 alone.
"""

_ATTRIBUTES = {
    "event_topic": "topic",
    "start_point": "start",
    "end_replay_id": "end",
    "loss_windows": "losses",
}
"""Attributes of `LedgerRow` with another name than their column."""

SchemaKey = tuple[str, str, str]
"""Org, schema id and text of a schema: two schemas are one if these are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSchema:
    """A schema that no earlier batch had.

    :param event_type: name of the schema's record.
    :param schema_json: as the service sent it.
    """

    event_type: str
    schema_id: str
    schema_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedTable:
    """Rows of a batch in one table.

    :param name: of the table: the event type, or `_quarantine`.
    :param dates: event dates of the rows, ISO-8601, sorted.
    :param earliest: smallest event time of the rows; None: none of them has an event time.
    :param files: relative to the root of the tables; none where only the format knows its files.
    :param schema_ids: of the schemas of the batch that its rows may be written with.
    """

    name: str
    rows: int
    dates: tuple[str, ...] = ()
    earliest: datetime | None = None
    latest: datetime | None = None
    files: tuple[str, ...] = ()
    schema_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A batch that has landed.

    :param revision: number of times that the batch has landed, from 1.
    :param staged_at: creation time of the manifest that was landed: tells forms of a batch apart.
    :param attempt: name of the landing attempt that wrote the row.
    :param start: replay point of the manifest, as text; `end` its last replay id.
    :param duplicates: events left out because they had landed before.
    :param drift: changes of the tables' columns (`drift.Drift.to_dict`).
    :param schemas: those that no earlier batch had.
    :param previous_epoch: empty: not known.
    """

    batch_id: str
    org_id: str
    topic: str
    consumer: str
    epoch: str
    batch_number: int
    staged_at: datetime
    landed_at: datetime
    attempt: str
    start: str
    end: str
    ended_by: str
    events: int
    quarantined: int
    duplicates: int
    tables: tuple[LandedTable, ...]
    losses: tuple[LossWindow, ...] = ()
    drift: tuple[Mapping[str, Any], ...] = ()
    schemas: tuple[SeenSchema, ...] = ()
    revision: int = 1
    previous_epoch: str = ""

    @property
    def rows(self) -> dict[str, int]:
        """Rows by event type, without quarantine."""
        return {one.name: one.rows for one in self.tables if one.name != QUARANTINE}

    @property
    def dates(self) -> dict[str, tuple[str, ...]]:
        """Event dates by table, quarantine too."""
        return {one.name: one.dates for one in self.tables}

    @property
    def files(self) -> tuple[str, ...]:
        """Files of all tables, relative to their root."""
        return tuple(path for one in self.tables for path in one.files)

    def to_values(self) -> dict[str, Any]:
        """Values by the columns of `COLUMNS`."""
        return {
            **{name: getattr(self, _ATTRIBUTES.get(name, name), None) for name in COLUMNS.names},
            "previous_epoch": self.previous_epoch or None,
            "new_schemas": len(self.schemas),
            "tables": [
                {**asdict(one), "dates": list(map(date.fromisoformat, one.dates))}
                for one in self.tables
            ],
            "loss_windows": [asdict(one) for one in self.losses],
            "drift": [{each.name: one.get(each.name) for each in _DRIFT} for one in self.drift],
            "schemas": [asdict(one) for one in self.schemas],
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> LedgerRow:
        """Make a row of the values of `to_values`, as Arrow returns them."""
        made = {_ATTRIBUTES.get(name, name): values[name] for name in COLUMNS.names}
        del made["new_schemas"]
        made |= {
            "previous_epoch": values["previous_epoch"] or "",
            "staged_at": values["staged_at"].astimezone(UTC),
            "landed_at": values["landed_at"].astimezone(UTC),
            "tables": tuple(map(_table, values["tables"])),
            "losses": tuple(LossWindow(**one) for one in values["loss_windows"]),
            "drift": tuple({k: v for k, v in one.items() if v} for one in values["drift"]),
            "schemas": tuple(SeenSchema(**one) for one in values["schemas"]),
        }
        return cls(**made)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """Rows of the ledger that concern one batch.

    :param row: None: the batch has not landed.
    :param claimed_by: creation time of the manifest whose landing has claimed the batch
        (`tables.merging.merged_ledger`); None: no claim.
    :param schemas: keys of the schemas that other batches brought.
    """

    row: LedgerRow | None = None
    claimed_by: datetime | None = None
    schemas: frozenset[SchemaKey] = frozenset()


def claim_id(batch_id: str) -> str:
    """Id of the ledger's row for a claim of a batch; no event's `batch_id` has this form."""
    return f"{batch_id} (landing)"


def view_of(found: Iterable[Mapping[str, Any]], batch_id: str) -> LedgerView:
    """Sort out rows of the ledger: the batch's own, a claim, and those with new schemas.

    :param found: where the ledger has several rows of a batch, the one of the highest revision
        counts.
    """
    row: LedgerRow | None = None
    claimed_by: datetime | None = None
    schemas: set[SchemaKey] = set()
    for values in found:
        if values["batch_id"] == claim_id(batch_id):
            claimed_by = values["staged_at"].astimezone(UTC)
        elif values["batch_id"] != batch_id:
            schemas |= {
                (values["org_id"], one["schema_id"], one["schema_json"])
                for one in values["schemas"] or ()
            }
        elif row is None or values["revision"] > row.revision:
            row = LedgerRow.from_values(values)
    return LedgerView(row=row, claimed_by=claimed_by, schemas=frozenset(schemas))


def new_schemas(
    plan: SchemaPlan, org_id: str, known: Collection[SchemaKey]
) -> tuple[SeenSchema, ...]:
    """Schemas by id that no other batch had, including those of quarantined events.

    :param known: keys of the schemas that other batches brought.
    """
    rows = (
        SeenSchema(event_type=plan.names[schema_id], schema_id=schema_id, schema_json=text)
        for schema_id, text in sorted(plan.schemas.items())
    )
    return tuple(one for one in rows if (org_id, one.schema_id, one.schema_json) not in known)


def columns() -> StructType:
    """The ledger's columns in Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(COLUMNS)


def rows_sql(rows: Iterable[Mapping[str, Any]]) -> str:
    """Make the SQL of rows, given by their values; columns without one are null."""
    values = json.dumps(list(rows), default=lambda one: one.isoformat())
    return (
        f"SELECT inline(from_json({text(values)}, {text(f'array<{ddl(columns())}>')}, "
        "map('mode', 'FAILFAST')))"
    )


def _table(values: Mapping[str, Any]) -> LandedTable:
    lists = {name: tuple(values[name]) for name in ("files", "schema_ids")}
    dates = tuple(one.isoformat() for one in values["dates"])
    return LandedTable(**{**values, **lists, "dates": dates})
