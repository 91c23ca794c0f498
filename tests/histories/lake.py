"""Tables of an apply in memory: the same decisions and order of writes, and a death after any."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_sfevents.spark.changes import progress_text, serial, snapshot_rules, tables
from airflow_provider_sfevents.spark.changes.entity import EntityPlan, EntityState, NewEntities
from airflow_provider_sfevents.spark.changes.plan import (
    check_first_batch,
    for_record,
    of_records,
    plan_batch,
    summarised,
)
from airflow_provider_sfevents.spark.changes.record import Known, Outcome, RecordState, fold
from airflow_provider_sfevents.spark.changes.resync_entries import WHOLE_ENTITY, ResyncEntry
from airflow_provider_sfevents.spark.changes.source import ChangeBatch, Progress, admit
from airflow_provider_sfevents.spark.changes.transactions import sort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.changes.order import EventOrder

Key = tuple[str, str]
Writes = dict[str, "list[Callable[[], object]]"]


@dataclass
class Lake:
    """All tables of one source.

    :param deletions: treatment of deleted rows.
    """

    deletions: Literal["delete", "flag"] = "delete"
    new_entities: NewEntities = "unseeded"
    rows: dict[Key, RecordState] = field(default_factory=dict)
    tombstones: dict[Key, RecordState] = field(default_factory=dict)
    resync: dict[Key, ResyncEntry] = field(default_factory=dict)
    kept: dict[tuple[str, str, EventOrder], str] = field(default_factory=dict)
    open_transaction: dict[EventOrder, Change] = field(default_factory=dict)
    seen: dict[str, EventOrder] = field(default_factory=dict)
    entities: dict[str, datetime | None] = field(default_factory=dict)
    unapplied: dict[tuple[str, EventOrder], str] = field(default_factory=dict)
    applied_through: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def state(self, key: Key) -> RecordState | None:
        row, tombstone = self.rows.get(key), self.tombstones.get(key)
        if row is None or tombstone is None:
            return row or tombstone
        return tombstone if tombstone.order > row.order else row

    def is_marked(self, key: Key) -> bool:
        return key in self.resync or (key[0], WHOLE_ENTITY) in self.resync

    @property
    def progress(self) -> Progress | None:
        return progress_text.from_text(self.applied_through) if self.applied_through else None

    @property
    def open_events(self) -> list[Change]:
        """The events of the open transaction."""
        progress = self.progress
        return [one for one in self.open_transaction.values() if _is_open(one, progress)]

    def present(self, entity: str) -> dict[str, Mapping[str, Any]]:
        """Records of the entity as a reader gets them."""
        keys = [key for key in self.rows if key[0] == entity]
        found = {key[1]: self.state(key) for key in keys}
        return {one: state.values for one, state in found.items() if state and not state.deleted}

    def apply(
        self,
        batch: ChangeBatch,
        arrived: Sequence[Change],
        layouts: Mapping[str, Layout],
        *,
        writes: int | None = None,
    ) -> bool:
        """Apply a batch; a job that dies after so many tables has not applied it.

        :return: True if the job came to its end.
        """
        admission = admit(progress := self.progress, batch)
        if admission.kind == "rerun":
            return True
        check_first_batch(progress, batch, self.new_entities)
        self._forget_unapplied(progress)
        ready = sort(self.open_events, arrived, self.seen, batch.ended_by)
        summary = summarised(arrived, ready)
        marked = [entity for entity, one in self.resync if one == WHOLE_ENTITY]
        states = {
            entity: EntityState(
                entity=entity,
                entry=self.resync.get((entity, WHOLE_ENTITY)),
                read_at=self.entities.get(entity),
            )
            for entity in (*self.entities, *marked)
        }
        plan = plan_batch(
            progress, batch, admission, summary, states, layouts, new_entities=self.new_entities
        )
        events: defaultdict[Key, list[Change]] = defaultdict(list)
        for entity, record_id, change in of_records(ready.released, plan.progress):
            events[entity, record_id].append(change)
        for entity, wide in plan.entities.items():
            for key in self._touched_by(entity, wide.prefix_updates, events):
                events[key] += for_record(key[1], wide.prefix_updates)
        outcomes = {
            key: fold(key[1], self._known(key, plan.entities[key[0]].state), found, layouts[key[0]])
            for key, found in events.items()
        }
        for outcome in outcomes.values():
            self.counts.update(outcome.counts)
        self.counts["repeats"] += len(ready.repeats)
        own = self._writes(outcomes)
        aside: list[Callable[[], object]] = [partial(self._keep_wide, plan.entities)]
        for role in ("kept", "unapplied", "tombstones"):
            aside += own.pop(role)
        place = (admission.generation, batch.batch_number)
        aside.append(partial(self._hold, ready.held, progress, place))
        own["set_aside"] = aside
        own["resync"].insert(0, partial(self._enter_wide, plan.entities))
        own["seen"] = [partial(self._see, ready.released)]
        open_from = ready.held[0].order if ready.held else None
        after = replace(plan.progress, open_from=open_from, deletions=self.deletions)
        own["applied_through"] = [
            partial(self._know, plan.entities),
            partial(self._advance, progress_text.to_text(after)),
        ]
        return self._write(tables.APPLY_ORDER, own, writes)

    def resolve(
        self,
        entity: str,
        records: Mapping[str, Mapping[str, Any]],
        deleted_ids: Iterable[str],
        read_at: datetime,
        layout: Layout,
        *,
        whole: bool,
        writes: int | None = None,
    ) -> dict[str, str]:
        """Apply a snapshot.

        :return: the result for each record; empty if the job died.
        """
        progress = self.progress
        entry = self.resync.get((entity, WHOLE_ENTITY))
        state = (
            EntityState(entity=entity, entry=entry, read_at=self.entities.get(entity))
            if entity in self.entities or entry is not None
            else None
        )
        lifted = snapshot_rules.lift(state, progress, read_at, entity=entity, whole=whole)
        ids = {*records, *deleted_ids} | (self._ids(entity) if whole else set())
        answers: dict[str, str] = {}
        outcomes: dict[Key, Outcome] = {}
        for record_id in ids:
            key = (entity, record_id)
            before = EntityState(entity=entity, entry=entry)
            resolved = snapshot_rules.fold_snapshot(
                record_id,
                self._known(key, before),
                self._kept_for(key),
                records.get(record_id),
                read_at,
                layout,
            )
            answers[record_id] = resolved.answer
            outcomes[key] = resolved.outcome
        own = self._writes(outcomes)
        own["entities"] = [partial(self.entities.update, {entity: lifted.read_at})]
        if whole:
            own["resync"].append(partial(self.resync.pop, (entity, WHOLE_ENTITY), None))
            own["kept"].append(partial(self._drop_wide, entity))
        return answers if self._write(tables.SNAPSHOT_ORDER, own, writes) else {}

    def _write(self, order: Sequence[str], own: Writes, writes: int | None) -> bool:
        for name in order[:writes]:
            for write in own.get(name, ()):
                write()
        return writes is None or writes >= len(order)

    def _writes(self, outcomes: Mapping[Key, Outcome]) -> Writes:
        """Writes about records, by table."""
        of = {
            "kept": self._keep,
            "resync": self._entry,
            "unapplied": self._put_aside,
            "tombstones": self._bury,
            "rows": self._put,
        }
        return {
            name: [partial(put, key, outcome) for key, outcome in outcomes.items()]
            for name, put in of.items()
        }

    def _known(self, key: Key, entity: EntityState) -> Known:
        return Known(
            state=self.state(key),
            entry=self.resync.get(key),
            entity_entry=entity.entry,
            entity_read_at=entity.read_at,
        )

    def _ids(self, entity: str) -> set[str]:
        keys = {*self.rows, *self.tombstones, *self.resync, *(key[:2] for key in self.kept)}
        return {one for of, one in keys if of == entity and not one.endswith("*")}

    def _touched_by(
        self, entity: str, prefix_updates: Sequence[Change], events: Mapping[Key, object]
    ) -> list[Key]:
        known = self._ids(entity) | {one for of, one in events if of == entity}
        return [(entity, one) for one in known if for_record(one, prefix_updates)]

    def _kept_for(self, key: Key) -> list[Change]:
        own = [serial.from_text(text) for (*of, _), text in self.kept.items() if tuple(of) == key]
        wide = [
            serial.from_text(text)
            for (entity, one, _), text in self.kept.items()
            if entity == key[0] and one == WHOLE_ENTITY
        ]
        return own + for_record(key[1], wide)

    def _keep(self, key: Key, outcome: Outcome) -> None:
        settled = outcome.settled
        if settled is not None:
            for one in [one for one in self.kept if one[:2] == key and one[2] <= settled]:
                del self.kept[one]
        for change in outcome.kept:
            self.kept[(*key, change.order)] = serial.to_text(change)

    def _keep_wide(self, plans: Mapping[str, EntityPlan]) -> None:
        for entity, plan in plans.items():
            for change in plan.kept:
                self.kept[entity, WHOLE_ENTITY, change.order] = serial.to_text(change)

    def _drop_wide(self, entity: str) -> None:
        for one in [one for one in self.kept if one[:2] == (entity, WHOLE_ENTITY)]:
            del self.kept[one]

    def _entry(self, key: Key, outcome: Outcome) -> None:
        if outcome.entry is None:
            self.resync.pop(key, None)
        else:
            self.resync[key] = outcome.entry

    def _enter_wide(self, plans: Mapping[str, EntityPlan]) -> None:
        for entity, plan in plans.items():
            if plan.state.entry is not None:
                self.resync[entity, WHOLE_ENTITY] = plan.state.entry

    def _put_aside(self, key: Key, outcome: Outcome) -> None:
        for change, reason in outcome.quarantined:
            self.unapplied[key[0], change.order] = reason

    def _bury(self, key: Key, outcome: Outcome) -> None:
        if self.deletions == "delete" and outcome.state is not None and outcome.state.deleted:
            self.tombstones[key] = replace(outcome.state, values={})

    def _put(self, key: Key, outcome: Outcome) -> None:
        if outcome.state is None:
            return
        if outcome.state.deleted and self.deletions == "delete":
            self.rows.pop(key, None)
        else:
            self.rows[key] = outcome.state

    def _know(self, plans: Mapping[str, EntityPlan]) -> None:
        for entity in plans:
            self.entities.setdefault(entity, None)

    def _forget_unapplied(self, progress: Progress | None) -> None:
        """Remove the identities of a batch whose job died."""
        last = (0, 0) if progress is None else (progress.generation, progress.batch_number)
        self.seen = {one: order for one, order in self.seen.items() if order[:2] <= last}

    def _see(self, released: Iterable[Change]) -> None:
        for change in released:
            if change.identity:
                self.seen.setdefault(change.identity, change.order)

    def _hold(
        self, held: Iterable[Change], progress: Progress | None, place: tuple[int, int]
    ) -> None:
        for order, change in list(self.open_transaction.items()):
            if not _is_open(change, progress) and order[:2] != place:
                del self.open_transaction[order]
        self.open_transaction |= {one.order: one for one in held}

    def _advance(self, text: str) -> None:
        self.applied_through = text


def _is_open(change: Change, progress: Progress | None) -> bool:
    """Tell whether an event belongs to the open transaction."""
    if progress is None or progress.open_from is None:
        return False
    last = (progress.generation, progress.batch_number)
    return progress.open_from <= change.order and change.order[:2] <= last
