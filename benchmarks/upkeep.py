"""Files, bytes and full scans of a year of five-minute batches after upkeep.

Most batches are written as files and committed in bulk (Delta `CONVERT`, Iceberg `add_files`), the
last ones are landed. The peer is a compacted table of the same rows, partitions and format that one
Spark job writes. Scans read every column of every row, and compare the content of both tables.
`python -m benchmarks.upkeep 105120 iceberg` takes the whole year, in another format; `make
bench-year` both formats. By default ten days.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.upkeep.job import maintain
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions
from benchmarks.landing import seconds, session, settings
from tests.harness.step_hooks import on_steps
from tests.spark.conftest import Staging
from tests.spark.lakes import Tables, by_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES, LANDED, EVENTS = 2_880, 12, 20
A_DAY = 288
TIMES_FILES, TIMES_BYTES, TIMES_SCAN, SHARE = 1.5, 1.5, 1.2, 0.10
ROUNDS = 5

TABLE, EPOCH = "Order__e", "year"
_DAY = timedelta(days=1)
_FIRST_DAY = date(2026, 11, 1)  # of `FIRST_DAY_MS`


class _EnoughError(Exception):
    """Stops upkeep before orphans, because Iceberg removes none that are younger than a day."""


@dataclass(frozen=True)
class Footprint:
    """Files of a table that a reader opens, and their bytes."""

    files: int
    size: int


def template(spark: SparkSession, folder: Path) -> pa.Table:
    """Rows of one batch as a landing writes them."""
    staging = Staging(folder / "template-staging")
    lake = by_path("parquet", spark, folder / "template")
    lake.land(staging.write([staging.order(n) for n in range(EVENTS)], epoch=EPOCH))
    [written] = (folder / "template" / TABLE).rglob("*.parquet")
    return pq.ParquetFile(written).read()


def write_batches(rows: pa.Table, folder: Path, batches: int) -> None:
    """Write a file for each batch, as landings do, into folders of closed dates."""
    first = datetime.now(UTC).date() - _DAY * (-(-batches // A_DAY) + 1)
    for number in range(batches):
        day = first + _DAY * (number // A_DAY)
        into = folder / f"{envelope.EVENT_DATE}={day}"
        if number % A_DAY == 0:
            into.mkdir(parents=True)
        batch_number = number + 2
        at = datetime.combine(day, datetime.min.time(), UTC) + timedelta(
            minutes=5 * (number % A_DAY)
        )
        batch_id = f"{EPOCH}-{batch_number}"
        replaced: dict[str, list[Any]] = {
            envelope.BATCH_ID: [batch_id] * EVENTS,
            envelope.BATCH_NUMBER: [batch_number] * EVENTS,
            envelope.EVENT_ID: [f"{batch_id}-{n}" for n in range(EVENTS)],
            envelope.EVENT_TIME: [at + timedelta(seconds=n) for n in range(EVENTS)],
            envelope.RECEIVED_AT: [at + timedelta(seconds=30)] * EVENTS,
        }
        table = rows
        for name, values in replaced.items():
            kind = rows.schema.field(name)
            place = rows.schema.get_field_index(name)
            table = table.set_column(place, kind, pa.array(values, kind.type))
        pq.write_table(table, into / f"{batch_id}-00000.parquet")


def commit_in_bulk(tables: Tables, written: Path, staging: Staging) -> None:
    """Make a table of the written files, by the format's own import."""
    if tables.table_format == "delta":
        session, _ = tables.opened(TABLE)
        session.sql(
            f"CONVERT TO DELTA parquet.`{written}` PARTITIONED BY ({envelope.EVENT_DATE} DATE)"
        )
        return
    tables.land(staging.write(orders(staging, 1), batch_number=1, epoch=EPOCH))
    session, identifier = tables.opened(TABLE)
    catalog, namespace, table = identifier.replace("`", "").split(".")
    session.sql(
        f"CALL {catalog}.system.add_files(table => '{namespace}.{table}', "
        f"source_table => '`parquet`.`{written}`')"
    )


def orders(staging: Staging, batch_number: int) -> list[tuple[str, bytes]]:
    """Events of yesterday, which is a closed date."""
    day = (datetime.now(UTC).date() - _DAY - _FIRST_DAY).days
    return [staging.order(EVENTS * batch_number + n, day=day) for n in range(EVENTS)]


def land_last(tables: Tables, staging: Staging, batches: int) -> float:
    """Land batches one by one; median of their seconds."""
    took = []
    for batch_number in range(batches + 2, batches + 2 + LANDED):
        manifest = staging.write(
            orders(staging, batch_number), batch_number=batch_number, epoch=EPOCH
        )
        took.append(seconds(lambda url=manifest: tables.land(url)))  # type: ignore[misc]
    return statistics.median(took)


def maintain_now(tables: Tables) -> None:
    """Upkeep as if each replaced file were old already."""

    def step(name: str, _about: str) -> None:
        if tables.table_format == "iceberg" and name == steps.UPKEEP_REMOVE:
            raise _EnoughError

    options = UpkeepOptions(
        table=tables.table,
        current_state="",
        table_format=tables.table_format,
        keep_hours=0,
        dry_run=False,
    )
    # The second run expires the snapshots that the first one made, as a run of a later day does.
    for _ in range(2 if tables.table_format == "iceberg" else 1):
        with suppress(_EnoughError), on_steps(step):
            maintain(tables.spark, options)


