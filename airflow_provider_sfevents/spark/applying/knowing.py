"""What is known of the records that a run touches, side by side, one row for each record: for the functions of `folding`.

Of an entity's table only the touched rows are read on: their ids are few beside its rows, so they are sent to where the rows are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.applying import places
from airflow_provider_sfevents.spark.applying.rows import (
    MARK_NAMES,
    ROW_NAMES,
    history_sql,
    row_sql,
)
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.marks import WHOLE_ENTITY
from airflow_provider_sfevents.spark.fieldtypes import quoted
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.applying.folding import Folding
    from airflow_provider_sfevents.spark.applying.places import StateTables

_ID = tables.RECORD_ID


def known(
    state: StateTables,
    entity: str,
    events: DataFrame,
    folding: Folding,
    *,
    prefixes: Iterable[str] = (),
    everything: bool = False,
    waiting: bool = False,
) -> DataFrame:
    """Put together what the tables have of records.

    :param events: one row for each record that is touched, with its id and `event_texts`, and what else is to be passed on.
    :param prefixes: records whose ids begin so are touched, too.
    :param everything: all records of the entity are.
    :param waiting: `event_texts` are the kept ones.
    """
    rows = state.rows(entity, row_sql(folding.layout))
    graves = _of_entity(state, places.TOMBSTONES, tables.TOMBSTONES_SQL, entity)
    marks = _of_entity(state, places.RESYNC, tables.RESYNC_SQL, entity)
    marks = marks.where(f"{_ID} <> '{WHOLE_ENTITY}'")
    wider = " OR ".join(f"startswith({_ID}, {text(prefix)})" for prefix in prefixes)
    touched = events
    if wider or everything:
        ids = [rows.select(_ID), graves.select(_ID), marks.select(_ID)]
        if everything:
            ids.append(_waiting(state, entity))
        others = ids[0].unionAll(ids[1]).unionAll(ids[2])
        for more in ids[3:]:
            others = others.unionAll(more)
        others = others.distinct() if everything else others.where(wider).distinct()
        touched = events.join(others, _ID, "full_outer")
    else:
        from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

        few = F.broadcast(events.select(_ID))
        rows = rows.join(few, _ID, "left_semi")
        graves = graves.join(few, _ID, "left_semi")
    # A column that is new with this batch is not there yet.
    there = {name.casefold() for name in rows.columns}
    own_columns = [one.name for one in folding.layout.columns if one.name.casefold() in there]
    columns = [*ROW_NAMES, *own_columns]
    found = touched.join(_packed(rows, columns, "known_row"), _ID, "left")
    own = [*tables.ORDER, tables.COMMITTED_AT, tables.READ_AT]
    found = found.join(_packed(graves, own, "known_tombstone"), _ID, "left")
    found = found.join(_packed(marks, MARK_NAMES, "known_mark"), _ID, "left")
    if waiting:
        kept = _of_entity(state, places.KEPT, tables.KEPT_SQL, entity)
        found = found.join(_listed(kept.select(_ID, "event_text"), "event_texts"), _ID, "left")
    if folding.history:
        past = state.rows(places.history_name(entity), history_sql(folding.layout))
        keys = ", ".join([*tables.ORDER, "valid_from"])
        packed = past.selectExpr(_ID, f"struct({keys}) AS one")
        found = found.join(_listed(packed, "known_past"), _ID, "left")
    return found


def written(
    state: StateTables,
    rows: DataFrame,
    act: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    columns: str,
    folder: str,
) -> DataFrame:
    """Let executors act on rows, and keep what comes of it as files: what is written from them is then the same however often it is read."""
    rows.mapInArrow(act, columns).write.parquet(folder)
    schema = state.spark.createDataFrame([], columns).schema
    return state.spark.read.schema(schema).parquet(folder)


def _waiting(state: StateTables, entity: str) -> DataFrame:
    """Records of which events are kept."""
    kept = _of_entity(state, places.KEPT, tables.KEPT_SQL, entity)
    return kept.where(f"{_ID} <> '{WHOLE_ENTITY}'").select(_ID)


def _of_entity(state: StateTables, table: str, columns: str, entity: str) -> DataFrame:
    return state.rows(table, columns).where(f"entity_name = {text(entity)}")


def _packed(rows: DataFrame, columns: Sequence[str], name: str) -> DataFrame:
    inner = ", ".join(map(quoted, columns))
    return rows.selectExpr(_ID, f"struct({inner}) AS {name}")


def _listed(rows: DataFrame, name: str) -> DataFrame:
    """Rows of an id and something, as one row for each id with all of it."""
    inner = rows.columns[1]
    return rows.groupBy(_ID).agg({inner: "collect_list"}).toDF(_ID, name)
