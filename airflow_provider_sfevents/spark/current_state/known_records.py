"""Read the state of the touched records, one row each, for `fold_records`.

Only the touched rows of an entity's table are processed further: their ids are few compared with
its rows, so the ids are broadcast to the executors.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.resync_entries import WHOLE_ENTITY
from airflow_provider_sfevents.spark.current_state import state_tables
from airflow_provider_sfevents.spark.current_state.frames import empty_list, with_ids
from airflow_provider_sfevents.spark.current_state.state_rows import (
    ENTRY_NAMES,
    ROW_NAMES,
    history_sql,
    row_sql,
)
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.current_state.fold_records import Folding
    from airflow_provider_sfevents.spark.current_state.intake.event_intake import Touched
    from airflow_provider_sfevents.spark.current_state.state_tables import EntityResync, StateTables

_ID = tables.RECORD_ID


def known(
    state: StateTables,
    entity: str,
    touched: Touched,
    folding: Folding,
    resync: Mapping[str, EntityResync],
    *,
    prefixes: Iterable[str] = (),
    everything: bool = False,
    waiting: bool = False,
) -> DataFrame:
    """Join the tables' rows about the touched records.

    :param touched: records with their `event_texts`; further columns are passed on.
    :param resync: the resync entries; if no record of the entity has one, there is no
        `known_entry`.
    :param prefixes: records whose ids begin with one of these count as touched, too.
    :param everything: all records of the entity count as touched.
    :param waiting: fill `event_texts` with the events that were kept.
    """
    rows = state.rows(entity, row_sql(folding.layout))
    graves = _of_entity(state.set_aside(tables.TOMBSTONES), entity)
    is_marked = entity in resync and resync[entity].records > 0
    entries = [_entries(state, entity)] if is_marked else []
    found = touched.rows
    wider = " OR ".join(f"startswith({_ID}, {text(prefix)})" for prefix in prefixes)
    if wider or everything:
        ids = [one.select(_ID) for one in (rows, graves, *entries)]
        if everything:
            # Of records that are in no table yet events may be kept.
            ids.append(_kept(state, entity).where(f"{_ID} <> '{WHOLE_ENTITY}'").select(_ID))
        others = reduce(lambda one, other: one.unionAll(other), ids).where(wider or "true")
        found = found.join(others.distinct(), _ID, "full_outer")
    narrow = partial(_narrowed, None if wider or everything else touched)
    # A column that is new with this batch is not there yet.
    there = {name.casefold() for name in rows.columns}
    own_columns = [one.name for one in folding.read if one.name.casefold() in there]
    own = [*tables.ORDER, tables.COMMITTED_AT, tables.READ_AT]
    beside = [
        _packed(narrow(rows), [*ROW_NAMES, *own_columns], "known_row"),
        _packed(narrow(graves), own, "known_tombstone"),
        *(_packed(narrow(one), ENTRY_NAMES, "known_entry") for one in entries),
    ]
    lists: dict[str, str] = {}
    if waiting:
        beside.append(_listed(_kept(state, entity).select(_ID, "event_text"), "event_texts"))
        lists["event_texts"] = "string"
    if folding.history:
        past = state.rows(state_tables.history_name(entity), history_sql(folding.layout))
        keys = ", ".join([*tables.ORDER, "valid_from", "valid_to"])
        beside.append(_listed(narrow(past).selectExpr(_ID, f"struct({keys}) AS one"), "known_past"))
        orders = ", ".join(f"{name}: bigint" for name in tables.ORDER)
        lists["known_past"] = f"struct<{orders}, valid_from: timestamp, valid_to: timestamp>"
    joined = reduce(lambda one, other: one.join(other, _ID, "left"), beside, found)
    others = [quoted(name) for name in joined.columns if name not in lists]
    filled = [f"coalesce({name}, {empty_list(of)}) AS {name}" for name, of in lists.items()]
    return joined.selectExpr(*others, *filled) if filled else joined


def _entries(state: StateTables, entity: str) -> DataFrame:
    """Read the resync entries of an entity's records.

    Their reasons are one text: a record without an entry would have a list that is null
    (`frames.empty_list`).
    """
    rows = _of_entity(state.rows(state_tables.RESYNC, tables.RESYNC_SQL), entity)
    names = [name for name in ENTRY_NAMES if name != "resync_reasons"]
    reasons = "array_join(resync_reasons, ',') AS resync_reasons"
    return rows.where(f"{_ID} <> '{WHOLE_ENTITY}'").selectExpr(_ID, *names, reasons)


def _narrowed(touched: Touched | None, rows: DataFrame) -> DataFrame:
    """Select a table's rows of touched records; None: there are others, too, and all rows stay.

    Few records are broadcast instead of shuffled.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    if touched is None:
        return rows
    if touched.ids is not None:
        return F.broadcast(with_ids(rows, touched.ids))
    return rows.join(F.broadcast(touched.named.select(_ID)), _ID, "left_semi")


def _kept(state: StateTables, entity: str) -> DataFrame:
    return _of_entity(state.set_aside(tables.KEPT), entity)


def _of_entity(rows: DataFrame, entity: str) -> DataFrame:
    return rows.where(f"entity_name = {text(entity)}")


def _packed(rows: DataFrame, columns: Sequence[str], name: str) -> DataFrame:
    inner = ", ".join(map(quoted, columns))
    return rows.selectExpr(_ID, f"struct({inner}) AS {name}")


def _listed(rows: DataFrame, name: str) -> DataFrame:
    """Group rows by id: one row for each id, with a list of all values."""
    inner = rows.columns[1]
    return rows.groupBy(_ID).agg({inner: "collect_list"}).toDF(_ID, name)
