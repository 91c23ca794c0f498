"""Events of a run: the batch's own and those held back before, without repeats.

If there are many events, their values stay in files of the run and in the table of events set
aside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.current_state.event_rows import (
    EVENTS_SQL,
    VALUES,
    event_of,
    held_rows,
    values_column,
)
from airflow_provider_sfevents.spark.current_state.frames import (
    acted,
    collected,
    counted_here,
    empty_list,
    local_rows,
    mapped,
    once,
    together,
)
from airflow_provider_sfevents.spark.current_state.intake.event_order import (
    ANSWER_SQL,
    answered,
    in_task,
    of_rows,
)
from airflow_provider_sfevents.spark.current_state.intake.seen_identities import (
    FIRST,
    MET_SQL,
    met,
    seen_before,
)
from airflow_provider_sfevents.spark.current_state.state_rows import order_of, order_parts
from airflow_provider_sfevents.spark.landing.landed_batch import FEW, FEW_BYTES
from airflow_provider_sfevents.spark.schema.envelope import GONE
from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.side_by_side import beside
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.changes.order import EventOrder
    from airflow_provider_sfevents.spark.changes.source import Progress
    from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
    from airflow_provider_sfevents.spark.current_state.intake.event_order import Ordered
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables

_ORDER = tables.EVENT_ORDER
_PLACE = f"struct({', '.join(_ORDER)})"
_PLACED = (
    *_ORDER,
    "event_identity",
    "entity_name",
    "transaction_key",
    "committed_at",
    "is_wide",
)
_HEADER = (
    *_ORDER,
    "entity_name",
    "change_type",
    "record_ids",
    "transaction_key",
    "sequence_number",
    "committed_at",
)
_LISTS = ("changed_fields", "nulled_fields", "diff_fields")
_NO_LISTS = tuple(f"{empty_list()} AS {name}" for name in _LISTS)
_WIDE = (*_LISTS, "event_defect", "event_text")
# A text's fields have the names of `Change`.
_NAMES = "changed array<string>, nulled array<string>, diffs array<string>"
_FIELDS = "explode(concat(changed_fields, nulled_fields, diff_fields)) AS field"
_HELD_FIELDS = (
    f"explode(transform(array(from_json(event_text, '{_NAMES}')), "
    "one -> concat(one.changed, one.nulled, one.diffs))[0]) AS field"
)
_NEW = dict.fromkeys(FIRST)

IN_DRIVER = 10_000
"""So many events the driver puts in order by itself."""


Find = Callable[[frozenset[int]], "DataFrame"]
"""Finds events (`EVENTS_SQL`) but for those of these ordinals, which are known already."""


class Arrived:
    """A batch's own events, read once, and those held back before.

    Without this, each of the many Spark plans that use the events would read them again.

    :param state: the tables that the events go to.
    :param number: number of the batch's own events.
    :param folder: URL for files of many events; the folder does not exist yet.
    :param size: bytes of the batch's own events.
    :param few: up to this number of events, held ones included, the driver holds their values,
        unless they have more than `FEW_BYTES`.
    :param in_driver: up to this number of events the driver sorts them; a task sorts more.
    """

    def __init__(
        self,
        state: StateTables,
        number: int,
        folder: str,
        size: int = 0,
        few: int = FEW,
        in_driver: int = IN_DRIVER,
    ) -> None:
        self._spark = state.spark
        self._state = state
        self.number = number
        self._folder = folder
        self._few = few if size <= FEW_BYTES else -1
        self._size = size
        self._in_driver = in_driver
        self._total = number
        self.few = number <= self._few
        self.own = local_rows(state.spark, [], EVENTS_SQL)
        self.held = local_rows(state.spark, [], tables.OPEN_TRANSACTION_SQL)
        self.stale: DataFrame | None = None
        """Orders of rows that do not belong to the open transaction any more."""
        self.met = local_rows(state.spark, [], MET_SQL)
        """Identities of the events that have been seen, each with its first order."""
        self.repeats: DataFrame | None = None
        """Orders of events that are repeats."""
        self.own_fields: Mapping[str, frozenset[str]] = {}
        """Fields that the batch's own events name, by entity; only of many events."""

    @property
    def rows(self) -> DataFrame:
        return together([self.own, self.held.selectExpr("*", *_NO_LISTS)])

    def read_held(self, place: tuple[int, int], progress: Progress | None) -> None:
        """Read the events held back before; comes before all else, and needs no event of the batch.

        :param place: generation and number of the batch.
        :param progress: as before the batch.
        """
        rows = self._state.set_aside(tables.OPEN_TRANSACTION, pinned=True)
        is_open, is_stale = open_conditions(place, progress)
        # With a batch of many events the texts are not read.
        texts = "event_text" if self.number <= self._few else "''"
        (found,) = collected(
            rows.selectExpr(
                f"count_if({is_open}) AS open_rows",
                f"count_if({is_stale}) AS stale_rows",
                f"coalesce(sum(length({texts})) FILTER (WHERE {is_open}), 0) AS held_size",
            )
        )
        self._total = self.number + found["open_rows"]
        self.few = self._total <= self._few and self._size + found["held_size"] <= FEW_BYTES
        if found["open_rows"]:
            held = rows.where(is_open)
            self.held = once(self._spark, held, "", few=True) if self.few else held
        if found["stale_rows"]:
            self.stale = once(
                self._spark,
                # Read first: Spark cannot plan a MERGE for Iceberg whose source reads its target.
                rows.where(is_stale).select("entity_name", *_ORDER),
                f"{self._folder}/stale",
                few=found["stale_rows"] <= FEW,
            )

    def sort(self, ended_by: str, progress: Progress | None = None) -> Ordered:
        """Sort the held events and the batch's own, which are found."""
        light = together([_light(self.own, "true"), _light(self.held, "false")])
        seen = seen_before(self._state, progress)
        if self.few:
            return self._ordered_here(light, seen, ended_by)
        self.met = met(seen, light)
        joined = light.join(self.met, "event_identity", "left")
        with beside(partial(_fields_of, self.own)) as naming:
            found = self._sorted(joined, ended_by)
        self.own_fields = naming.result()
        return found

    def _sorted(self, joined: DataFrame, ended_by: str) -> Ordered:
        if self._total <= self._in_driver:
            return self._in_driver_sorted(collected(joined), ended_by)
        sorted_rows = mapped(joined.repartition(1), partial(in_task, ended_by), ANSWER_SQL)
        found_rows = once(self._spark, sorted_rows, f"{self._folder}/sorted", few=False)
        self.repeats = found_rows.where("answer IS NULL").select(*_ORDER)
        (row,) = found_rows.where("answer IS NOT NULL").select("answer").collect()
        return answered(bytes(row[0]))

    def _in_driver_sorted(self, rows: Iterable[Mapping[str, object]], ended_by: str) -> Ordered:
        found = of_rows(rows, ended_by)
        orders = [order_parts(one, "event") for one in found.repeats]
        self.repeats = local_rows(self._spark, orders, tables.EVENT_ORDER_SQL)
        return found

    def find(self, sources: Sequence[Find]) -> None:
        """Find the batch's own events in the sources, in turn; no table of records is read.

        :param sources: places where they may be, the usual one first. Each returns the events whose
            ordinals it is not given. Once all events are found, the rest is not called.
        :raises StagingError: some are in no source.
        """
        found: list[DataFrame] = []
        number = 0
        for at, find in enumerate(sources):
            if number == self.number:
                break
            known = frozenset(
                ordinal
                for one in found
                for ordinal in one.select("event_ordinal").toArrow().column(0).to_pylist()
            )
            if self.few:
                rows, there = counted_here(self._spark, find(known))
            else:
                rows = once(self._spark, find(known), f"{self._folder}/{at}", few=False)
                there = rows.count()
            number += there
            found.append(rows)
        if number != self.number:
            raise StagingError(
                f"The batch has {counted(self.number, 'event')}, and {number} were found in the "
                "event tables and the staged files: rows "
                "changed meanwhile. Nothing was applied. Run the task again."
            )
        if found:
            self.own = together(found)

    def _ordered_here(self, light: DataFrame, seen: DataFrame, ended_by: str) -> Ordered:
        rows = collected(light)
        asked = sorted({row["event_identity"] for row in rows if row["event_identity"]})
        found: dict[str, EventOrder] = {}
        if asked:
            rows_met = seen.where(f"event_identity IN ({', '.join(map(text, asked))})")
            for row in collected(rows_met.select("event_identity", *_ORDER)):
                order = order_of(row, "event")
                found[row["event_identity"]] = min(order, found.get(row["event_identity"], order))
        parts = {one: order_parts(order, "seen") for one, order in found.items()}
        self.met = local_rows(
            self._spark, [{"event_identity": one, **parts[one]} for one in parts], MET_SQL
        )
        return self._in_driver_sorted(
            ({**row, **parts.get(row["event_identity"], _NEW)} for row in rows), ended_by
        )


