"""An entity snapshot from files: full records as REST or the Bulk API have written them."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import apply_snapshot
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.tables.sessions import own_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import (
        SnapshotOptions,
    )
    from airflow_provider_sfevents.spark.stores.object_files import Stores

logger = logging.getLogger(__name__)


def apply_snapshot_files(
    spark: SparkSession, options: SnapshotOptions, stores: Stores | None = None
) -> dict[str, int]:
    """Apply the entity snapshot in some files.

    :param stores: as of `Files`.
    :raises ConfigurationError: the read cannot be used; nothing has been changed.
    """
    files = Files(spark, stores)
    counts = apply_snapshot(
        spark,
        options.current_state,
        options.table_format,
        options.entity,
        read_records(own_session(spark, {}), options.records, options.records_format),
        files.read_text(options.deleted_ids).split() if options.deleted_ids else (),
        read_at=options.read_at,
        whole=not options.partial,
        deletions=options.deletions,
        history=options.history,
        row_changes=options.row_changes,
        landing_folder=options.landing_folder,
        event_schema=files.read_text(options.event_schema) if options.event_schema else "",
        decimals=options.decimals,
        lacking=options.lacking,
        stores=stores,
    )
    if options.report:
        files.write_staged(options.report, json.dumps(counts))
    return counts


def read_records(spark: SparkSession, url: str, records_format: str) -> DataFrame:
    """Read full records from files.

    All values stay text, so that Spark guesses no types. A row with another number of columns than
    the header fails the job.
    """
    match records_format:
        case "csv":
            return spark.read.csv(url, header=True, multiLine=True, escape='"', mode="FAILFAST")
        case "json":
            return spark.read.json(url, primitivesAsString=True)
        case _:
            return spark.read.parquet(url)
