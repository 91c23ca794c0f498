"""Seconds of an apply of change events, beside a hand-written MERGE of the same changes.

The peer's changes are decoded and in a table already; it merges them into a table with the same
rows: what changed is set, what is new is inserted, what is gone is deleted. It keeps no order, no
identities and no resync entries, and its session has Spark's own settings. Of the changes 90 % are
updates of four fields, 5 % creations and 5 % deletions. Applying counts with what it adds to a
landing: a batch is landed into a table of its own, then landed and applied as a task does. Warm:
all in one application, in turn, medians; each round has changes of its own.

`python -m benchmarks.applying 2000000 iceberg` has one Iceberg table of that many records.
"""

from __future__ import annotations

import io
import json
import random
import statistics
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from fastavro import parse_schema, schemaless_writer

from airflow_provider_sfevents.emulator.bus.avro_schemas import change_event_schema
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.bus.field_bitmaps import encode
from airflow_provider_sfevents.spark.current_state.apply_batch import land_and_apply
from airflow_provider_sfevents.spark.current_state.current_state_options import (
    ApplyOptions,
    CurrentStateOptions,
)
from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import apply_snapshot
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import SnapshotOptions
from airflow_provider_sfevents.spark.current_state.state_tables import open_state
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.tables.sessions import READING, SETTLED, reading_session
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Part
from benchmarks.landing import seconds, session, settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

RECORDS, GROWTH = 2_000_000, (500_000, 1_000_000)
CHANGES = 100_000
ROUNDS, GROWTH_ROUNDS = 5, 3
TIMES_MERGE = 2.0

ENTITY, EVENT_TYPE, SCHEMA_ID = "Departure__c", "Departure__ChangeEvent", "bench"
FIELDS = {
    **{f"Text{n}__c": "Text" for n in range(12)},
    **{f"Number{n}__c": "Number" for n in range(6)},
    **{f"At{n}__c": "DateTime" for n in range(3)},
    **{f"Flag{n}__c": "Checkbox" for n in range(3)},
    "CreatedDate": "DateTime",
    "LastModifiedDate": "DateTime",
}
CHANGED = ("Text3__c", "Number2__c", "Flag1__c", "LastModifiedDate")
_SCHEMA = change_event_schema(ENTITY, FIELDS, FieldTypes(), snapshot=True)
_BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def record_id(number: int) -> str:
    return f"a00{number:012}AAA"


def values(number: int, step: int) -> dict[str, Any]:
    """A record's fields, as its event has them."""
    at = int(_BEGAN.timestamp() * 1000) + step
    found: dict[str, Any] = {f"Text{n}__c": f"{number % 997} of {step}, a text" for n in range(12)}
    found |= {f"Number{n}__c": number / (n + 3) + step for n in range(6)}
    found |= {f"At{n}__c": at + n for n in range(3)}
    found |= {f"Flag{n}__c": (number + step) % (n + 2) == 0 for n in range(3)}
    return {**found, "CreatedDate": at, "LastModifiedDate": at}


