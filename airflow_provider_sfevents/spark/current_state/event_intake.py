"""Events of a run: the batch's own and those held back before, without repeats.

The identities of new events are recorded. If there are many events, their values stay in files of
the run and in the table of events set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.transactions import SEEN_FOR
from airflow_provider_sfevents.spark.current_state import state_merges, state_tables
from airflow_provider_sfevents.spark.current_state.event_order import (
    ANSWER_SQL,
    answered,
    in_task,
    of_rows,
)
from airflow_provider_sfevents.spark.current_state.event_rows import EVENTS_SQL
from airflow_provider_sfevents.spark.current_state.frames import FEW, collected, local_rows, once
from airflow_provider_sfevents.spark.current_state.state_rows import order_of, order_parts
from airflow_provider_sfevents.spark.schema.envelope import GONE
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame

    from airflow_provider_sfevents.spark.changes.order import EventOrder
    from airflow_provider_sfevents.spark.changes.source import ChangeBatch, Progress
    from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
    from airflow_provider_sfevents.spark.current_state.event_order import Ordered
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables

_ORDER = ("event_generation", "event_batch_number", "event_ordinal")
_PLACE = f"struct({', '.join(_ORDER)})"
_SWEEP_EVERY = 10
_LIGHT = (
    *_ORDER,
    "entity_name",
    "change_type",
    "record_ids",
    "transaction_key",
    "sequence_number",
    "committed_at",
    "event_identity",
    "CASE WHEN is_wide THEN event_text END AS event_text",
)
_SEEN = dict(zip(_ORDER, ("seen_generation", "seen_batch_number", "seen_ordinal"), strict=True))
_NEW = dict.fromkeys(_SEEN.values())
_MET_SQL = ", ".join(("event_identity string", *(f"{name} bigint" for name in _SEEN.values())))

IN_DRIVER = 10_000
"""So many events the driver puts in order by itself."""


Find = Callable[[frozenset[int]], "DataFrame"]
"""Finds events (`EVENTS_SQL`) but for those of these ordinals, which are known already."""


class Arrived:
    """A batch's own events, read once, and those held back before.

    Without this, each of the many Spark plans that use the events would read them again.

    :param state: the tables that the events go to.
    :param sources: places where the batch's own events may be, the usual one first. Each returns
        the events whose ordinals it is not given. Once all events are found, the rest is not
        called.
    :param number: number of the batch's own events.
    :param folder: URL for files of many events; the folder does not exist yet.
    :param few: up to this number of events, held ones included, the driver holds their values.
    :param in_driver: up to this number of events the driver sorts them; a task sorts more.
    """

    def __init__(
        self,
        state: StateTables,
        sources: Sequence[Find],
        number: int,
        folder: str,
        few: int = FEW,
        in_driver: int = IN_DRIVER,
    ) -> None:
        self._spark = state.spark
        self._state = state
        self._sources = sources
        self._number = number
        self._folder = folder
        self._few = few
        self._in_driver = in_driver
        self.few = True
        self.own = self.held = local_rows(state.spark, [], EVENTS_SQL)
        self.stale: DataFrame | None = None
        """Orders of rows that do not belong to the open transaction any more."""
        self.met = local_rows(state.spark, [], _MET_SQL)
        """Identities of the events that have been seen, each with its first order."""

    @property
    def rows(self) -> DataFrame:
        return self.own.unionByName(self.held)

    def look(
        self, place: tuple[int, int], ended_by: str, progress: Progress | None = None
    ) -> Ordered:
        """Read the events and sort them.

        :param place: generation and number of the batch.
        :param progress: as before the batch.
        :raises StagingError: some of the batch's events are in no source.
        """
        rows = self._state.set_aside(tables.OPEN_TRANSACTION, pinned=True)
        is_open, is_stale = open_conditions(place, progress)
        (found,) = collected(
            rows.selectExpr(
                f"count_if({is_open}) AS open_rows", f"count_if({is_stale}) AS stale_rows"
            )
        )
        total = self._number + found["open_rows"]
        self.few = total <= self._few
        self.own = self._found()
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
        light = self.own.selectExpr(*_LIGHT, "true AS is_own").unionAll(
            self.held.selectExpr(*_LIGHT, "false AS is_own")
        )
        seen = self._state.rows(state_tables.SEEN, tables.SEEN_SQL, pinned=True)
        if self.few:
            return self._ordered_here(light, seen, ended_by)
        first = f"min(struct({', '.join(_ORDER)})) AS first"
        self.met = (
            seen.join(light.select("event_identity").distinct(), "event_identity", "left_semi")
            .groupBy("event_identity")
            .agg(_expression(first))
            .selectExpr("event_identity", *(f"first.{a} AS {b}" for a, b in _SEEN.items()))
        )
        joined = light.join(self.met, "event_identity", "left")
        if total <= self._in_driver:
            return of_rows(collected(joined), ended_by)
        answer = joined.repartition(1).mapInArrow(partial(in_task, ended_by), ANSWER_SQL)
        return answered(bytes(answer.collect()[0][0]))

    def _found(self) -> DataFrame:
        """Find the batch's own events in the sources, in turn."""
        found: list[DataFrame] = []
        number = 0
        for at, find in enumerate(self._sources):
            if number == self._number:
                break
            known = frozenset(
                row["event_ordinal"]
                for one in found
                for row in collected(one.select("event_ordinal"))
            )
            rows = once(self._spark, find(known), f"{self._folder}/{at}", few=self.few)
            number += rows.count()
            found.append(rows)
        if number != self._number:
            raise StagingError(
                f"The batch has {counted(self._number, 'event')}, and {number} were found in the "
                "event tables and the staged files: rows "
                "changed meanwhile. Nothing was applied. Run the task again."
            )
        return reduce(lambda one, other: one.unionAll(other), found) if found else self.own

    def _ordered_here(self, light: DataFrame, seen: DataFrame, ended_by: str) -> Ordered:
        rows = collected(light)
        asked = sorted({row["event_identity"] for row in rows if row["event_identity"]})
        found: dict[str, EventOrder] = {}
        if asked:
            met = seen.where(f"event_identity IN ({', '.join(map(text, asked))})")
            for row in collected(met.select("event_identity", *_ORDER)):
                order = order_of(row, "event")
                found[row["event_identity"]] = min(order, found.get(row["event_identity"], order))
        parts = {one: order_parts(order, "seen") for one, order in found.items()}
        self.met = local_rows(
            self._spark, [{"event_identity": one, **parts[one]} for one in parts], _MET_SQL
        )
        return of_rows(
            ({**row, **parts.get(row["event_identity"], _NEW)} for row in rows), ended_by
        )


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


