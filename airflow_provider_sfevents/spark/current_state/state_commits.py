"""Commits of a run: one for each table that the folded records change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.resync_entries import WHOLE_ENTITY
from airflow_provider_sfevents.spark.current_state import state_merges, state_tables
from airflow_provider_sfevents.spark.current_state.fold_records import (
    ANSWERS,
    DONE,
    DROP,
    PARTIAL,
    PUT,
)
from airflow_provider_sfevents.spark.current_state.frames import local_rows, once, together
from airflow_provider_sfevents.spark.current_state.state_rows import (
    ENTRY_NAMES,
    ROW_NAMES,
    entry_row,
    kept_row,
    unapplied_row,
)
from airflow_provider_sfevents.spark.schema.envelope import GONE
from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.resync_entries import ResyncEntry
    from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
    from airflow_provider_sfevents.spark.current_state.fold_records import Folding


_KEY = ["entity_name", tables.RECORD_ID]
_ANSWERED = "_answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityOutcomes:
    """Outcomes of the fold of one entity.

    :param rows: outcomes (`Folding.outcome`), computed once (`frames.acted`).
    :param counts: number of rows of each kind, and of events by their result.
    :param few: the outcomes are of few records, and the driver holds them.
    """

    entity: str
    folding: Folding
    rows: DataFrame
    counts: Mapping[str, int]
    few: bool


def commit(run: ApplyRun, about: str, write: Callable[[], None]) -> None:
    """Make one commit, between its two crash points.

    :param about: its name in `tables.APPLY_ORDER`, then the table's name if that differs.
    """
    steps.reached(steps.APPLY_COMMIT, about)
    run.commit(write)
    steps.reached(steps.APPLY_COMMITTED, about)


class Commits:
    """The commits of one run.

    :param order: of the commits: `tables.APPLY_ORDER` or `tables.SNAPSHOT_ORDER`. The roles of
        events set aside that it does not name are one commit.
    """

    def __init__(
        self, run: ApplyRun, found: Sequence[EntityOutcomes], order: Sequence[str]
    ) -> None:
        self._order = order
        self._aside: dict[str, list[DataFrame]] = {}
        self._roles: dict[str, set[str]] = {}
        self._run = run
        self._state = run.state
        self._found = found
        self._few = all(one.few for one in found)
        self._writes: dict[str, list[tuple[str, Callable[[], None]]]] = {}

    def run(self) -> set[str]:
        """Make the commits in their order; return their names."""
        for name, sources in self._aside.items():
            self.add(name, partial(self._set_aside, name, sources), state_tables.SET_ASIDE)
        for name in self._order:
            for table, write in self._writes.get(name, ()):
                commit(self._run, name if table == name else f"{name} {table}", write)
        return set(self._writes)

    def add(self, name: str, write: Callable[[], None], table: str = "") -> None:
        self._writes.setdefault(name, []).append((table or name, write))

    def of_records(self) -> None:
        """Add the commits of the outcomes, except those of `kept`, `resync` and `unapplied`."""
        if self._number("rows_buried"):
            own = [tables.RECORD_ID, *tables.ORDER, tables.COMMITTED_AT, tables.READ_AT]
            buried = self._union("entity_name", *own, where="row_bury")
            self._add_aside(tables.TOMBSTONES, buried.selectExpr("*", f"false AS {GONE}"))
        for found in self._found:
            if found.counts["rows_changed"]:
                self.add("rows", partial(self._put, found), found.entity)
            if self._run.history and found.counts["rows_written"]:
                self.add("history", partial(self._keep_history, found), found.entity)

    def kept(self, wide: Mapping[str, Sequence[Change]], drop_wide: str = "") -> None:
        """Add the commit of kept events: new ones, and those that are answered.

        :param drop_wide: entity of which nothing is kept any more as a whole.
        """
        sources: list[DataFrame] = []
        if self._number("rows_settled") or drop_wide:
            answered = self._settled(drop_wide)
            if not answered.isEmpty():
                sources.append(answered)
        if self._number("rows_kept"):
            exploded = self._union(*_KEY, "kept_events", where="size(kept_events) > 0")
            rows = exploded.selectExpr(*_KEY, "explode(kept_events) AS one").select(*_KEY, "one.*")
            sources.append(rows.selectExpr("*", f"false AS {GONE}"))
        given = [
            {"entity_name": entity, tables.RECORD_ID: WHOLE_ENTITY, **kept_row(one)}
            for entity, changes in wide.items()
            for one in changes
        ]
        if given:
            sources.append(self._rows(given, tables.KEPT_SQL).selectExpr("*", f"false AS {GONE}"))
        for source in sources:
            self._add_aside(tables.KEPT, source)

    def open_transaction(self, sources: Sequence[DataFrame]) -> None:
        """Add the commit of the open transaction: its new events, and rows to remove."""
        for source in sources:
            self._add_aside(tables.OPEN_TRANSACTION, source)

    def resync(self, wide: Mapping[str, ResyncEntry], gone: Mapping[str, ResyncEntry]) -> None:
        """Write the resync entries of records, and the given ones of entities.

        :param wide: entries that are new or changed.
        :param gone: entries to remove, as they were found.
        """
        sources: list[DataFrame] = []
        names = [*_KEY, *ENTRY_NAMES]
        if self._number("entries_changed"):
            rows = self._union(*_KEY, "entry_write", *ENTRY_NAMES, where="entry_write <> ''")
            sources.append(rows.selectExpr(*names, f"entry_write = '{DROP}' AS {GONE}"))
        given: list[dict[str, Any]] = [
            {
                "entity_name": entity,
                tables.RECORD_ID: WHOLE_ENTITY,
                **entry_row(entry),
                GONE: is_gone,
            }
            for entries, is_gone in ((wide, False), (gone, True))
            for entity, entry in entries.items()
        ]
        if given:
            sources.append(self._rows(given, f"{tables.RESYNC_SQL}, {GONE} boolean"))
        if sources:
            statement = partial(
                state_merges.merge,
                keys=_KEY,
                columns=names,
                updates=ENTRY_NAMES,
                when=state_merges.forward(state_merges.ENTRY_ORDER),
                removes=True,
            )
            self.add("resync", partial(self._merge, state_tables.RESYNC, sources, statement))

    def unapplied(self, wide: Sequence[tuple[Change, str]]) -> None:
        sources: list[DataFrame] = []
        names = ["entity_name", *tables.EVENT_ORDER, "quarantine_reason", "event_text"]
        keys = names[:4]
        if self._number("rows_aside"):
            exploded = self._union(*_KEY, "put_aside", where="size(put_aside) > 0")
            one = exploded.selectExpr("entity_name", "explode(put_aside) AS one")
            sources.append(one.select("entity_name", "one.*"))
        given = [
            {"entity_name": change.entity, **unapplied_row(change, reason)}
            for change, reason in wide
        ]
        if given:
            sources.append(self._rows(given, tables.UNAPPLIED_SQL))
        if sources:
            # An event of several records is one.
            rows = together(sources).select(*names).dropDuplicates(keys)
            self._add_aside(tables.UNAPPLIED, rows.selectExpr("*", f"false AS {GONE}"))

    def _add_aside(self, role: str, rows: DataFrame) -> None:
        name = role if role in self._order else state_tables.SET_ASIDE
        self._aside.setdefault(name, []).append(rows.selectExpr(f"'{role}' AS event_role", "*"))
        self._roles.setdefault(name, set()).add(role)

    def _set_aside(self, name: str, sources: Sequence[DataFrame]) -> None:
        """Commit changes of events of some roles.

        A tombstone has no order of an event in its key, since its record has one.
        """
        rows = together([self._rows([], f"{tables.SET_ASIDE_SQL}, {GONE} boolean"), *sources])
        keys = tables.SET_ASIDE_KEY
        empty = {one: "''" if one in keys[:3] else "0L" for one in keys}
        filled = [
            f"coalesce({one}, {empty[one]}) AS {one}" if one in empty else one
            for one in rows.columns
        ]
        columns = [column.split()[0] for column in tables.SET_ASIDE_SQL.split(", ")]
        roles = ", ".join(f"'{role}'" for role in sorted(self._roles[name]))
        statement = partial(
            state_merges.merge,
            keys=keys,
            columns=columns,
            updates=columns[len(keys) :],
            when=f"s.event_role <> '{tables.TOMBSTONES}' OR {state_merges.forward()}",
            within=f"t.event_role IN ({roles})",
            removes=True,
        )
        self._merge(state_tables.SET_ASIDE, [rows.selectExpr(*filled)], statement)

    def _put(self, found: EntityOutcomes) -> None:
        own = [column.name for column in found.folding.layout.columns]
        names = [*ROW_NAMES, *own]
        rows = found.rows.where("row_write <> ''").selectExpr(
            *map(quoted, names), PARTIAL, f"row_write = '{DROP}' AS {GONE}"
        )
        read = {one.name for one in found.folding.read}
        statement = partial(
            state_merges.merge,
            keys=[tables.RECORD_ID],
            columns=names,
            updates=names[1:],
            when=state_merges.forward(),
            removes=True,
            partial=PARTIAL,
            partly=[name for name in own if name not in read],
        )
        self._merge(found.entity, [rows], statement)

    def _keep_history(self, found: EntityOutcomes) -> None:
        keys = [tables.RECORD_ID, *tables.ORDER, "valid_from"]
        names = [*keys, "valid_to", "was_read", *(one.name for one in found.folding.layout.columns)]
        ends = found.rows.selectExpr("explode(past_closes) AS one").select("one.*")
        begins = found.rows.selectExpr("explode(past_opens) AS one").select("one.*")
        sources = [
            ends.selectExpr("*", f"valid_from = valid_to AS {GONE}"),
            begins.selectExpr("*", f"false AS {GONE}"),
        ]
        statement = partial(
            state_merges.merge,
            keys=keys,
            columns=names,
            updates=["valid_to"],
            # An interval that has ended is not open again.
            when="s.valid_to IS NOT NULL",
            removes=True,
        )
        self._merge(state_tables.history_name(found.entity), sources, statement)

    def _settled(self, drop_wide: str) -> DataFrame:
        """Select the kept events that are answered, except those that are kept again."""
        kept = self._state.set_aside(tables.KEPT)
        names = [*_KEY, *tables.EVENT_ORDER]
        settled = [f"settled_{part}" for part in ("generation", "batch_number", "ordinal")]
        rows = self._union(*_KEY, *settled, "kept_events", where="settled_generation IS NOT NULL")
        met = kept.select(*names).join(rows, on=_KEY)
        over = f"struct({', '.join(tables.EVENT_ORDER)}) <= struct({', '.join(settled)})"
        anew = " AND ".join(f"one.{name} = {name}" for name in tables.EVENT_ORDER)
        gone = met.where(f"{over} AND NOT exists(kept_events, one -> {anew})")
        found = [gone.select(*names)]
        if drop_wide:
            wide = kept.where(f"{tables.RECORD_ID} = '{WHOLE_ENTITY}'")
            found.append(wide.where(f"entity_name = '{drop_wide}'").select(*names))
        # Read first: a MERGE whose source reads its own target is more than Spark can plan for
        # Iceberg.
        rows = once(
            self._state.spark, together(found), f"{self._run.folder}/{_ANSWERED}", few=self._few
        )
        return rows.selectExpr("*", f"true AS {GONE}")

    def _merge(
        self,
        table: str,
        sources: Sequence[DataFrame],
        statement: Callable[[str, str], str],
    ) -> None:
        self._state.merge(table, together(sources), statement, writer=self._run.token)

    def _union(self, *names: str, where: str) -> DataFrame:
        """Union of the outcomes of all entities, with these columns and `entity_name`."""
        own = [name for name in names if name != "entity_name"]
        return together(
            [
                found.rows.where(where).selectExpr(f"'{found.entity}' AS entity_name", *own)
                for found in self._found
            ]
        )

    def _rows(self, rows: Sequence[Mapping[str, Any]], columns: str) -> DataFrame:
        return local_rows(self._state.spark, rows, columns)

    def _number(self, name: str) -> int:
        return sum(found.counts[name] for found in self._found)


def count_outcomes(rows: DataFrame) -> dict[str, int]:
    """Count the rows to write, and the results of events."""
    done = [f"coalesce(sum(fold_counts['{name}']), 0) AS {name}" for name in DONE]
    found = rows.selectExpr(
        "count_if(row_write <> '' OR row_bury) AS rows_written",
        f"count_if(row_write IN ('{PUT}', '{DROP}')) AS rows_changed",
        "count_if(row_bury) AS rows_buried",
        f"count_if(entry_write IN ('{PUT}', '{DROP}')) AS entries_changed",
        "count_if(size(kept_events) > 0) AS rows_kept",
        "count_if(settled_generation IS NOT NULL) AS rows_settled",
        "count_if(size(put_aside) > 0) AS rows_aside",
        *(f"count_if(read_answer = '{answer}') AS answer_{answer}" for answer in ANSWERS),
        *done,
    ).collect()[0]
    return {name: int(number) for name, number in found.asDict().items()}
