"""Upkeep of an Iceberg table, by Iceberg's own procedures.

1. Data files of a partition are rewritten to files of the table's target size, and position deletes
   are folded into them. Groups of files commit one by one, so that a job that is killed loses one
   group's work.
2. Position deletes that are left are rewritten, which drops those of files that are gone.
3. Manifests are rewritten, so that planning a query reads few of them.
4. Snapshots older than `keep_hours` expire, with the files that only they need; the newest stays.
5. Orphans (files of tasks that died before their commit) older than `keep_hours` are removed.

Each step looks at the table and does what is needed. So the next run completes one that was killed
between two of them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.tables.statements import text
from airflow_provider_sfevents.spark.upkeep.plan import IcebergFiles, TableReport, ideal_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.tables.named import Named
    from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions

_TARGET, _USUAL_TARGET = "write.target-file-size-bytes", 512 * 1024 * 1024
_MANIFEST_TARGET, _USUAL_MANIFEST_TARGET = "commit.manifest.target-size-bytes", 8 * 1024 * 1024
_REWRITE = {
    "min-input-files": "2",
    "delete-file-threshold": "1",
    "remove-dangling-deletes": "true",
    "partial-progress.enabled": "true",
}


def maintain_iceberg(
    spark: SparkSession,
    tables: Named,
    table: str,
    options: UpkeepOptions,
    retry: Callable[[Callable[[], Any]], Any],
) -> TableReport:
    """Maintain one table, or report what would be done; parameters as of `maintain_delta`."""
    label, identifier = tables.label(table), tables.identifier(table)
    before = datetime.now(UTC) - timedelta(hours=options.keep_hours)
    older_than = f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}Z'"
    target = tables.target_size(table, _TARGET, _USUAL_TARGET)
    found = _files(spark, identifier)
    expiring = _expiring(spark, identifier, before)

    def call(procedure: str, *arguments: str) -> DataFrame:
        given = ", ".join((f"table => {text(tables.name_in_catalog(table))}", *arguments))
        return spark.sql(f"CALL {tables.catalog}.system.{procedure}({given})")

    report = TableReport(
        table=label, files=found.files + found.deletes, size=found.size, expired=expiring
    )
    if options.dry_run:
        return replace(
            report,
            files_after=min(found.files, ideal_files(found.parts, target)),
            removed_files=call("remove_orphan_files", older_than, "dry_run => true").count(),
        )
    if found.needs_compaction(target):
        rewriting = ", ".join(f"{text(key)}, {text(value)}" for key, value in _REWRITE.items())
        steps.reached(steps.UPKEEP_COMPACT, label)
        retry(lambda: call("rewrite_data_files", f"options => map({rewriting})").collect())
    after = _files(spark, identifier)
    if after.deletes:
        steps.reached(steps.UPKEEP_DELETES, label)
        every = "options => map('rewrite-all', 'true')"  # by itself: from five files on
        retry(lambda: call("rewrite_position_delete_files", every).collect())
        after = _files(spark, identifier)
    if after.needs_manifests(tables.target_size(table, _MANIFEST_TARGET, _USUAL_MANIFEST_TARGET)):
        steps.reached(steps.UPKEEP_MANIFESTS, label)
        retry(lambda: call("rewrite_manifests", "use_caching => false").collect())
    removed = 0
    if expiring:
        steps.reached(steps.UPKEEP_EXPIRE, label)
        gone = retry(lambda: call("expire_snapshots", older_than, "retain_last => 1").first())
        removed = sum(gone)
    steps.reached(steps.UPKEEP_REMOVE, label)
    removed += call("remove_orphan_files", older_than).count()
    return replace(report, files_after=after.files + after.deletes, removed_files=removed)


def _files(spark: SparkSession, identifier: str) -> IcebergFiles:
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    files = spark.table(f"{identifier}.files")
    place = [name for name in ("spec_id", "partition") if name in files.columns]
    grouped = files.groupBy((F.col("content") > 0).alias("deletes"), *place).agg(
        F.count("*").alias("files"), F.sum("file_size_in_bytes").alias("size")
    )
    rows = grouped.select("deletes", "files", "size").collect()
    manifests = spark.table(f"{identifier}.manifests").where("content = 0")
    counted = manifests.selectExpr("count(*)", "coalesce(sum(length), 0)").collect()[0]
    return IcebergFiles(
        parts=tuple((row["files"], row["size"]) for row in rows if not row["deletes"]),
        deletes=sum(row["files"] for row in rows if row["deletes"]),
        manifests=counted[0],
        manifest_bytes=counted[1],
    )


def _expiring(spark: SparkSession, identifier: str, before: datetime) -> int:
    """Count the snapshots that are older than a time; the newest one never counts."""
    rows = spark.table(f"{identifier}.snapshots").selectExpr("unix_micros(committed_at)").collect()
    return sum(at < before.timestamp() * 1e6 for (at,) in sorted(rows)[:-1])
