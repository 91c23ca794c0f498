"""Apply an entity snapshot: replace records, answer resync entries, apply kept events.

The rules are in `changes.snapshot_rules`.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.changes import serial, snapshot_rules as rules, tables
from airflow_provider_sfevents.spark.changes.ids import long_id
from airflow_provider_sfevents.spark.changes.resync_entries import WHOLE_ENTITY
from airflow_provider_sfevents.spark.changes.source import check_deletions
from airflow_provider_sfevents.spark.current_state import state_tables
from airflow_provider_sfevents.spark.current_state.apply_events import (
    entries_left,
    layout_of,
    recorded_layout,
)
from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
from airflow_provider_sfevents.spark.current_state.event_rows import entity_of
from airflow_provider_sfevents.spark.current_state.fold_records import (
    ANSWERS,
    Folding,
    folded_snapshot,
    outcome_columns,
)
from airflow_provider_sfevents.spark.current_state.frames import acted, collected, local_rows
from airflow_provider_sfevents.spark.current_state.intake.event_intake import Touched
from airflow_provider_sfevents.spark.current_state.known_records import known
from airflow_provider_sfevents.spark.current_state.snapshot.full_records import ID, filling
from airflow_provider_sfevents.spark.current_state.state_commits import (
    Commits,
    EntityOutcomes,
    count_outcomes,
)
from airflow_provider_sfevents.spark.current_state.state_rows import fields_sql
from airflow_provider_sfevents.spark.current_state.state_tables import open_state, progress_of
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.schema.decimals import read_decimals, with_decimals
from airflow_provider_sfevents.spark.schema.evolution import evolve
from airflow_provider_sfevents.spark.schema.field_types import event_type, quoted, record_fields
from airflow_provider_sfevents.spark.tables.sessions import own_session
from airflow_provider_sfevents.spark.tables.statements import text
from airflow_provider_sfevents.spark.tables.type_records import ColumnsMovedError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import (
        SnapshotOptions,
    )
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables
    from airflow_provider_sfevents.spark.schema.evolution import Evolution
    from airflow_provider_sfevents.spark.stores.object_files import Stores

logger = logging.getLogger(__name__)

_BAD_VALUES = 5
_READ = "read"
"""Stands for the id of the schema that a read was given with."""


def apply_snapshot(
    spark: SparkSession, options: SnapshotOptions, stores: Stores | None = None
) -> dict[str, int]:
    """Make records equal to those read from the org; this also fills a new table.

    :param stores: as of `Files`.
    :returns: how many records were `replaced`, `deleted`, left as they are since they are `newer`
        than the read, or `refused` since their entries are; and how many entries are left.
    :raises ConfigurationError: the read cannot be used; nothing has been changed.
    """
    files, entity = Files(spark, stores), options.entity
    records = _records_in(own_session(spark, {}), options.records, options.records_format)
    deleted_ids = files.read_text(options.deleted_ids).split() if options.deleted_ids else ()
    schema = files.read_text(options.event_schema) if options.event_schema else ""
    state = open_state(spark, options, stores)
    with ApplyRun(state, deletions=options.deletions, history=options.history) as run:
        check_deletions(progress_of(run.progress), options.deletions)
        layout, evolution = _columns(run, entity, schema, options.decimals)
        filled = evolution.filled[_READ] if evolution is not None else ()
        counts = apply_snapshot_rows(
            run,
            entity,
            read_rows(run, options, records, layout, filled),
            deleted_ids,
            options.read_at,
            layout,
            whole=not options.partial,
            evolution=evolution,
        )
    logger.info(
        "Entity snapshot of %s applied: %s.",
        entity,
        ", ".join(f"{n} {name}" for name, n in counts.items()),
    )
    if options.report:
        files.write_staged(options.report, json.dumps(counts))
    return counts


def _records_in(spark: SparkSession, url: str, records_format: str) -> DataFrame:
    """Read full records from files that REST or the Bulk API have written.

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


