"""Which events a run has to do with: those that arrived, those held from before, repeats out; and what is to be remembered of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.applying import merges, places
from airflow_provider_sfevents.spark.applying.events import EVENTS_SQL, event_rows, light
from airflow_provider_sfevents.spark.applying.frames import FEW, collected, local_rows, once
from airflow_provider_sfevents.spark.applying.rows import order_of, order_parts
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.transactions import SEEN_FOR, Ready
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
_PLACE = f"struct({', '.join(_ORDER)})"
_SWEEP_EVERY = 10


Find = Callable[[frozenset[int]], "DataFrame"]
"""Finds events (`EVENTS_SQL`) but for those of these ordinals, which are known already."""


class Arrived:
    """A batch's own events, read once: each of the many plans that they are part of would read them anew.

    :param state: the tables that they go to.
    :param sources: the places where they may be, each asked for the events whose ordinals it is not
        given; the usual place first. The others are not asked once all events are found.
    :param number: how many there are together.
    :param folder: URL of the folder for files of many events; not there yet.
    :param few: so many are few.
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
        self.few = number <= few
        self.rows = local_rows(state.spark, [], EVENTS_SQL)
        self.events: list[Change] = []

    def look(self) -> None:
        """Read them, and fetch what the driver decides by.

        :raises StagingError: some are not there.
        """
        found: list[DataFrame] = []
        for at, find in enumerate(self._sources):
            if len(self.events) == self._number:
                break
            known = frozenset(one.order.ordinal for one in self.events)
            rows = once(self._state.spark, find(known), f"{self._folder}/{at}", few=self.few)
            self.events += self._light(rows)
            found.append(rows)
        if len(self.events) != self._number:
            raise StagingError(
                f"The batch has {counted(self._number, 'event')}, and {len(self.events)} were found in the event tables and the staged "
                "files: rows changed meanwhile. Nothing was applied. Run the task again."
            )
        if found:
            self.rows = reduce(lambda one, other: one.unionAll(other), found)

    def _light(self, rows: DataFrame) -> list[Change]:
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


def held_rows(run: Run) -> list[dict[str, str]]:
    """The texts of what is held."""
    return collected(run.state.rows(places.HELD, tables.HELD_SQL).select("event_text"))


def seen_before(run: Run, arrived: Arrived, held: Sequence[Change]) -> dict[str, Order]:
    """Those of the events' identities that have been seen, each with its first order."""
    from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

    if not run.state.exists(places.SEEN) or not (arrived.events or held):
        return {}
    rows = run.state.rows(places.SEEN, tables.SEEN_SQL)
    if arrived.few:
        asked = sorted({one.identity for one in (*arrived.events, *held) if one.identity})
        met = rows.where(f"event_identity IN ({', '.join(map(text, asked)) or 'null'})")
    else:
        ids = arrived.rows.select("event_identity").unionAll(_identities(run, held))
        met = rows.join(
            F.broadcast(ids.where("event_identity <> ''")), "event_identity", "left_semi"
        )
    found: dict[str, Order] = {}
    for row in collected(met.select("event_identity", *_ORDER)):
        order = order_of(row, "event")
        found[row["event_identity"]] = min(order, found.get(row["event_identity"], order))
    return found


def _identities(run: Run, events: Iterable[Change]) -> DataFrame:
    rows = [{"event_identity": one.identity} for one in events]
    return local_rows(run.state.spark, rows, "event_identity string")


def released_events(run: Run, arrived: Arrived, held: Sequence[Change], ready: Ready) -> Released:
    """Leave out repeats and what is held from now on, and add what was held until now."""
    rows = _news(run, arrived, ready)
    if ready.held:
        rows = rows.where(f"{_PLACE} < {_literal(ready.held[0].order)}")
    before = _only_held(arrived, held)
    own = [one for one in ready.released if one.order in before]
    return Released(run, rows.unionAll(_as_rows(run, own)) if own else rows, few=arrived.few)


def _news(run: Run, arrived: Arrived, ready: Ready) -> DataFrame:
    """What arrived, without repeats."""
    from pyspark.sql import functions as F  # noqa: N812

    if not ready.repeats:
        return arrived.rows
    repeated = [order_parts(one.order, "event") for one in ready.repeats]
    columns = ", ".join(f"{name} bigint" for name in _ORDER)
    rows = local_rows(run.state.spark, repeated, columns)
    return arrived.rows.join(F.broadcast(rows), list(_ORDER), "left_anti").select(
        *arrived.rows.columns
    )


def _only_held(arrived: Arrived, held: Sequence[Change]) -> set[Order]:
    """Held events of batches before; a job that died may have left the batch's own there, too."""
    return {one.order for one in held} - {one.order for one in arrived.events}


def _as_rows(run: Run, changes: Sequence[Change]) -> DataFrame:
    return local_rows(run.state.spark, event_rows(changes).to_pylist(), EVENTS_SQL)


def _literal(order: Order) -> str:
    return f"struct({', '.join(f'{part}L' for part in order)})"


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
    run.state.append(places.SEEN, rows)
    if batch.sequence % _SWEEP_EVERY == 0:
        over = (batch.opened_at - SEEN_FOR).isoformat()
        run.state.delete(places.SEEN, f"seen_at < timestamp'{over}'")


def hold(
    run: Run, arrived: Arrived, held: Sequence[Change], ready: Ready, place: tuple[int, int]
) -> None:
    """Replace the held events.

    :param place: generation and sequence of the batch; what a later batch holds stays.
    """
    names = [*_ORDER, "event_text"]
    before = _only_held(arrived, held)
    still = [one for one in ready.held if one.order in before]
    rows = event_rows(still).select(names).to_pylist()
    if ready.held:
        # By way of the driver, which reads them again next time; Delta merges nothing that is cached.
        own = _news(run, arrived, ready).where(f"{_PLACE} >= {_literal(ready.held[0].order)}")
        rows += collected(own.select(*names))
    theirs, ours = ", ".join(f"t.{name}" for name in _ORDER[:2]), f"{place[0]}L, {place[1]}L"
    upto = f"struct({theirs}) <= struct({ours})"
    statement = partial(merges.replace_all, keys=_ORDER, columns=names, when=upto)
    run.state.merge(places.HELD, local_rows(run.state.spark, rows, tables.HELD_SQL), statement)
