"""What a run writes, table by table, from what was folded: nothing where there is nothing to write, one commit otherwise."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.marks import WHOLE_ENTITY
from airflow_provider_sfevents.spark.current_state import state_merges, state_tables
from airflow_provider_sfevents.spark.current_state.fold_records import DROP
from airflow_provider_sfevents.spark.current_state.frames import local_rows, once, together
from airflow_provider_sfevents.spark.current_state.state_rows import (
    MARK_NAMES,
    ROW_NAMES,
    kept_row,
    mark_row,
    unapplied_row,
)
from airflow_provider_sfevents.spark.schema.envelope import GONE
from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.marks import Mark
    from airflow_provider_sfevents.spark.current_state.apply_run import Run
    from airflow_provider_sfevents.spark.current_state.fold_outcomes import Found


_KEY = ["entity_name", tables.RECORD_ID]
_ORDER = ["event_generation", "event_sequence", "event_ordinal"]
_ANSWERED = "_answered"


class Commits:
    """The commits of one run, made in the order of the tables."""

    def __init__(self, run: Run, found: Sequence[Found]) -> None:
        self._run = run
        self._state = run.state
        self._found = found
        self._few = all(one.few for one in found)
        self._writes: dict[str, list[tuple[str, Callable[[], None]]]] = {}

    def run(self, order: Sequence[str]) -> set[str]:
        """:returns: names (of the order) of what was written."""
        for name in order:
            for table, write in self._writes.get(name, ()):
                about = name if table == name else f"{name} {table}"
                steps.reached(steps.APPLY_COMMIT, about)
                self._run.commit(write)
                steps.reached(steps.APPLY_COMMITTED, about)
        return set(self._writes)

    def add(self, name: str, write: Callable[[], None], table: str = "") -> None:
        self._writes.setdefault(name, []).append((table or name, write))

    def of_records(self) -> None:
        """All that outcomes say, but for what is added to it (`kept`, `resync`, `unapplied`)."""
        if self._number("rows_buried"):
            self.add("tombstones", self._bury)
        for found in self._found:
            if found.counts["rows_changed"]:
                self.add("rows", partial(self._put, found), found.entity)
            if self._run.history and found.counts["rows_written"]:
                self.add("history", partial(self._keep_history, found), found.entity)

    def kept(self, wide: Mapping[str, Sequence[Change]], drop_wide: str = "") -> None:
        """:param drop_wide: entity of which nothing is kept any more as a whole."""
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
        if sources:
            self.add("kept", partial(self._keep, sources))

    def resync(self, wide: Mapping[str, Mark], gone: Mapping[str, Mark]) -> None:
        """Write marks of records, and these of entities.

        :param wide: marks that are new or changed; `gone`: those that go, as they were found.
        """
        sources: list[DataFrame] = []
        names = [*_KEY, *MARK_NAMES]
        if self._number("marks_changed"):
            rows = self._union(*_KEY, "mark_write", *MARK_NAMES, where="mark_write <> ''")
            sources.append(rows.selectExpr(*names, f"mark_write = '{DROP}' AS {GONE}"))
        given: list[dict[str, Any]] = [
            {
                "entity_name": entity,
                tables.RECORD_ID: WHOLE_ENTITY,
                **mark_row(mark),
                GONE: is_gone,
            }
            for marks, is_gone in ((wide, False), (gone, True))
            for entity, mark in marks.items()
        ]
        if given:
            sources.append(self._rows(given, f"{tables.RESYNC_SQL}, {GONE} boolean"))
        if sources:
            statement = partial(
                state_merges.merge,
                keys=_KEY,
                columns=names,
                updates=MARK_NAMES,
                when=state_merges.forward(state_merges.MARK_ORDER),
                removes=True,
            )
            self.add("resync", partial(self._merge, state_tables.RESYNC, sources, statement))

    def unapplied(self, wide: Sequence[tuple[Change, str]]) -> None:
        sources: list[DataFrame] = []
        names = ["entity_name", *_ORDER, "quarantine_reason", "event_text"]
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
            statement = partial(state_merges.merge, keys=keys, columns=names)
            self.add("unapplied", partial(self._merge, state_tables.UNAPPLIED, [rows], statement))

    def entities(self, read: Mapping[str, Any], *, replace: bool = False) -> None:
        """:param read: when each was last read in full; those that are there stay as they are unless they are to be replaced."""
        if not read:
            return
        given = [{"entity_name": entity, tables.READ_AT: at} for entity, at in read.items()]
        statement = partial(
            state_merges.merge,
            keys=["entity_name"],
            columns=["entity_name", tables.READ_AT],
            updates=[tables.READ_AT] if replace else [],
            when=f"t.{tables.READ_AT} IS NULL OR t.{tables.READ_AT} <= s.{tables.READ_AT}",
        )
        rows = self._rows(given, tables.ENTITIES_SQL)
        self.add("entities", partial(self._merge, state_tables.ENTITIES, [rows], statement))

    def _put(self, found: Found) -> None:
        names = [*ROW_NAMES, *(column.name for column in found.layout.columns)]
        rows = found.rows.where("row_write <> ''").selectExpr(
            *map(quoted, names), f"row_write = '{DROP}' AS {GONE}"
        )
        statement = partial(
            state_merges.merge,
            keys=[tables.RECORD_ID],
            columns=names,
            updates=names[1:],
            when=state_merges.forward(),
            removes=True,
        )
        self._merge(found.entity, [rows], statement)

    def _bury(self) -> None:
        own = [tables.RECORD_ID, *tables.ORDER, tables.COMMITTED_AT, tables.READ_AT]
        rows = self._union("entity_name", *own, where="row_bury")
        statement = partial(
            state_merges.merge,
            keys=_KEY,
            columns=["entity_name", *own],
            updates=own[1:],
            when=state_merges.forward(),
        )
        self._merge(state_tables.TOMBSTONES, [rows], statement)

    def _keep_history(self, found: Found) -> None:
        keys = [tables.RECORD_ID, *tables.ORDER, "valid_from"]
        names = [*keys, "valid_to", "was_read", *(one.name for one in found.layout.columns)]
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
        """Kept events that are answered, but for those that are kept anew."""
        kept = self._state.rows(state_tables.KEPT, tables.KEPT_SQL)
        names = [*_KEY, *_ORDER]
        settled = [f"settled_{part}" for part in ("generation", "sequence", "ordinal")]
        rows = self._union(*_KEY, *settled, "kept_events", where="settled_generation IS NOT NULL")
        met = kept.select(*names).join(rows, on=_KEY)
        over = f"struct({', '.join(_ORDER)}) <= struct({', '.join(settled)})"
        anew = " AND ".join(f"one.{name} = {name}" for name in _ORDER)
        gone = met.where(f"{over} AND NOT exists(kept_events, one -> {anew})")
        found = [gone.select(*names)]
        if drop_wide:
            wide = kept.where(f"{tables.RECORD_ID} = '{WHOLE_ENTITY}'")
            found.append(wide.where(f"entity_name = '{drop_wide}'").select(*names))
        # Read first: a MERGE whose source reads its own target is more than Spark can plan for Iceberg.
        rows = once(
            self._state.spark, together(found), f"{self._run.folder}/{_ANSWERED}", few=self._few
        )
        return rows.selectExpr(
            "*",
            f"cast(null AS timestamp) AS {tables.COMMITTED_AT}",
            "cast(null AS string) AS event_text",
            f"true AS {GONE}",
        )

    def _keep(self, sources: Sequence[DataFrame]) -> None:
        names = [*_KEY, *_ORDER, tables.COMMITTED_AT, "event_text"]
        statement = partial(
            state_merges.merge, keys=names[:5], columns=names, updates=names[5:], removes=True
        )
        self._merge(state_tables.KEPT, sources, statement)

    def _merge(
        self,
        table: str,
        sources: Sequence[DataFrame],
        statement: Callable[[str, str], str],
    ) -> None:
        self._run.merge(table, together(sources), statement)

    def _union(self, *names: str, where: str) -> DataFrame:
        """These columns of the outcomes of all entities, `entity_name` among them."""
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
