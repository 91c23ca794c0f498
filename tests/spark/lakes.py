"""Delta and Iceberg tables for tests, on this disk, by path or by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow_provider_sfevents.spark import read_ledger, read_table
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.tables import ledger
from airflow_provider_sfevents.spark.tables.ledger import LedgerRow
from airflow_provider_sfevents.spark.tables.opening import open_dialect
from airflow_provider_sfevents.spark.upkeep.job import maintain
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions
from tests.harness.step_hooks import no_step, on_steps

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.staging.manifest import Receipt
    from tests.harness.step_hooks import OnStep
    from tests.spark.conftest import Lake


def land_watched(spark: Any, options: LandingOptions, on_step: OnStep) -> Receipt:
    """Land a batch, and call a function at each step of the landing."""
    with on_steps(on_step):
        return land(spark, options)


def land_in(spark: Any, lake: Lake, manifest: str, step: OnStep = no_step, **more: Any) -> Receipt:
    """Land a batch in Parquet tables."""
    options = LandingOptions(manifest_url=manifest, table=str(lake.root), **more)
    return land_watched(spark, options, step)


@dataclass
class Tables:
    """Tables of one format, by path or by name, read as a user reads them.

    :param folder: where the record of columns is.
    """

    spark: Any
    table: str
    table_format: str
    folder: Path

    def options(self, manifest: str, **more: Any) -> LandingOptions:
        return LandingOptions(
            manifest_url=manifest, table=self.table, table_format=self.table_format, **more
        )

    def land(self, manifest: str, step: OnStep = no_step, **more: Any) -> Receipt:
        return land_watched(self.spark, self.options(manifest, **more), step)

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        found = read_table(self.spark, self.table, name, table_format=self.table_format)
        return sorted(tuple(row) for row in found.selectExpr(*columns).collect())

    def events(self, name: str = "Order__e") -> list[tuple[Any, ...]]:
        return self.rows(name, "batch_id", "batch_ordinal")

    def sql(self, statement: str, name: str = "Order__e") -> Any:
        """Run a statement on a table, as another program would; `{}` in it stands for the table."""
        session, identifier = self.opened(name)
        return session.sql(statement.format(identifier))

    def opened(self, name: str = "Order__e") -> tuple[Any, str]:
        """Open a session that has the format, and return it with the table's name in it."""
        session, dialect, _ = open_dialect(
            self.spark, Files(self.spark), self.table, self.table_format
        )
        return session, dialect.identifier(name)

    def commits(self, name: str = "Order__e") -> int:
        """Number of commits that changed rows of the table."""
        if self.table_format == "iceberg":
            return int(self.sql("select * from {}.snapshots", name).count())
        history = self.sql("describe history {}", name)
        return int(history.where("operation in ('MERGE', 'DELETE', 'WRITE')").count())

    def landed(self) -> dict[str, LedgerRow]:
        """Rows of the ledger, by batch."""
        rows = read_ledger(self.spark, self.table, table_format=self.table_format)
        found = map(LedgerRow.from_values, rows.toArrow().to_pylist())
        return {row.batch_id: row for row in found}

    def forget(self, batch_id: str) -> None:
        """Take a batch's row out of the ledger, as if its landing had been killed before."""
        if self.table_format == "parquet":
            [file] = (self.folder / ledger.TABLE).glob(f"{batch_id}-*.parquet")
            file.unlink()
        else:
            self.sql(f"delete from {{}} where batch_id = '{batch_id}'", ledger.TABLE)  # noqa: S608

    def under_way(self) -> bool:
        return (self.folder / "_landing").exists()


def upkeep(tables: Tables, step: OnStep = no_step, **more: Any) -> dict[str, Any]:
    """Maintain event tables, and current-state tables if they are named."""
    options = {"table": tables.table, "current_state": "", "dry_run": False, **more}
    made = UpkeepOptions(table_format=tables.table_format, **options)
    with on_steps(step):
        return maintain(tables.spark, made)


def by_path(table_format: str, spark: Any, folder: Path) -> Tables:
    return Tables(spark, str(folder), table_format, folder)


def by_name(table_format: str, spark: Any, folder: Path) -> Tables:
    """Make a namespace, in Spark's catalog without a metastore or in a hadoop catalog."""
    namespace = f"n{uuid4().hex[:8]}"
    if table_format == "delta":
        spark.sql(f"create namespace {namespace} location '{folder}'")
        return Tables(spark, namespace, table_format, folder)
    catalog = f"lake_{namespace}"
    spark.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", str(folder))
    return Tables(spark, f"{catalog}.shop", table_format, folder / "shop")
