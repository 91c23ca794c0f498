"""Landing a staged batch: decode, write beside the tables, compare, publish, record.

The order of effects, each of which may be the last one before a kill:
1. everything is read and checked; 2. Spark writes into `_landing/<batch id>/<attempt>/`; 3. what
   was written is compared with what has landed, and events that are there already are left out
   (`identities`); 4. rows, quarantined and duplicates are counted and must add up to the manifest's
   events; 5. the tables' columns and the schemas are recorded, rows go into the tables (by renames
   for Parquet, by one commit for each table of Delta and Iceberg: `tables`), left-overs of earlier
   landings go, the row of the ledger is written;
6. the folders of this and of earlier attempts go; 7. the receipt is written.

Two attempts may land the same batch at the same time. Both move the same files to the same names.
The attempt that finishes first removes the other's folder; the other then fails, sees that the
batch has landed meanwhile, and gives way. Only folders that existed before the ledger's row was
written are removed, so that an attempt that begins afterwards is not disturbed. Attempts at two
forms of a batch follow the rules of `fence`: if another form has landed, nothing is changed, and
the receipt is of the landed form.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.avro.decoder_needs import has_accelerator
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.landing.attempt import LandingAttempt
from airflow_provider_sfevents.spark.landing.landed_batch import LandedBatch
from airflow_provider_sfevents.spark.landing.staged_batch import (
    ensure_staged,
    open_batch,
    write_receipt_file,
)
from airflow_provider_sfevents.spark.schema.decimals import read_decimals
from airflow_provider_sfevents.spark.schema.found_columns import found_in
from airflow_provider_sfevents.spark.tables.opening import open_tables
from airflow_provider_sfevents.spark.tables.sessions import FEW_ROWS, few_rows
from airflow_provider_sfevents.spark.tables.type_records import ColumnsMovedError, TypeRecords

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
    from airflow_provider_sfevents.spark.landing.staged_batch import StagedBatch
    from airflow_provider_sfevents.spark.stores.object_files import Stores
    from airflow_provider_sfevents.spark.tables.interface import Tables
    from airflow_provider_sfevents.staging.manifest import Receipt

logger = logging.getLogger(__name__)

_PLANS = 10


def land(
    spark: SparkSession,
    options: LandingOptions,
    *,
    rows_found: Callable[[LandedBatch], None] = lambda _: None,
    finish: Callable[[Receipt, LandedBatch], Receipt] | None = None,
    stores: Stores | None = None,
) -> Receipt:
    """Land a batch; if it has landed before, its rows are replaced, so each event is there once.

    :param rows_found: called once with the batch when its rows can be read; returns at once. If
        they are few, that is before they are committed; otherwise they are in tables of Delta or
        Iceberg, and the ledger's row is not written yet. Whether the batch has landed is only known
        when the landing has ended.
    :param finish: called with the batch when its rows are in the tables, before the receipt is
        written; returns the receipt's content.
    :param stores: as of `Files`.
    :returns: the receipt of what has landed; if another form of the batch has landed, that form's
        receipt.
    :raises StagingError: the batch is not whole, or what was written does not add up to it.
    :raises NotLandedError: too many events would go to quarantine, or a newer form of the batch is
        being landed. Nothing counts as landed.
    """
    began = time.monotonic()
    files = Files(spark, stores)
    ensure_staged(files, options.manifest_url)
    tables = open_tables(
        spark,
        files,
        options.table,
        options.table_format,
        options=options.table_options(),
        landing_folder=options.landing_folder,
    )
    landed, receipt = _landed(spark, files, tables, options, rows_found)
    if finish is not None:
        with few_rows(tables.spark, few=_few(landed.staged)):
            receipt = finish(receipt, landed)
    steps.reached(steps.RECEIPT_NEXT, receipt.batch_id)
    write_receipt_file(files, landed.staged, receipt)
    steps.reached(steps.RECEIPT_WRITTEN, receipt.batch_id)
    logger.info(
        "Batch %s landed in %.1f s: %s.",
        receipt.batch_id,
        time.monotonic() - began,
        _summary(receipt),
    )
    return receipt


def _landed(
    spark: SparkSession,
    files: Files,
    tables: Tables,
    options: LandingOptions,
    rows_found: Callable[[LandedBatch], None],
) -> tuple[LandedBatch, Receipt]:
    """Plan and land; start again if another landing has recorded a table's columns meanwhile."""
    decimals = read_decimals(options.decimals)
    accelerated = has_accelerator(spark)
    for _ in range(_PLANS):
        types = TypeRecords(files, tables.root, lambda name: found_in(tables.schema(name)))
        batch = open_batch(
            spark,
            files,
            options.manifest_url,
            recorded=types,
            decimals=decimals,
            on_type_change=options.on_type_change,
            accelerated=accelerated,
        )
        try:
            attempt = LandingAttempt(files, tables, types, batch, options, rows_found)
            with few_rows(tables.spark, few=_few(batch)):
                receipt = attempt.run()
        except ColumnsMovedError as moved:
            logger.info("%s The batch is planned anew.", moved)
        else:
            landed = LandedBatch(
                staged=batch, tables=tables, dates=attempt.dates, gave_way=attempt.gave_way
            )
            return landed, receipt
    raise StagingError(
        f"The columns of the tables of {options.manifest_url} kept being recorded anew by other "
        "landings; nothing was landed. Run the task again."
    )


def _few(batch: StagedBatch) -> bool:
    return batch.manifest.events <= FEW_ROWS


def _summary(receipt: Receipt) -> str:
    tables = [f"{counted(rows, 'row')} in {name}" for name, rows in receipt.tables.items()]
    said = [*tables, f"{receipt.quarantined} in quarantine"]
    if receipt.duplicates:
        said.append(f"{counted(receipt.duplicates, 'duplicate')} left out")
    return ", ".join(said)