def _fields_of(events: DataFrame, fields: str = _FIELDS) -> Mapping[str, frozenset[str]]:
    """Collect the fields that events name, by entity.

    :param fields: SQL of a row for each field of an event.
    """
    found: dict[str, set[str]] = {}
    for entity, name in events.selectExpr("entity_name", fields).distinct().collect():
        found.setdefault(entity, set()).add(name)
    return {entity: frozenset(names) for entity, names in found.items()}


def _light(rows: DataFrame, is_own: str) -> DataFrame:
    """Select what sorting needs of events: all columns only of those about an entity.

    Texts of other events are not read from the table.
    """
    none = f"{empty_list()} AS record_ids"
    others = rows.where("NOT is_wide").selectExpr(*_PLACED, none, *_NO_LISTS)
    wide = rows.where("is_wide").drop("named_ids")
    return together([others, wide]).selectExpr("*", f"{is_own} AS is_own")


def open_conditions(place: tuple[int, int], progress: Progress | None) -> tuple[str, str]:
    """SQL conditions for the rows of the open transaction, and for stale rows.

    Rows of this batch belong to neither: a run that died has left them, and this run adds them
    again.
    """
    batch = f"struct({', '.join(_ORDER[:2])})"
    is_open = "false"
    if progress is not None and progress.open_from is not None:
        last = _literal((progress.generation, progress.batch_number))
        is_open = f"{_PLACE} >= {_literal(progress.open_from)} AND {batch} <= {last}"
    return is_open, f"NOT ({is_open}) AND {batch} <> {_literal(place)}"


