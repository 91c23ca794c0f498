"""Events about an entity as a whole, which the driver handles before any record is folded.

There are few: overflows, wildcards, gaps without a record id, and events that cannot be read. Each
either updates fields of all records of a prefix, or marks the entity; from its order on, all other
events of a marked entity are kept. Deletions are not kept: they apply to their records at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from airflow_provider_sfevents.spark.changes.event import GAPS, KNOWN_TYPES, OVERFLOW
from airflow_provider_sfevents.spark.changes.order import ORIGIN
from airflow_provider_sfevents.spark.changes.resync_entries import (
    Reason,
    ResyncEntry,
    cause,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout

NewEntities = Literal["unseeded", "empty"]
"""State of an entity before its first event: unknown until an entity snapshot, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityState:
    """State of an entity as a whole.

    :param entry: of the entity; its records may have entries of their own.
    :param read_at: when it was last read in full; None: never.
    """

    entity: str
    entry: ResyncEntry | None = None
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPlan:
    """Effect of a batch on an entity as a whole, which the fold of each record needs.

    :param state: as it is after the batch; records are folded with its entry and its `read_at`.
    :param prefix_updates: updates of all records of a prefix, to be folded into every record whose
        id begins with it.
    :param kept: updates of all records of a prefix that are kept for records that are not known
        yet.
    :param quarantined: events that count for nothing, each with the reason.
    """

    state: EntityState
    prefix_updates: tuple[Change, ...] = ()
    kept: tuple[Change, ...] = ()
    quarantined: tuple[tuple[Change, str], ...] = ()


def unseeded(entity: str, first_at: datetime) -> EntityState:
    """Make the state of an entity whose first event has come.

    Its records are unknown until an entity snapshot has read them all, so it is marked for one.

    :param first_at: commit time of its first event; the read must have begun after that, since what
        happened before was not delivered.
    """
    return EntityState(entity=entity, entry=cause(ORIGIN, first_at, "unseeded"))


def plan_entity(
    state: EntityState, opening_entry: ResyncEntry | None, events: Iterable[Change], layout: Layout
) -> EntityPlan:
    """Decide the effect of a batch on an entity as a whole.

    :param opening_entry: what the batch's beginning marks (`source.opening`).
    :param events: those parts of the released events that are about the entity (`Change.parts`),
        overflows at their transactions' end.
    """
    entry = together(state.entry, opening_entry)
    prefix_updates: list[Change] = []
    kept: list[Change] = []
    quarantined: list[tuple[Change, str]] = []
    for change in sorted(events, key=lambda one: one.order):
        if state.read_at is not None and change.surely_before(state.read_at):
            continue
        if change.updates_a_prefix and not layout.missing(change):
            is_held = entry is not None and entry.holds_back(change.order)
            if not is_held:
                prefix_updates.append(change)
            # Until the first full snapshot, one may bring unknown records as they were before this
            # event.
            if is_held or state.read_at is None:
                kept.append(change)
            continue
        reason, detail = _why(change, layout)
        entry = together(entry, cause(change.order, change.committed_at, reason, detail))
        if reason in {"unknown_type", "undecodable"}:
            quarantined.append((change, detail))
    return EntityPlan(
        state=replace(state, entry=entry),
        prefix_updates=tuple(prefix_updates),
        kept=tuple(kept),
        quarantined=tuple(quarantined),
    )


def _why(change: Change, layout: Layout) -> tuple[Reason, str]:
    if change.change_type and change.change_type not in KNOWN_TYPES:
        return "unknown_type", f"change type {change.change_type!r} is not known"
    if change.defect:
        return "undecodable", change.defect
    if change.change_type == OVERFLOW:
        return "overflow", ""
    if change.change_type in GAPS | {"GAP_DELETE"}:
        return "gap", f"{change.change_type} of {', '.join(change.record_ids) or 'no record'}"
    if change.updates_a_prefix:
        return "undecodable", f"the table has no column for the field {layout.missing(change)}"
    return "wildcard", f"{change.change_type} of {', '.join(change.record_ids) or 'no record'}"
