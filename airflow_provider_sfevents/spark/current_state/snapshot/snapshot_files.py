"""Resolving from files: what `resolve.py` is asked for, and full records as REST or Bulk have written them."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import resolve
from airflow_provider_sfevents.spark.hadoop_files import Files
from airflow_provider_sfevents.spark.landing_steps import no_step
from airflow_provider_sfevents.spark.tables.sessions import own_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.current_state.current_state_options import Deletions
    from airflow_provider_sfevents.spark.landing_steps import Step
    from airflow_provider_sfevents.spark.tables.table_options import RowChanges

logger = logging.getLogger(__name__)

RECORD_FORMATS = ("json", "csv", "parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveOrder:
    """What to resolve, from which files; the rest as of `resolving.resolve`.

    :param records: URL of a file or a folder of full records, in `records_format`: `json` (an object a line), `csv` (with a header; values in
        double quotes may have line breaks in them) or `parquet`.
    :param deleted_ids: URL of a text file with an id a line; empty: there is none.
    :param event_schema: URL of a file with the schema; empty: there is none.
    :param report: URL of the file that the counts are written to; empty: none is.
    """

    current_state: str
    table_format: str
    entity: str
    records: str
    records_format: str
    read_at: datetime
    deleted_ids: str = ""
    whole: bool = True
    deletions: Deletions = "delete"
    history: bool = False
    row_changes: RowChanges = "rewrite"
    landing_folder: str = ""
    event_schema: str = ""
    decimals: Mapping[str, str] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    report: str = ""


def check_format(records_format: str) -> None:
    """:raises ConfigurationError: it is none that can be read."""
    if records_format not in RECORD_FORMATS:
        raise ConfigurationError(
            f"records_format={records_format!r} is not known; give {', '.join(RECORD_FORMATS)}."
        )


def moment_of(text: str) -> datetime:
    """:raises ConfigurationError: it is no time with a zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(
            f"read_at={text!r} is no time; give ISO-8601, such as 2026-11-01T06:30:00Z."
        ) from error
    if found.tzinfo is None:
        raise ConfigurationError(
            f"read_at={text!r} has no time zone; give it, such as 2026-11-01T06:30:00Z."
        )
    return found


def resolve_files(spark: SparkSession, order: ResolveOrder, step: Step = no_step) -> dict[str, int]:
    """Resolve an entity from files.

    :raises ConfigurationError: the read cannot be used; nothing has been changed.
    """
    files = Files(spark)
    counts = resolve(
        spark,
        order.current_state,
        order.table_format,
        order.entity,
        read_records(own_session(spark, {}), order.records, order.records_format),
        files.read_text(order.deleted_ids).split() if order.deleted_ids else (),
        read_at=order.read_at,
        whole=order.whole,
        deletions=order.deletions,
        history=order.history,
        row_changes=order.row_changes,
        landing_folder=order.landing_folder,
        event_schema=files.read_text(order.event_schema) if order.event_schema else "",
        decimals=order.decimals,
        lacking=order.lacking,
        step=step,
    )
    if order.report:
        files.write_staged(order.report, json.dumps(counts))
    return counts


def read_records(spark: SparkSession, url: str, records_format: str) -> DataFrame:
    """Full records as they lie in files; text stays text, so that nothing is taken for what it is not."""
    match records_format:
        case "csv":
            return spark.read.csv(url, header=True, multiLine=True, escape='"')
        case "json":
            return spark.read.json(url, primitivesAsString=True)
        case _:
            return spark.read.parquet(url)