class Bench:
    """Tables of one size and format: ours, and the peer's."""

    def __init__(self, spark: SparkSession, folder: Path, records: int, table_format: str) -> None:
        self.spark = spark
        self.folder = folder
        self.records = records
        self.table_format = table_format
        self.current_state = str(folder / "lake" / "org")
        self.changes = min(CHANGES, records // 5)
        self._sequence = 0
        self._gone: set[int] = set()
        self._parsed = parse_schema(json.loads(json.dumps(_SCHEMA)))
        self._random = random.Random(7)  # noqa: S311 - which records change

    def fill(self) -> None:
        """The table is made as a user makes it.

        A first batch, then a full read; the peer's is a copy of it.
        """
        self.apply(self.stage([("CREATE", self.records)]))
        plain = {"Text": "string", "Number": "double", "DateTime": "string", "Checkbox": "boolean"}
        shown = [
            f"cast({_sql(kind)} AS {plain[kind]}) AS `{name}`" for name, kind in FIELDS.items()
        ]
        named = "concat('a00', lpad(cast(id AS string), 12, '0'), 'AAA') AS Id"
        read, schema = self.folder / "read", self.folder / "read.avsc"
        self.spark.range(self.records).selectExpr(named, *shown).write.parquet(str(read))
        schema.write_text(json.dumps(_SCHEMA))
        snapshot = SnapshotOptions(
            current_state=self.current_state,
            table_format=self.table_format,
            entity=ENTITY,
            records=str(read),
            records_format="parquet",
            read_at=_BEGAN + timedelta(minutes=1),
            event_schema=str(schema),
        )
        apply_snapshot(self.spark, snapshot)
        state = open_state(
            self.spark,
            CurrentStateOptions(current_state=self.current_state, table_format=self.table_format),
        )
        self.session = state.spark
        self.plain = _plain(state.spark)
        self.ours = state._dialect.identifier(ENTITY)  # noqa: SLF001 - to read it
        self.peers = state._dialect.identifier("peer")  # noqa: SLF001 - a table beside it
        names = ", ".join(f"`{name}`" for name in FIELDS)
        self.session.sql(
            f"CREATE TABLE {self.peers} USING {self.table_format} "  # noqa: S608 - our own names
            f"AS SELECT record_id, {names} FROM {self.ours}"
        )

    def round(self) -> tuple[float, float]:
        """Seconds of the peer's merge, and those that applying the same changes adds to landing."""
        some = self._random.sample(range(self.records), self.changes * 11 // 10)
        there = [number for number in some if number not in self._gone]
        few = self.changes // 20
        gone = there[:few]
        self._gone.update(gone)
        first_new = self.records + 1 + self._sequence * self.changes
        changes = [("UPDATE", number) for number in there[few : self.changes - few]]
        changes += [("DELETE", number) for number in gone]
        changes += [("CREATE", first_new + n) for n in range(few)]
        self._random.shuffle(changes)
        manifest = self.stage(changes)
        self._decoded(changes)
        merged = seconds(self._merge)
        landed = seconds(lambda: land(self.spark, self._landing(manifest, "landed_alone")))
        return merged, seconds(lambda: self.apply(manifest)) - landed

    def apply(self, manifest: str, **options: Any) -> Mapping[str, int]:
        """Land a batch and apply it; returns what the apply counted."""
        order = ApplyOptions(
            manifest_url=manifest,
            current_state=self.current_state,
            table_format=self.table_format,
            **options,
        )
        return land_and_apply(self.spark, self._landing(manifest, "events"), order).applied or {}

    def _landing(self, manifest: str, table: str) -> LandingOptions:
        events = str(self.folder / "lake" / table)
        return LandingOptions(manifest_url=manifest, table=events, table_format=self.table_format)

    def stage(self, changes: list[tuple[str, int]], ended_by: str = "idle_seconds") -> str:
        """Path of the manifest of a batch as the fetch leaves it."""
        self._sequence += 1
        batch = self.folder / "staging" / str(self._sequence)
        (batch / layout.attempt_folder(1)).mkdir(parents=True)
        (batch / layout.SCHEMAS).mkdir()
        (batch / layout.schema_name(SCHEMA_ID)).write_text(json.dumps(_SCHEMA))
        payloads = [self._payload(*one) for one in changes]
        ordinals = range(len(payloads))
        columns = {
            layout.ORDINAL: pa.array(ordinals, pa.int64()),
            layout.EVENT_ID: pa.array([""] * len(payloads)),
            layout.REPLAY_ID: pa.array([self._replay_id(n) for n in ordinals], pa.binary()),
            layout.SCHEMA_ID: pa.array([SCHEMA_ID] * len(payloads)),
            layout.RECEIVED_AT: pa.array([_BEGAN] * len(payloads), pa.timestamp("us", tz="UTC")),
            layout.PAYLOAD: pa.array(payloads, pa.binary()),
        }
        path = f"{layout.attempt_folder(1)}/{layout.part_name(0)}"
        pq.write_table(pa.table(columns), batch / path)
        start = f"{self._sequence - 1:020x}" if self._sequence > 1 else "earliest"
        size = sum(map(len, payloads))
        end = f"{self._sequence:020x}"
        part = Part(
            path=path,
            start=start,
            end=end,
            first_ordinal=0,
            sha256="",
            schemas=(SCHEMA_ID,),
            events=len(payloads),
            bytes=size,
        )
        manifest = Manifest(
            org_id="00Dx0000000001ZEAW",
            instance_url="https://bench.my.salesforce.com",
            topic="/data/ChangeEvents",
            consumer="bench",
            epoch="bench",
            batch_number=self._sequence,
            batch_id=f"bench-{self._sequence}",
            position_start=start,
            start=start,
            end=end,
            ended_by=ended_by,
            parts=(part,),
            schemas=(SCHEMA_ID,),
            created_at=self._now().isoformat(),
            events=len(payloads),
            bytes=size,
        )
        (batch / layout.MANIFEST).write_text(manifest.to_json())
        return str(batch / layout.MANIFEST)

    def transaction(self, number: int) -> str:
        """Key of the transaction that changes a record in the batch that is being staged."""
        return f"{self._sequence}-{number}"

    def body(self, change_type: str, number: int) -> dict[str, Any]:
        """Fields of a change."""
        found = {} if change_type == "DELETE" else values(number, self._sequence)
        return {name: found[name] for name in CHANGED} if change_type == "UPDATE" else found

    def _payload(self, change_type: str, number: int) -> bytes:
        body = self.body(change_type, number)
        header = {
            "entityName": ENTITY,
            "recordIds": [record_id(number)],
            "changeType": change_type,
            "changeOrigin": "",
            "transactionKey": self.transaction(number),
            "sequenceNumber": number,
            "commitTimestamp": int(self._now().timestamp() * 1000),
            "commitNumber": self._sequence,
            "commitUser": "005000000000001AAA",
            "nulledFields": [],
            "diffFields": [],
            "changedFields": encode(_SCHEMA, CHANGED) if change_type == "UPDATE" else [],
        }
        stream = io.BytesIO()
        schemaless_writer(stream, self._parsed, {"ChangeEventHeader": header, **body})
        return stream.getvalue()

    def _decoded(self, changes: list[tuple[str, int]]) -> None:
        """The peer's source: a table with a row for each change, all its values typed."""
        rows = [
            {"record_id": record_id(number), "op": op, **values(number, self._sequence)}
            for op, number in changes
        ]
        table = pa.Table.from_pylist(rows)
        instants = [name for name, kind in FIELDS.items() if kind == "DateTime"]
        for name in instants:
            at = table.schema.get_field_index(name)
            typed = (
                table[name].cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
            )
            table = table.set_column(at, name, typed)
        pq.write_table(table, self.folder / "changes.parquet")
        decoded = self.plain.read.parquet(str(self.folder / "changes.parquet"))
        decoded.createOrReplaceTempView("changes")

    def _merge(self) -> None:
        sets = ", ".join(f"t.`{name}` = c.`{name}`" for name in CHANGED)
        names = ["record_id", *FIELDS]
        columns = ", ".join(f"`{name}`" for name in names)
        given = ", ".join(f"c.`{name}`" for name in names)
        self.plain.sql(
            f"MERGE INTO {self.peers} t USING changes c ON t.record_id = c.record_id "  # noqa: S608
            f"WHEN MATCHED AND c.op = 'DELETE' THEN DELETE WHEN MATCHED THEN UPDATE SET {sets} "
            f"WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({given})"
        )

    def check(self) -> None:
        """Both tables hold the same, or the figures mean nothing."""
        names = ", ".join(f"`{name}`" for name in FIELDS)
        said = f"SELECT record_id, {names} FROM "  # noqa: S608 - our own names
        ours, peers = (f"{said}{one}" for one in (self.ours, self.peers))
        differing = self.session.sql(f"({ours}) EXCEPT ({peers})").count()
        counts = [self.session.table(one).count() for one in (self.ours, self.peers)]
        # The record of the first event is in neither read; it is deleted by the full read, which
        # has not got it.
        if differing or counts[0] != counts[1]:
            raise SystemExit(f"the tables differ in {differing} rows; they have {counts}")

    def _now(self) -> datetime:
        return _BEGAN + timedelta(hours=self._sequence - 1)

    def _replay_id(self, ordinal: int) -> bytes:
        return f"{self._sequence}-{ordinal}".encode()


def _plain(spark: SparkSession) -> SparkSession:
    """Make a session with the catalogs of this one, and Spark's own settings."""
    plain = reading_session(spark, {})
    for key in {**SETTLED, **READING}:
        plain.conf.unset(key)
    return plain


def _sql(kind: str) -> str:
    return {
        "Text": "concat(cast(id % 997 AS string), ' of before, a text')",
        "Number": "id / 7",
        "DateTime": "'2026-10-01T10:00:00.000+0000'",
        "Checkbox": "id % 2 = 0",
    }[kind]


def measure(spark: SparkSession, records: int, rounds: int, table_format: str) -> float:
    """Ratio of our seconds to the peer's."""
    with tempfile.TemporaryDirectory() as made:
        bench = Bench(spark, Path(made), records, table_format)
        filled = seconds(bench.fill)
        took = [bench.round() for _ in range(rounds + 1)][1:]  # the first round warms up
        bench.check()
    peer = statistics.median(one for one, _ in took)
    ours = statistics.median(one for _, one in took)
    print(f"  {records:,} records, median of {rounds} (filled in {filled:.0f} s)", flush=True)
    print(f"    a hand-written MERGE  {peer:6.1f} s")
    print(f"    applying adds         {ours:6.1f} s  {ours / peer:.2f} x", flush=True)
    return ours / peer


def main(records: int = 0, table_format: str = "delta") -> int:
    """Measure one table size; with 0 records several, up to the one that the limit is for."""
    print(f"applying {CHANGES:,} changes of 26 fields, {table_format}, local[2]")
    with session(settings(table_format)) as spark:
        for one in () if records else GROWTH:
            measure(spark, one, GROWTH_ROUNDS, table_format)
        times = measure(spark, records or RECORDS, ROUNDS, table_format)
    print(f"  {times:.2f} x (limit: {TIMES_MERGE} x)")
    return 0 if times <= TIMES_MERGE else 1


if __name__ == "__main__":
    said = sys.argv[1:]
    sys.exit(main(int(said[0]) if said else 0, *said[1:]))
