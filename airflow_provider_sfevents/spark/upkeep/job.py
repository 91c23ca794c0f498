"""Upkeep of all tables below a root or in a namespace: table by table, each on its own.

It runs beside landings and applies. It changes no row of an event table, so nothing that a
current-state table may still read goes. A table that other writers keep committing to is skipped,
and done by the next run; so is the rest of a run that was killed.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes import tables as state_tables
from airflow_provider_sfevents.spark.current_state.state_tables import (
    SET_ASIDE,
    STATE_TABLES,
    StateTables,
)
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.tables import ledger, naming
from airflow_provider_sfevents.spark.tables.merging.conflicts import ConflictsError, retry_conflicts
from airflow_provider_sfevents.spark.tables.named import Named
from airflow_provider_sfevents.spark.tables.opening import open_format
from airflow_provider_sfevents.spark.upkeep import delta, plan, tombstones
from airflow_provider_sfevents.spark.upkeep.iceberg import maintain_iceberg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.stores.object_files import Stores
    from airflow_provider_sfevents.spark.tables.delta import DeltaByPath
    from airflow_provider_sfevents.spark.upkeep.plan import TableReport, UpkeepOptions

logger = logging.getLogger(__name__)

_EVENT_COLUMNS = frozenset({envelope.BATCH_ID, envelope.ORDINAL, envelope.EVENT_DATE})
_STATE_COLUMNS = frozenset({state_tables.RECORD_ID, *state_tables.ORDER})


def maintain(
    spark: SparkSession, options: UpkeepOptions, stores: Stores | None = None
) -> dict[str, Any]:
    """Maintain tables, or report what would be done.

    :param stores: as of `Files`.
    :returns: `plan.summary`.
    :raises ConfigurationError: no table is there, or the format is not available.
    """
    files = Files(spark, stores)
    reports: list[TableReport] = []
    for root, is_state in options.roots():
        reports += _maintained(spark, files, root, options, is_state=is_state)
    said = plan.summary(reports, dry_run=options.dry_run)
    if options.report:
        files.write_staged(options.report, json.dumps(said))
    if options.dry_run:
        logger.info("This was a dry run: nothing has been changed. Set dry_run to false to do it.")
    return said


def _maintained(
    spark: SparkSession, files: Files, root: str, options: UpkeepOptions, *, is_state: bool
) -> Iterator[TableReport]:
    session, tables = open_format(spark, files, root, options.table_format)
    if options.table_format == naming.DELTA:
        for key, value in delta.settings(session.conf.get("spark.master", "") or "").items():
            session.conf.set(key, value)
    if isinstance(tables, Named):
        tables.ensure_namespace(make=False)
    names = sorted(
        name for name in tables.names() if _is_ours(session, tables, name, is_state=is_state)
    )
    if not names:
        raise ConfigurationError(
            f"There is no {options.table_format} table of "
            f"{'current state' if is_state else 'events'} in {root}: nothing has landed there. "
            f"Check {'current_state' if is_state else 'table'} and table_format."
        )
    gone = 0
    if is_state and SET_ASIDE in names:
        steps.reached(steps.UPKEEP_TOMBSTONES, root)
        state = StateTables(session, files, root, tables)
        gone = tombstones.remove_old(state, dry_run=options.dry_run)
    for number, name in enumerate(names, 1):
        report = _one(session, tables, name, options)
        if name == SET_ASIDE and gone:
            report = replace(report, tombstones=gone)
        steps.reached(steps.UPKEEP_DONE, tables.label(name))
        logger.info("%d of %d: %s", number, len(names), report.text(dry_run=options.dry_run))
        yield report


def _one(
    session: SparkSession, tables: DeltaByPath | Named, name: str, options: UpkeepOptions
) -> TableReport:
    label = tables.label(name)

    def retry(act: Callable[[], Any]) -> Any:
        return retry_conflicts(act, f"Other jobs kept committing to {label}")

    try:
        if isinstance(tables, Named) and options.table_format == naming.ICEBERG:
            return maintain_iceberg(session, tables, name, options, retry)
        identifier = tables.identifier(name)
        return delta.maintain_delta(session, identifier, label, options, retry)
    except ConflictsError as error:
        logger.warning("%s; it is skipped. The next run maintains it.", error)
        return plan.TableReport(table=label, files=0, size=0, skipped=str(error))


def _is_ours(
    session: SparkSession, tables: DeltaByPath | Named, name: str, *, is_state: bool
) -> bool:
    """Tell whether a landing or an apply made the table.

    A namespace may hold others, which are left alone.
    """
    columns = set(session.table(tables.identifier(name)).columns)
    if not is_state:
        wanted = set(ledger.COLUMNS.names) if name == ledger.TABLE else _EVENT_COLUMNS
        return columns >= wanted
    if name in STATE_TABLES:
        wanted = {one.split()[0] for one in STATE_TABLES[name].split(", ")}
        return wanted <= columns
    return columns >= _STATE_COLUMNS