@dataclass(frozen=True, slots=True)
class Touched:
    """The records of an entity that events name.

    :param rows: `record_id`, once each, and `events`.
    :param named: `record_id`, any number of times each.
    :param ids: of the records, where they are few.
    :param fields: all that their events set in records that are there (`Change.fields`), and maybe
        others that events of the batch name.
    """

    rows: DataFrame
    named: DataFrame
    ids: tuple[str, ...] | None
    fields: frozenset[str] = frozenset()


def touched(spark: SparkSession, arrived: Arrived, released: DataFrame, entity: str) -> Touched:
    """Collect the events of each record of an entity.

    :param released: by `released_events`.
    """
    from pyspark.sql import types as T  # noqa: N812 - the usual name

    events = released.where(f"entity_name = {text(entity)}")
    own = [*_HEADER, *_WIDE]
    if values_column(entity) in released.columns:
        own.append(f"{quoted(values_column(entity))} AS {VALUES}")
    named = events.selectExpr(
        "explode(named_ids) AS record_id", f"struct({', '.join(own)}) AS event"
    )
    if not arrived.few:
        listed = named.groupBy("record_id").agg({"event": "collect_list"})
        held = _fields_of(events.where("event_text IS NOT NULL"), _HELD_FIELDS)
        fields = frozenset().union(held.get(entity, ()), arrived.own_fields.get(entity, ()))
        return Touched(listed.toDF("record_id", "events"), named, None, fields)
    found: dict[str, list[dict[str, Any]]] = {}
    fields = frozenset[str]()
    for row in collected(named):
        found.setdefault(row["record_id"], []).append(row["event"])
        fields = fields.union(event_of(row["event"]).fields)
    rows = [{"record_id": one, "events": told} for one, told in found.items()]
    listed_in = T.ArrayType(named.schema["event"].dataType)
    columns = T.StructType(
        [T.StructField("record_id", T.StringType()), T.StructField("events", listed_in)]
    )
    local = local_rows(spark, rows, columns)
    return Touched(local, local, tuple(found) if len(found) <= FEW else None, fields)


def released_events(arrived: Arrived, order: Ordered) -> DataFrame:
    """Select the events that are applied or kept now: no repeats, nor the open transaction.

    :returns: with the columns of `Arrived.rows`.
    """
    rows = _news(arrived, arrived.rows, order)
    if order.open_from is not None:
        rows = rows.where(f"{_PLACE} < {_literal(order.open_from)}")
    return rows


def _news(arrived: Arrived, events: DataFrame, order: Ordered) -> DataFrame:
    """Select the events that are not repeats."""
    if not order.repeated:
        return events
    return events.join(arrived.repeats, list(_ORDER), "left_anti").select(*events.columns)


def _literal(order: Sequence[int]) -> str:
    return f"struct({', '.join(f'{part}L' for part in order)})"


def new_identities(released: DataFrame, arrived: Arrived, order: Ordered) -> DataFrame:
    """Select the identities of events applied or kept now, each with its order."""
    rows = released.where("event_identity <> ''")
    if order.met:
        rows = rows.join(arrived.met.select("event_identity"), "event_identity", "left_anti")
    return rows.select("event_identity", *_ORDER)


def open_transaction(run: ApplyRun, arrived: Arrived, order: Ordered) -> list[DataFrame]:
    """Changes of the open transaction's rows: new events to add, and stale ones to remove."""
    found: list[DataFrame] = []
    if order.added and order.open_from is not None:
        waits = f"{_PLACE} >= {_literal(order.open_from)}"
        rows = acted(
            run.state.spark,
            _news(arrived, arrived.own, order).where(waits),
            held_rows,
            tables.OPEN_TRANSACTION_SQL,
            f"{run.folder}/{tables.OPEN_TRANSACTION}",
            few=arrived.few,
        )
        found.append(rows.selectExpr("*", f"false AS {GONE}"))
    if arrived.stale is not None:
        found.append(arrived.stale.selectExpr("*", f"true AS {GONE}"))
    return found
