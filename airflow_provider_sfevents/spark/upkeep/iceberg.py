"""Upkeep of an Iceberg table, by Iceberg's own procedures.

1. Data files of a partition are rewritten to files of the table's target size, and position deletes are folded into them. Groups of
   files commit one by one, so that a job that is killed loses one group's work.
2. Snapshots older than `keep_hours` expire, with the files that only they need; the newest stays.
3. Orphans (files of tasks that died before their commit) older than `keep_hours` are removed.
4. Manifests are rewritten, so that planning a query reads few of them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.tables.statements import text
from airflow_provider_sfevents.spark.upkeep import plan
from airflow_provider_sfevents.spark.upkeep.plan import Part, TableReport, ideal_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Row, SparkSession

    from airflow_provider_sfevents.spark.landing_steps import Step
    from airflow_provider_sfevents.spark.tables.named import Named
    from airflow_provider_sfevents.spark.upkeep.plan import MaintainOptions

_TARGET = "write.target-file-size-bytes"
_USUAL_TARGET = 512 * 1024 * 1024
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
    options: MaintainOptions,
    step: Step,
    retry: Callable[[Callable[[], Any]], Any],
) -> TableReport:
    """Maintain one table, or report what would be done; parameters as of `maintain_delta`."""
    label, identifier = tables.label(table), tables.identifier(table)
    parts, deletes = _parts(spark, identifier)
    files, size = sum(part.files for part in parts), sum(part.size for part in parts)
    before = datetime.now(UTC) - timedelta(hours=options.keep_hours)
    older_than = f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}Z'"
    named = f"table => {text(tables.name_in_catalog(table))}"
    call = f"CALL {tables.catalog}.system."

    def run(procedure: str, *arguments: str) -> Row | None:
        said = ", ".join((named, *arguments))
        return spark.sql(f"{call}{procedure}({said})").first()

    if options.dry_run:
        ideal = ideal_files(parts, tables.target_size(table, _TARGET, _USUAL_TARGET))
        orphans = spark.sql(
            f"{call}remove_orphan_files({named}, {older_than}, dry_run => true)"
        ).count()
        return TableReport(
            table=label,
            files=files + deletes,
            size=size,
            files_after=min(files, ideal),
            expired=_expiring(spark, identifier, before),
            removed_files=orphans,
        )
    step(plan.COMPACT, label)
    if files + deletes > len(parts):
        rewriting = ", ".join(f"{text(key)}, {text(value)}" for key, value in _REWRITE.items())
        retry(lambda: run("rewrite_data_files", f"options => map({rewriting})"))
        retry(lambda: run("rewrite_position_delete_files"))
        retry(lambda: run("rewrite_manifests", "use_caching => false"))
    step(plan.EXPIRE, label)
    expired = _expiring(spark, identifier, before)
    gone = (
        retry(lambda: run("expire_snapshots", older_than, "retain_last => 1")) if expired else None
    )
    step(plan.REMOVE, label)
    orphans = spark.sql(f"{call}remove_orphan_files({named}, {older_than})").count()
    after, deletes_after = _parts(spark, identifier)
    return TableReport(
        table=label,
        files=files + deletes,
        size=size,
        files_after=sum(part.files for part in after) + deletes_after,
        expired=expired,
        removed_files=orphans + (sum(gone) if gone else 0),
    )


def _parts(spark: SparkSession, identifier: str) -> tuple[list[Part], int]:
    """Data files by partition, and the number of delete files."""
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    files = spark.table(f"{identifier}.files")
    place = [name for name in ("spec_id", "partition") if name in files.columns]
    grouped = files.groupBy((F.col("content") > 0).alias("deletes"), *place).agg(
        F.count("*").alias("files"), F.sum("file_size_in_bytes").alias("size")
    )
    rows = grouped.select("deletes", "files", "size").collect()
    data = [Part(files=row["files"], size=row["size"]) for row in rows if not row["deletes"]]
    return data, sum(row["files"] for row in rows if row["deletes"])


def _expiring(spark: SparkSession, identifier: str, before: datetime) -> int:
    """Number of snapshots older than this, the newest left out."""
    times = [
        row[0]
        for row in spark.table(f"{identifier}.snapshots")
        .selectExpr("unix_micros(committed_at)")
        .collect()
    ]
    return sum(at < before.timestamp() * 1e6 for at in sorted(times)[:-1])
