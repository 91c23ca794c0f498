"""The events of a run: those that arrived, those held from before, repeats out; and what is to be remembered of them.

Values of many events stay where they are: in files of the run, and in the table of held ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.applying import merges, places
from airflow_provider_sfevents.spark.applying.events import EVENTS_SQL, light
from airflow_provider_sfevents.spark.applying.frames import FEW, collected, local_rows, once
from airflow_provider_sfevents.spark.applying.rows import order_of, order_parts
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.transactions import SEEN_FOR, Ready
from airflow_provider_sfevents.spark.envelope import GONE
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.applying.places import StateTables
    from airflow_provider_sfevents.spark.applying.run import Run
    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.order import Order
    from airflow_provider_sfevents.spark.changes.source import Batch

_ORDER = ("event_generation", "event_sequence", "event_ordinal")
_BATCH = _ORDER[:2]
_PLACE = f"struct({', '.join(_ORDER)})"
_SWEEP_EVERY = 10


Find = Callable[[frozenset[int]], "DataFrame"]
"""Finds events (`EVENTS_SQL`) but for those of these ordinals, which are known already."""


class Arrived:
    """A batch's own events, read once, and those held from before.

    Each of the many plans that events are part of would read them anew otherwise.

    :param state: the tables that they go to.
    :param sources: the places where the batch's own may be, each asked for the events whose ordinals
        it is not given; the usual place first. The others are not asked once all events are found.
    :param number: how many there are of the batch's own.
    :param folder: URL of the folder for files of many events; not there yet.
    :param few: so many are few, held ones among them.
    """

    def __init__(
        self,
        state: StateTables,
        sources: Sequence[Find],
        number: int,
        folder: str,
        few: int = FEW,
    ) -> None:
        self._state = state
        self._sources = sources
        self._number = number
        self._folder = folder
        self._few = few
        self.few = True
        self.own = self.rows = local_rows(state.spark, [], EVENTS_SQL)
        self.events: list[Change] = []
        self.held: list[Change] = []

    def look(self) -> None:
        """Read them, and fetch what the driver decides by.

        :raises StagingError: some are not there.
        """
        waiting = self._state.rows(places.HELD, EVENTS_SQL, pinned=True)
        known = _light(waiting)
        self.few = self._number + len(known) <= self._few
        found: list[DataFrame] = []
        for at, find in enumerate(self._sources):
            if len(self.events) == self._number:
                break
            ordinals = frozenset(one.order.ordinal for one in self.events)
            rows = once(self._state.spark, find(ordinals), f"{self._folder}/{at}", few=self.few)
            self.events += _light(rows)
            found.append(rows)
        if len(self.events) != self._number:
            raise StagingError(
                f"The batch has {counted(self._number, 'event')}, and {len(self.events)} were found in the event tables and the staged "
                "files: rows changed meanwhile. Nothing was applied. Run the task again."
            )
        # A job that died may have left the batch's own there, too.
        own = {one.order for one in self.events}
        self.held = [one for one in known if one.order not in own]
        if found:
            self.own = self.rows = reduce(lambda one, other: one.unionAll(other), found)
        if self.held:
            if self.events:
                place = _literal(self.events[0].order, _BATCH)
                waiting = waiting.where(f"struct({', '.join(_BATCH)}) <> {place}")
            if self.few:
                waiting = once(self._state.spark, waiting, "", few=True)
            self.rows = self.own.unionByName(waiting)


def _light(rows: DataFrame) -> list[Change]:
    """Events without the values of those that are about records alone."""
    names = [
        *_ORDER,
        "entity_name",
        "change_type",
        "record_ids",
        "transaction_key",
        "sequence_number",
        "committed_at",
    ]
    own = rows.selectExpr(*names, "CASE WHEN is_wide THEN event_text END AS event_text")
    return [light(row) for row in collected(own)]


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

    def __init__(self, run: Run, rows: DataFrame, *, few: bool) -> None:
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
        """Events of records, by entity and record."""
        found: dict[str, dict[str, list[str]]] = {}
        for row in collected(self.rows.select("entity_name", "named_ids", "event_text")):
            for one in row["named_ids"]:
                found.setdefault(row["entity_name"], {}).setdefault(one, []).append(
                    row["event_text"]
                )
        return found


def seen_before(run: Run, arrived: Arrived) -> dict[str, Order]:
    """Those of the events' identities that have been seen, each with its first order."""
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    if not (arrived.events or arrived.held):
        return {}
    rows = run.state.rows(places.SEEN, tables.SEEN_SQL)
    if arrived.few:
        asked = sorted({one.identity for one in (*arrived.events, *arrived.held) if one.identity})
        met = rows.where(f"event_identity IN ({', '.join(map(text, asked)) or 'null'})")
    else:
        ids = arrived.rows.select("event_identity").where("event_identity <> ''")
        met = rows.join(F.broadcast(ids), "event_identity", "left_semi")
    found: dict[str, Order] = {}
    for row in collected(met.select("event_identity", *_ORDER)):
        order = order_of(row, "event")
        found[row["event_identity"]] = min(order, found.get(row["event_identity"], order))
    return found