def apply_snapshot_rows(
    run: ApplyRun,
    entity: str,
    rows: DataFrame,
    deleted_ids: Iterable[str],
    read_at: datetime,
    layout: Layout,
    *,
    whole: bool,
    evolution: Evolution | None = None,
) -> dict[str, int]:
    """Apply a snapshot whose records have the table's columns already.

    :param rows: `record_id`, once each, and `read_values`, a struct of the table's columns, in
        which a compound whose members are all null is null.
    :param evolution: change of the table's columns by the schema that was given with the read.
    :raises ConfigurationError: the read cannot be used; nothing has been changed.
    :raises StagingError: an apply has recorded other columns meanwhile.
    """
    state = run.state
    if run.progress:
        run.take()
    entries = state.entries()
    known_state = state_tables.entity_states(run.entities, entries).get(entity)
    lifted = rules.lift(known_state, progress_of(run.progress), read_at, entity=entity, whole=whole)
    entry = known_state.entry if known_state is not None else None
    folding = Folding(
        layout=layout,
        deletions=run.deletions,
        entry=entry,
        prefix_updates=tuple(_kept_for_all(run, entity)),
        history=run.history,
    )
    rows = _with_deleted(state, rows, deleted_ids)
    touched = Touched(rows, rows, None)
    read_records = known(state, entity, touched, folding, entries, everything=whole, waiting=True)
    outcomes = acted(
        state.spark,
        read_records,
        partial(folded_snapshot, folding, read_at),
        outcome_columns(folding),
        f"{run.folder}/{entity}",
        few=False,
    )
    found = EntityOutcomes(
        entity=entity, folding=folding, rows=outcomes, counts=count_outcomes(outcomes), few=False
    )
    run.ensure_writer()
    _make_tables(run, entity, layout, evolution)
    commits = Commits(run, [found], tables.SNAPSHOT_ORDER)
    commits.of_records()
    read = {entity: lifted.read_at}
    commits.add("entities", partial(run.advance, run.progress, read), state_tables.PROGRESS)
    commits.resync({}, gone={entity: entry} if whole and entry is not None else {})
    commits.kept({}, drop_wide=entity if whole else "")
    written = commits.run()
    return {
        **{answer: found.counts[f"answer_{answer}"] for answer in ANSWERS},
        **entries_left(state.entries() if state_tables.RESYNC in written else entries),
    }


def _make_tables(run: ApplyRun, entity: str, layout: Layout, evolution: Evolution | None) -> None:
    """Record the columns that the tables get, then make or widen them."""
    if evolution is not None:
        try:
            run.state.types.keep({entity: evolution})
        except ColumnsMovedError as moved:
            raise StagingError(f"{moved} Nothing was changed; run the snapshot again.") from moved
    run.state.make_entity(entity, layout, history=run.history)


def _with_deleted(state: StateTables, rows: DataFrame, deleted_ids: Iterable[str]) -> DataFrame:
    """Add rows without values for the records that were asked for and are not there."""
    gone = [{tables.RECORD_ID: long_id(one)} for one in dict.fromkeys(deleted_ids)]
    if not gone:
        return rows
    ids = local_rows(state.spark, gone, f"{tables.RECORD_ID} string")
    missing = ids.join(rows.select(tables.RECORD_ID), tables.RECORD_ID, "left_anti")
    return rows.unionByName(missing, allowMissingColumns=True)


def read_rows(
    run: ApplyRun,
    options: SnapshotOptions,
    records: DataFrame,
    layout: Layout,
    filled: Collection[str] = (),
) -> DataFrame:
    """Convert records as REST or the Bulk API return them to rows of the table.

    :param filled: as of `filling`.
    :raises ConfigurationError: fields are missing, or values are of another kind than their
        columns; the message names them.
    :raises StagingError: some of the records that were read are not there.
    """
    from pyspark.sql.types import StructType

    entity = options.entity
    if not records.columns:  # a file without a line, which says nothing of fields
        _check_number(options, 0)
        values = f"struct<{fields_sql(layout)}>"
        return run.state.spark.createDataFrame(
            [], f"{tables.RECORD_ID} string, read_values {values}"
        )
    given = {
        one.name.casefold(): {inner.name.casefold(): inner.name for inner in one.dataType.fields}
        if isinstance(one.dataType, StructType)
        else {}
        for one in records.schema.fields
    }
    found = filling(layout, given, entity, options.lacking, filled)
    if found.ignored:
        logger.info(
            "%s: fields that no change event carries are left out: %s.",
            entity,
            ", ".join(found.ignored),
        )
    _check_values(options, records, found.casts)
    columns = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in found.columns.items())
    return records.selectExpr(
        f"cast({quoted(ID)} AS string) AS {tables.RECORD_ID}", f"struct({columns}) AS read_values"
    ).dropDuplicates([tables.RECORD_ID])