def _expression(sql: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    return F.expr(sql)


@dataclass(frozen=True, slots=True)
class Touched:
    """The records of an entity that events name.

    :param rows: `record_id`, once each, and `event_texts`.
    :param ids: of the records, where they are few.
    """

    rows: DataFrame
    ids: tuple[str, ...] | None


class Released:
    """The events that are applied or kept now.

    :param rows: of `EVENTS_SQL`.
    """

    def __init__(self, run: ApplyRun, rows: DataFrame, *, few: bool) -> None:
        self._run = run
        self.rows = rows
        self.few = few

    def touched(self, entity: str) -> Touched:
        if not self.few:
            events = self.rows.where(f"entity_name = {text(entity)}")
            named = events.selectExpr("explode(named_ids) AS record_id", "event_text")
            listed = named.groupBy("record_id").agg({"event_text": "collect_list"})
            return Touched(listed.toDF("record_id", "event_texts"), None)
        texts = self._texts.get(entity, {})
        rows = [{"record_id": one, "event_texts": said} for one, said in texts.items()]
        local = local_rows(
            self._run.state.spark, rows, "record_id string, event_texts array<string>"
        )
        return Touched(local, tuple(texts) if len(texts) <= FEW else None)

    @cached_property
    def _texts(self) -> dict[str, dict[str, list[str]]]:
        """Collect the events' texts by entity and record."""
        found: dict[str, dict[str, list[str]]] = {}
        for row in collected(self.rows.select("entity_name", "named_ids", "event_text")):
            for one in row["named_ids"]:
                found.setdefault(row["entity_name"], {}).setdefault(one, []).append(
                    row["event_text"]
                )
        return found


def released_events(run: ApplyRun, arrived: Arrived, order: Ordered) -> Released:
    """Leave out repeats and the open transaction."""
    rows = _news(run, arrived.rows, order)
    if order.open_from is not None:
        rows = rows.where(f"{_PLACE} < {_literal(order.open_from)}")
    return Released(run, rows, few=arrived.few)


def _news(run: ApplyRun, events: DataFrame, order: Ordered) -> DataFrame:
    """Select the events that are not repeats."""
    if not order.repeats:
        return events
    rows = _orders(run, order.repeats)
    return events.join(rows, list(_ORDER), "left_anti").select(*events.columns)


def _orders(run: ApplyRun, orders: Iterable[EventOrder]) -> DataFrame:
    columns = ", ".join(f"{name} bigint" for name in _ORDER)
    return local_rows(run.state.spark, [order_parts(one, "event") for one in orders], columns)


def _literal(order: Sequence[int]) -> str:
    return f"struct({', '.join(f'{part}L' for part in order)})"


def see(run: ApplyRun, batch: ChangeBatch, released: Released, arrived: Arrived) -> None:
    """Record the identities of events applied or kept now, and remove old identities.

    They are appended, because they are known to be new. If a concurrent run appends the same ones,
    the lowest order counts.
    """
    from pyspark.sql import functions as F  # noqa: N812

    rows = released.rows.where("event_identity <> ''")
    rows = rows.join(arrived.met.select("event_identity"), "event_identity", "left_anti")
    rows = rows.select("event_identity", *_ORDER, F.lit(batch.opened_at).alias("seen_at"))
    run.state.append(state_tables.SEEN, rows, writer=run.token)
    if batch.batch_number % _SWEEP_EVERY == 0:
        over = [{"seen_at": batch.opened_at - SEEN_FOR}]
        run.state.merge(
            state_tables.SEEN,
            local_rows(run.state.spark, over, "seen_at timestamp"),
            state_merges.forget,
            writer=run.token,
        )


def open_transaction(run: ApplyRun, arrived: Arrived, order: Ordered) -> list[DataFrame]:
    """Changes of the open transaction's rows: new events to add, and stale ones to remove."""
    found: list[DataFrame] = []
    if order.added and order.open_from is not None:
        waits = f"{_PLACE} >= {_literal(order.open_from)}"
        rows = _news(run, arrived.own, order).where(waits)
        found.append(rows.selectExpr("*", f"false AS {GONE}"))
    if arrived.stale is not None:
        found.append(arrived.stale.selectExpr("*", f"true AS {GONE}"))
    return found