def footprint(tables: Tables, name: str) -> Footprint:
    if tables.table_format == "delta":
        row = tables.sql("describe detail {}", name).first()
        return Footprint(row["numFiles"], row["sizeInBytes"])
    row = tables.sql("select count(*), sum(file_size_in_bytes) from {}.files", name).first()
    return Footprint(row[0], row[1])


def on_disk(*folders: Path) -> Footprint:
    """Parquet files below folders, needed or not, without those of Delta's log."""
    sizes = [
        path.stat().st_size
        for folder in folders
        for path in folder.rglob("*.parquet")
        if "_delta_log" not in path.parts
    ]
    return Footprint(len(sizes), sum(sizes))


def write_compacted(tables: Tables, name: str) -> None:
    """The peer: one job writes all rows, a file for each date."""
    session, identifier = tables.opened(TABLE)
    rows = session.table(identifier).repartition(envelope.EVENT_DATE)
    _, peer = tables.opened(name)
    if tables.table_format == "delta":
        path = str(tables.folder / name)
        rows.write.format("delta").partitionBy(envelope.EVENT_DATE).save(path)
        return
    rows.sortWithinPartitions(envelope.EVENT_DATE).writeTo(peer).partitionedBy(
        rows[envelope.EVENT_DATE]
    ).create()


def scan(tables: Tables, name: str) -> tuple[float, tuple[Any, ...]]:
    """Seconds to read all columns of all rows, and a checksum of them."""
    session, identifier = tables.opened(name)
    found: list[tuple[Any, ...]] = []
    columns = ", ".join(sorted(session.table(identifier).columns))
    said = f"SELECT count(*), bit_xor(xxhash64({columns})) FROM {identifier}"  # noqa: S608

    def read() -> None:
        found.append(tuple(session.sql(said).first() or ()))

    return seconds(read), found[0]


def scans(tables: Tables, peer: str) -> tuple[float, float]:
    """Medians of both tables' scans, in turn.

    :raises SystemExit: their rows differ.
    """
    took: dict[str, list[float]] = {TABLE: [], peer: []}
    sums = set()
    for _ in range(ROUNDS + 1):
        for name, times in took.items():
            one, checksum = scan(tables, name)
            times.append(one)
            sums.add(checksum)
    if len(sums) != 1:
        raise SystemExit(f"the tables differ: {sums}")
    # The first round warms up.
    return statistics.median(took[TABLE][1:]), statistics.median(took[peer][1:])


def line(what: str, ours: float, peer: float, limit: float) -> bool:
    times = ours / peer
    print(f"    {what:28} {times:6.2f} x (limit: {limit} x)", flush=True)
    return times <= limit


def measure(spark: SparkSession, folder: Path, batches: int, table_format: str) -> bool:
    root = folder / "lake" / "salesforce"
    tables = by_path(table_format, spark, root)
    staging = Staging(folder / "staging")
    written = root / TABLE if table_format == "delta" else folder / "written"
    took = seconds(lambda: write_batches(template(spark, folder), written, batches))
    print(f"  {batches:,} batches written in {took:.0f} s", flush=True)
    commit_in_bulk(tables, written, staging)
    landing = land_last(tables, staging, batches)
    before, (slow, _) = footprint(tables, TABLE), scan(tables, TABLE)
    upkeep = seconds(lambda: maintain_now(tables))
    after, lying = footprint(tables, TABLE), on_disk(root / TABLE, folder / "written")
    write_compacted(tables, "compacted")
    ideal = footprint(tables, "compacted")
    ours, peer = scans(tables, "compacted")
    print(f"    before  {before.files:8,} files  {before.size / 1e6:8.1f} MB  scan {slow:6.1f} s")
    print(f"    after   {after.files:8,} files  {after.size / 1e6:8.1f} MB  scan {ours:6.1f} s")
    print(f"    on disk {lying.files:8,} files  {lying.size / 1e6:8.1f} MB")
    print(f"    peer    {ideal.files:8,} files  {ideal.size / 1e6:8.1f} MB  scan {peer:6.1f} s")
    print(f"    upkeep {upkeep:.1f} s; a landing {landing:.1f} s (median of {LANDED})", flush=True)
    within = [
        line("files on disk", lying.files, ideal.files, TIMES_FILES),
        line("bytes on disk", lying.size, ideal.size, TIMES_BYTES),
        line("full scan", ours, peer, TIMES_SCAN),
        line("upkeep of landing time", upkeep, landing * (batches + LANDED), SHARE),
    ]
    return all(within)


def main(batches: int = BATCHES, table_format: str = "delta") -> int:
    print(f"upkeep of {batches:,} batches of {EVENTS} events, {table_format}, local[2]")
    with (
        tempfile.TemporaryDirectory() as made,
        session({**settings(table_format), "spark.driver.memory": "3g"}) as spark,
    ):
        return 0 if measure(spark, Path(made), batches, table_format) else 1


if __name__ == "__main__":
    said = sys.argv[1:]
    sys.exit(main(int(said[0]) if said else BATCHES, *said[1:]))