def released_events(run: Run, arrived: Arrived, ready: Ready) -> Released:
    """Leave out repeats and what is held from now on."""
    rows = _news(run, arrived.rows, ready)
    if ready.held:
        rows = rows.where(f"{_PLACE} < {_literal(ready.held[0].order)}")
    return Released(run, rows, few=arrived.few)


def _news(run: Run, events: DataFrame, ready: Ready) -> DataFrame:
    """Events without repeats."""
    from pyspark.sql import functions as F  # noqa: N812

    if not ready.repeats:
        return events
    rows = _orders(run, (one.order for one in ready.repeats))
    return events.join(F.broadcast(rows), list(_ORDER), "left_anti").select(*events.columns)


def _orders(run: Run, orders: Iterable[Order]) -> DataFrame:
    columns = ", ".join(f"{name} bigint" for name in _ORDER)
    return local_rows(run.state.spark, [order_parts(one, "event") for one in orders], columns)


def _literal(order: Order, names: Sequence[str] = _ORDER) -> str:
    return f"struct({', '.join(f'{part}L' for part in order[: len(names)])})"


def see(run: Run, batch: Batch, released: Released, seen: Mapping[str, Order]) -> None:
    """Remember the identities of what is applied or kept now, and forget those that are old enough.

    They are appended, since it is known that they are not there. A twin's are the same: the least order counts.
    """
    from pyspark.sql import functions as F  # noqa: N812

    rows = released.rows.where("event_identity <> ''")
    if seen:
        there = local_rows(
            run.state.spark, [{"event_identity": one} for one in seen], "event_identity string"
        )
        rows = rows.join(F.broadcast(there), "event_identity", "left_anti")
    rows = rows.select("event_identity", *_ORDER, F.lit(batch.opened_at).alias("seen_at"))
    run.append(places.SEEN, rows)
    if batch.sequence % _SWEEP_EVERY == 0:
        over = [{"seen_at": batch.opened_at - SEEN_FOR}]
        run.merge(
            places.SEEN, local_rows(run.state.spark, over, "seen_at timestamp"), merges.forget
        )


def hold(run: Run, arrived: Arrived, ready: Ready) -> None:
    """Add to the table of held events what is new there, and remove what is released."""
    names = [column.split()[0] for column in EVENTS_SQL.split(", ")]
    before = {one.order for one in arrived.held}
    added = [one.order for one in ready.held if one.order not in before]
    gone = _orders(run, before.difference(one.order for one in ready.held))
    own = local_rows(run.state.spark, [], EVENTS_SQL)
    if added:
        own = _news(run, arrived.own, ready).where(f"{_PLACE} >= {_literal(added[0])}")
    source = own.selectExpr("*", f"false AS {GONE}").unionByName(
        gone.selectExpr("*", f"true AS {GONE}"), allowMissingColumns=True
    )
    statement = partial(merges.merge, keys=_ORDER, columns=names, removes=True)
    run.merge(places.HELD, source, statement)
