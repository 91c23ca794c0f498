"""One record and the events about it, in their order.

What becomes of its row, its entry and its kept events.

The first rule that fits decides about an event (repeats are gone already, see `transactions`):

1. it stands at or before the record's last event: *old*, nothing changes;
2. it was surely committed before the record was last read as a whole: *contained* in what was read,
   nothing changes;
3. it cannot be decoded, or is of an unknown type: *quarantined*, and the record is marked;
4. a gap event marks the record;
5. a deletion applies at once and settles the record: no entry, no kept event is left. If it is
   *late* (rule 7), it marks instead;
6. the record or its entity is marked: the event is *kept*;
7. it came after reading had begun again elsewhere, and is older than the record: *late*, it marks
   the record and is not applied;
8. it is applied. An UPDATE of a record that is not there, or is deleted, marks it `no_base` and
   writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_sfevents.spark.changes import fields as of_fields
from airflow_provider_sfevents.spark.changes.event import DELETIONS, GAPS, KNOWN_TYPES, WHOLE_ROW
from airflow_provider_sfevents.spark.changes.resync_entries import (
    Reason,
    ResyncEntry,
    cause,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.changes.order import EventOrder

Done = Literal[
    "applied",
    "deleted",
    "absent",
    "kept",
    "gap",
    "late",
    "no_base",
    "old",
    "contained",
    "quarantined",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordState:
    """State of a record in the tables: its row, or the tombstone of a deleted one.

    :param values: by column; a flagged row keeps its last ones, a tombstone has none.
    :param order: of its last event.
    :param committed_at: latest commit time among its events, or the time of the read if that is
        later.
    :param read_at: when it was last read as a whole; None: never.
    """

    values: Mapping[str, Any]
    deleted: bool
    order: EventOrder
    committed_at: datetime
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that is known of a record before the events.

    :param state: None: neither row nor tombstone.
    :param entry: the record's own.
    :param entity_entry: its entity's.
    :param entity_read_at: when the whole entity was last read; a record without a state was not
        there then.
    """

    state: RecordState | None = None
    entry: ResyncEntry | None = None
    entity_entry: ResyncEntry | None = None
    entity_read_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Changes of the tables about one record.

    :param state: after the events; written if it differs from the state before.
    :param entry: after the events; None: the record has no entry.
    :param kept: events to be kept for it, besides those that are kept already.
    :param settled: kept events up to this order need not be kept any longer.
    :param quarantined: events that count for nothing, each with the reason.
    :param passed: the states that it went through, if they were asked for: for the history table.
    """

    state: RecordState | None
    entry: ResyncEntry | None
    kept: tuple[Change, ...] = ()
    settled: EventOrder | None = None
    quarantined: tuple[tuple[Change, str], ...] = ()
    counts: Mapping[Done, int] = field(default_factory=dict)
    passed: tuple[RecordState, ...] = ()


def fold(
    record_id: str,
    known: Known,
    events: Iterable[Change],
    layout: Layout,
    *,
    with_history: bool = False,
) -> Outcome:
    """Apply events about one record, and changes of a whole prefix that its id begins with.

    :param events: in any order; of several with one order, which are one event, one counts.
    """
    record = _Record(record_id, known, layout, with_history=with_history)
    for _, change in sorted({one.order: one for one in events}.items()):
        record.take(change)
    return record.outcome()


class _Record:
    def __init__(self, record_id: str, known: Known, layout: Layout, *, with_history: bool) -> None:
        self._id = record_id
        self._known = known
        self._layout = layout
        self._with_history = with_history
        self._state = known.state
        self._entry = known.entry
        self._kept: list[Change] = []
        self._settled: EventOrder | None = None
        self._quarantined: list[tuple[Change, str]] = []
        self._counts: dict[Done, int] = {}
        self._passed: list[RecordState] = []

    def outcome(self) -> Outcome:
        return Outcome(
            state=self._state,
            entry=self._entry,
            kept=tuple(self._kept),
            settled=self._settled,
            quarantined=tuple(self._quarantined),
            counts=self._counts,
            passed=tuple(self._passed),
        )

    def take(self, change: Change) -> None:
        done = self._done(change)
        self._counts[done] = self._counts.get(done, 0) + 1

    def _done(self, change: Change) -> Done:
        if self._state is not None and change.order <= self._state.order:
            return "old"
        if self._contains(change):
            return "contained"
        if reason := self._defect(change):
            return self._put_aside(change, *reason)
        if change.change_type in DELETIONS:
            return self._deleted(change)
        if change.change_type in GAPS:
            return self._put_in_doubt("gap", change)
        return self._held_back(change) if self._is_marked(change) else self._applied(change)

    def _put_in_doubt(self, reason: Literal["gap", "late", "no_base"], change: Change) -> Done:
        self._enter(reason, change)
        return reason

    def _held_back(self, change: Change) -> Done:
        self._kept.append(change.of(self._id))
        return "kept"

    def _contains(self, change: Change) -> bool:
        read_at = self._state.read_at if self._state else self._known.entity_read_at
        return read_at is not None and change.surely_before(read_at)

    def _defect(self, change: Change) -> tuple[Reason, str] | None:
        if change.change_type not in KNOWN_TYPES and not (change.defect and not change.change_type):
            return "unknown_type", f"change type {change.change_type!r} is not known"
        if change.defect:
            return "undecodable", change.defect
        if change.change_type == "UPDATE" and (missing := self._layout.missing(change)):
            return "undecodable", f"the table has no column for the field {missing}"
        return None

    def _put_aside(self, change: Change, reason: Reason, detail: str) -> Done:
        self._quarantined.append((change, detail))
        self._enter(reason, change, detail)
        return "quarantined"

    def _is_marked(self, change: Change) -> bool:
        entries = (self._entry, self._known.entity_entry)
        return any(entry is not None and entry.holds_back(change.order) for entry in entries)

    def _is_late(self, change: Change) -> bool:
        return (
            change.suspect
            and self._state is not None
            and change.committed_at < self._state.committed_at
        )

    def _deleted(self, change: Change) -> Done:
        if self._is_late(change):
            return self._put_in_doubt("late", change)
        values = self._state.values if self._state else {}
        self._advance(change, values, deleted=True)
        self._settled = change.order
        self._kept.clear()
        # An entry that begins later was left by a run that died, and is about events still to come.
        if self._entry is not None and self._entry.holds_back(change.order):
            self._entry = None
        return "deleted"

    def _applied(self, change: Change) -> Done:
        is_there = self._state is not None and not self._state.deleted
        if change.updates_a_prefix and not is_there:
            return "absent"
        if self._is_late(change):
            return self._put_in_doubt("late", change)
        if change.change_type in WHOLE_ROW:
            self._advance(change, self._layout.row(change.values), deleted=False)
            return "applied"
        if self._state is None or not is_there:
            return self._put_in_doubt("no_base", change)
        values, problems = of_fields.updated(self._layout, self._state.values, change)
        self._advance(change, values, deleted=False)
        for name, problem in problems.items():
            self._enter(problem.reason, change, f"{name}: {problem.detail}")
        return "applied"

    def _enter(self, reason: Reason, change: Change, detail: str = "") -> None:
        at = change.committed_at
        if self._state is not None:
            at = max(at, self._state.committed_at)
        self._entry = together(self._entry, cause(change.order, at, reason, detail))

    def _advance(self, change: Change, values: Mapping[str, Any], *, deleted: bool) -> None:
        before = self._state
        self._state = RecordState(
            values=values,
            deleted=deleted,
            order=change.order,
            committed_at=max(change.committed_at, before.committed_at)
            if before
            else change.committed_at,
            # Where it is met for the first time, it was not there when the whole entity was read.
            read_at=before.read_at if before else self._known.entity_read_at,
        )
        if self._with_history:
            passed = replace(self._state, committed_at=change.committed_at, read_at=None)
            self._passed.append(passed)
