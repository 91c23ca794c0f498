"""Reading, for users' own jobs: a staged batch, and the tables that landed.

Writing the receipt of a job of one's own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, NotLandedError
from airflow_provider_sfevents.spark.avro.decoder_needs import has_accelerator
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.landing.staged_batch import (
    StagedBatch,
    open_batch,
    write_receipt_file,
)
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables import file_moves, ledger, naming
from airflow_provider_sfevents.spark.tables.opening import open_tables
from airflow_provider_sfevents.staging.manifest import Receipt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.tables.interface import Tables

_LANDED_SQL = "batch_id string"


def event_types(spark: SparkSession, manifest_url: str) -> list[str]:
    """Names of the event types a staged batch holds, sorted."""
    return [kind.name for kind in open_batch(spark, Files(spark), manifest_url).plan.types]


def read_batch(
    spark: SparkSession,
    manifest_url: str,
    event_type: str | None = None,
    *,
    keep_payload: bool = False,
) -> DataFrame:
    """Read the decoded events of a staged batch: the columns that `land.py` lands, unordered.

    Events that cannot be decoded are left out; `read_undecodable` has them.

    :param event_type: which one, where the batch holds several.
    :raises ConfigurationError: the batch holds several event types and none was named, or not this
        one.
    :raises StagingError: the batch is not whole.
    """
    batch = open_batch(spark, Files(spark), manifest_url, accelerated=has_accelerator(spark))
    return batch.table_rows(spark, _chosen(batch, event_type), keep_payload=keep_payload)


def read_undecodable(spark: SparkSession, manifest_url: str) -> DataFrame:
    """Read the undecodable events of a staged batch, with their raw payload and the reason."""
    batch = open_batch(spark, Files(spark), manifest_url, accelerated=has_accelerator(spark))
    return batch.table_rows(spark, file_moves.QUARANTINE)


def write_receipt(
    spark: SparkSession,
    manifest_url: str,
    *,
    tables: Mapping[str, int],
    quarantined: int = 0,
    duplicates: int = 0,
) -> Receipt:
    """Say that a job of one's own has landed a batch; only then does the position move.

    :param tables: rows written, by table.
    :param quarantined: events that were put aside.
    :param duplicates: events that were left out because they had landed before.
    :raises NotLandedError: they do not add up to the batch's events; no receipt is written.
    """
    files = Files(spark)
    batch = open_batch(spark, files, manifest_url)
    events = batch.manifest.events
    rows = sum(tables.values())
    if rows + quarantined + duplicates != events:
        raise NotLandedError(
            f"Batch {batch.manifest.batch_id} has {counted(events, 'event')}, but "
            f"{counted(rows, 'row')}, {quarantined} quarantined and "
            f"{counted(duplicates, 'duplicate')} were reported. Count every event once: as a "
            f"row of one table, as quarantined (read_undecodable has those), or "
            "as a duplicate of one that has landed before."
        )
    receipt = Receipt(
        batch_id=batch.manifest.batch_id,
        events=events,
        tables=dict(tables),
        quarantined=quarantined,
        duplicates=duplicates,
        written_at=datetime.now(UTC).isoformat(),
        writer=str(spark.conf.get("spark.app.name")),
        application_id=str(spark.conf.get("spark.app.id")),
        end=batch.manifest.end,
    )
    write_receipt_file(files, batch, receipt)
    return receipt


def read_table(
    spark: SparkSession,
    root: str,
    event_type: str,
    *,
    landed_only: bool = False,
    table_format: str | None = None,
) -> DataFrame:
    """Read a landed table; for Parquet with the columns of all its files.

    :param root: what was given to the landing as its table: a URL, or a namespace's name.
    :param landed_only: leave out a batch whose landing is not complete: of which parts may already
        be visible (Parquet), or which is in some of its tables only (Delta, Iceberg).
    :param table_format: default: the one that is found below the root; by name it has to be given.
    :raises ConfigurationError: there is no such table.
    """
    tables = _opened(spark, root, event_type, table_format)
    return _landed(tables, event_type) if landed_only else tables.read(event_type)


def read_quarantine(
    spark: SparkSession, root: str, *, landed_only: bool = False, table_format: str | None = None
) -> DataFrame:
    """Read the events that could not be decoded when they landed, of all tables below a root.

    :raises ConfigurationError: there are none.
    """
    return read_table(
        spark, root, file_moves.QUARANTINE, landed_only=landed_only, table_format=table_format
    )


def read_ledger(spark: SparkSession, root: str, *, table_format: str | None = None) -> DataFrame:
    """Read the ledger `_batches`: one row for each batch that has landed.

    :param root: as of `read_table`, as is `table_format`.
    """
    return _opened(spark, root, ledger.TABLE, table_format).ledger.rows()


def _opened(spark: SparkSession, root: str, table: str, table_format: str | None) -> Tables:
    files = Files(spark)
    found = table_format or _format_of(files, root, table)
    return open_tables(spark, files, root, found, reading=True)


def _format_of(files: Files, root: str, table: str) -> str:
    """Find the format of the tables below a root.

    :raises ConfigurationError: the root is a name in a catalog, which does not show it.
    """
    if naming.looks_named(root):
        raise ConfigurationError(
            f"{root!r} reads like a name in a catalog: say whether its tables are "
            f"table_format='delta' or 'iceberg'."
        )
    folder = f"{root.rstrip('/')}/{table}"
    if files.exists(f"{folder}/_delta_log"):
        return naming.DELTA
    return naming.ICEBERG if files.exists(f"{folder}/metadata") else naming.PARQUET


def _landed(tables: Tables, table: str) -> DataFrame:
    """Rows of the batches that have landed."""
    # The ledger is read before the table's files are listed: a batch that lands meanwhile is
    # missing as a whole.
    ids = tables.ledger.rows().select(envelope.BATCH_ID).toArrow()
    landed = tables.spark.createDataFrame(ids if ids.num_rows else [], _LANDED_SQL)
    rows = tables.read(table)
    kept = rows.join(landed, on=envelope.BATCH_ID, how="left_semi")
    return kept.select(*map(quoted, rows.columns))


def _chosen(batch: StagedBatch, event_type: str | None) -> str:
    known = [kind.name for kind in batch.plan.types]
    if event_type is None and len(known) == 1:
        return known[0]
    if event_type in known:
        return event_type
    names = ", ".join(known) or "none"
    asked = "name one as event_type" if event_type is None else f"{event_type!r} is not among them"
    raise ConfigurationError(
        f"Batch {batch.manifest.batch_id} holds the event types {names}: {asked}."
    )