def _check_number(options: SnapshotOptions, there: int) -> None:
    """Refuse a read of which files are gone: its records would be deleted.

    A record that changed while it was read may be there twice.
    """
    if there < options.records_read:
        raise StagingError(
            f"{options.records} has {counted(there, 'record')} of {options.entity}, and "
            f"{options.records_read} were read: another program has removed files. Nothing was "
            "changed. Run the task again, which reads the records anew."
        )


def _check_values(
    options: SnapshotOptions, records: DataFrame, casts: Iterable[tuple[str, str, str]]
) -> None:
    """Refuse values that do not fit their columns and would become null, and missing records."""
    is_bad = f"length(coalesce({quoted(ID)}, '')) <> 18"
    bad_id = f"any_value(CASE WHEN {is_bad} THEN coalesce({quoted(ID)}, 'null') END, true)"
    checks = [("Id", bad_id)] + [
        (name, f"any_value(CASE WHEN {cast} IS NULL AND {said} <> '' THEN {said} END, true)")
        for name, said, cast in casts
    ]
    asked = [f"{sql} AS c{at}" for at, (_, sql) in enumerate(checks)]
    ((*row, there),) = records.selectExpr(*asked, "count(*) AS there").collect()
    _check_number(options, there)
    wrong = [
        f"{name}={value!r}"
        for (name, _), value in zip(checks, row, strict=True)
        if value is not None
    ]
    if wrong:
        raise ConfigurationError(
            f"The read of {options.entity} has values that its table's columns cannot hold: "
            f"{', '.join(wrong[:_BAD_VALUES])}. Nothing was changed. Read "
            "them as REST or Bulk give them (ids in 18 characters), with --decimals that they fit."
        )


def _columns(
    run: ApplyRun, entity: str, event_schema: str, decimals: Mapping[str, str]
) -> tuple[Layout, Evolution | None]:
    """Find the columns of an entity's table, and what the schema that was given changes of them.

    :raises ConfigurationError: they are not known.
    """
    if event_schema:
        evolution = _evolution(run, entity, event_schema, decimals)
        return layout_of(evolution.after.columns), evolution
    layout = recorded_layout(run, entity)
    if not layout.columns:
        raise ConfigurationError(
            f"No event of {entity} has been applied yet, so its columns' types are not known. "
            "Give the schema of its change events (--event-schema), or wait for the first event."
        )
    return layout, None


def _evolution(
    run: ApplyRun, entity: str, event_schema: str, decimals: Mapping[str, str]
) -> Evolution:
    """Place the fields of a schema in an entity's columns, as an apply of its events does."""
    if entity_of(event_type(event_schema)) != entity:
        raise ConfigurationError(
            f"The schema that was given is of {event_type(event_schema)}, not of the change "
            f"events of {entity}. Give that one's."
        )
    fields = with_decimals(record_fields(json.loads(event_schema)), read_decimals(decimals))
    return evolve(run.state.types(entity), {_READ: fields})


def _kept_for_all(run: ApplyRun, entity: str) -> list[Change]:
    """Read the updates of whole prefixes that were kept for the entity."""
    rows = run.state.set_aside(tables.KEPT).where(
        f"entity_name = {text(entity)} AND record_id = '{WHOLE_ENTITY}'"
    )
    return [serial.from_text(row["event_text"]) for row in collected(rows.select("event_text"))]
