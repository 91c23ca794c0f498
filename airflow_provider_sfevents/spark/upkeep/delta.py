"""Upkeep of a Delta table: OPTIMIZE and VACUUM.

1. A partitioned table is compacted up to yesterday (UTC). Landings write into today's partition all
   the time, and a commit there that crosses with a compaction is made twice.
2. A table without partitions is compacted as a whole. A clustered one rewrites only files that are
   new since the last time.
3. VACUUM removes files that no version of the last `keep_hours` needs. Delta's own retention of its
   log (30 days) is left as it is.
4. Both are commits of Delta: a job that is killed leaves the table as it was, or done.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.upkeep.plan import TableReport, ideal_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Row, SparkSession

    from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions

TARGET = 1024 * 1024 * 1024  # `spark.databricks.delta.optimize.maxFileSize`
_DATE = re.compile(rf"/{envelope.EVENT_DATE}=(\d{{4}}-\d{{2}}-\d{{2}})/")


def settings(master: str) -> dict[str, str]:
    """Settings of a session for upkeep.

    The number of tasks that list a table's files is small: Spark's default, 10,000, takes minutes
    where there are few. On one machine each task beyond its cores only costs time: with Spark's 200
    for each join, VACUUM of a small table takes 8.5 s instead of 3.
    """
    is_local = master.startswith("local")
    return {
        "spark.databricks.delta.optimize.maxFileSize": str(TARGET),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8" if is_local else "64",
        **({"spark.sql.shuffle.partitions": "8"} if is_local else {}),
        # `keep_hours` has a lower bound of its own.
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        # Without this Delta ignores the hours of VACUUM, and uses the table's retention (7 days).
        "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
        "spark.databricks.delta.vacuum.logging.enabled": "true",
    }


def maintain_delta(
    spark: SparkSession,
    identifier: str,
    label: str,
    options: UpkeepOptions,
    retry: Callable[[Callable[[], Any]], Any],
) -> TableReport:
    """Maintain one table, or report what would be done.

    :param spark: a session with `settings`.
    :param identifier: the table's name in SQL.
    :param retry: runs a commit again that another writer's came before.
    """
    detail = _detail(spark, identifier)
    by_date = envelope.EVENT_DATE in detail["partitionColumns"]
    before = TableReport(table=label, files=detail["numFiles"], size=detail["sizeInBytes"])
    if options.dry_run:
        return _foretold(spark, identifier, before, detail["location"], options, by_date=by_date)
    steps.reached(steps.UPKEEP_COMPACT, label)
    closed = f" WHERE {envelope.EVENT_DATE} < DATE'{today()}'" if by_date else ""
    retry(lambda: spark.sql(f"OPTIMIZE {identifier}{closed}").collect())
    steps.reached(steps.UPKEEP_REMOVE, label)
    spark.sql(f"VACUUM {identifier} RETAIN {options.keep_hours} HOURS").collect()
    removed, removed_size = _vacuumed(spark, identifier)
    files_after = _detail(spark, identifier)["numFiles"]
    return replace(
        before, files_after=files_after, removed_files=removed, removed_size=removed_size
    )


def today() -> str:
    """Today's date, UTC, ISO-8601."""
    return datetime.now(UTC).date().isoformat()


def _foretold(
    spark: SparkSession,
    identifier: str,
    before: TableReport,
    location: str,
    options: UpkeepOptions,
    *,
    by_date: bool,
) -> TableReport:
    """Report what upkeep would do."""
    sizes = _sizes(spark, location)
    live = [str(path) for path in spark.table(identifier).inputFiles()]
    parts: dict[str, list[int]] = {}
    still = 0
    for path in live:
        found = _DATE.search(path) if by_date else None
        if found and found[1] >= today():
            still += 1
        else:
            parts.setdefault(found[1] if found else "", []).append(sizes.get(_name(path), 0))
    ideal = ideal_files(((len(part), sum(part)) for part in parts.values()), TARGET)
    dry = spark.sql(f"VACUUM {identifier} RETAIN {options.keep_hours} HOURS DRY RUN").collect()
    unneeded = {_name(str(row[0])) for row in dry}
    return replace(
        before,
        files_after=min(before.files, ideal + still),
        removed_files=len(unneeded),
        removed_size=sum(sizes.get(name, 0) for name in unneeded),
    )


def _detail(spark: SparkSession, identifier: str) -> Row:
    [found] = spark.sql(f"DESCRIBE DETAIL {identifier}").collect()
    return found


def _sizes(spark: SparkSession, location: str) -> dict[str, int]:
    """Return the bytes of each Parquet file of a Delta table, by the file's unique name."""
    listed = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .load(location)
        .select("path", "length")
        .toArrow()
    )
    paths, lengths = (listed.column(name).to_pylist() for name in ("path", "length"))
    return {_name(path): length for path, length in zip(paths, lengths, strict=True)}


def _vacuumed(spark: SparkSession, identifier: str) -> tuple[int, int]:
    """Number of files that the newest VACUUM removed, and their bytes, from the table's history."""
    rows = spark.sql(f"DESCRIBE HISTORY {identifier} LIMIT 20").collect()
    found: dict[str, int] = {}
    for row in reversed(rows):
        if row["operation"].startswith("VACUUM"):
            found.update({name: int(value) for name, value in row["operationMetrics"].items()})
    removed = found.get("numDeletedFiles", 0)
    return removed, found.get("sizeOfDataToDelete", 0) if removed else 0


def _name(path: str) -> str:
    return path.rpartition("/")[2]
