"""Rules by which an entity snapshot repairs records and answers resync entries.

Rows are replaced, then kept events that are newer than the read are applied. A new table is filled
in the same way from a read of the whole entity. If the read is of the whole entity, records that it
does not contain are deleted. `read_at` is when the read *began*, by the org's clock:
everything committed a second before it is in the read, whatever page it came with. What was
committed since may be in it or not; it is applied again, which changes nothing if it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.entity import EntityState
from airflow_provider_sfevents.spark.changes.event import CLOCK_GRAIN
from airflow_provider_sfevents.spark.changes.order import ORIGIN
from airflow_provider_sfevents.spark.changes.record import Known, Outcome, RecordState, fold
from airflow_provider_sfevents.spark.changes.resync_entries import together

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.changes.order import EventOrder
    from airflow_provider_sfevents.spark.changes.resync_entries import ResyncEntry
    from airflow_provider_sfevents.spark.changes.source import Progress

Answer = Literal["replaced", "deleted", "absent", "newer", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOutcome:
    """Result of an entity snapshot for one record.

    :param answer: `absent`: it was deleted before. `newer`: the record stays as it is, because it
        has no entry and has an event that the read may not contain. `refused`: the record and its
        entry stay as they are, because the read began before the last cause of the entry.
    :param outcome: `settled` is the order up to which kept events are answered. If a kept event
        cannot be applied, the record stays as it was read and is marked with the reason, and `kept`
        has the events that are still kept.
    """

    answer: Answer
    outcome: Outcome


def lift(
    state: EntityState | None,
    progress: Progress | None,
    read_at: datetime,
    *,
    entity: str,
    whole: bool,
) -> EntityState:
    """Decide whether a read may be used for an entity, and make the entity's state after it.

    Called before any record is changed.

    :param state: None: no event of the entity was ever applied.
    :param progress: of the source that feeds the table; None: nothing was ever applied.
    :param whole: the read is of all records of the entity.
    :raises ConfigurationError: it may not; the message says what to do.
    """
    if progress is None:
        raise ConfigurationError(
            f"An entity snapshot of {entity} cannot be applied yet: no batch was applied to these "
            "tables, so the order of events and read is not known. Apply the first batch (it may "
            "be empty), then read and apply the snapshot."
        )
    # A change that lies between such a read and what was heard would be missing forever, and an
    # unknown entity has no resync entry.
    _check_read(entity, "has been followed without a gap only since", progress.heard_since, read_at)
    if state is None:
        state = EntityState(entity=entity)
        if not whole:
            raise ConfigurationError(
                f"{entity} has no table yet: fill it from a read of all its records (`full`)."
            )
    if state.entry is not None:
        reasons = ", ".join(state.entry.reasons)
        if not whole:
            raise ConfigurationError(
                f"{entity} is marked as a whole ({reasons}): single records do not answer that. "
                "Read all of them, and say that the read is full."
            )
        _check_read(entity, f"was last marked ({reasons}) at", state.entry.cause_at, read_at)
    if state.read_at is not None and read_at < state.read_at:
        raise ConfigurationError(
            f"The read of {entity} began at {read_at.isoformat()}, before the full one that "
            f"was applied last ({state.read_at.isoformat()}): it knows less. Nothing was changed. "
            "Read again, and apply the new read."
        )
    return replace(state, entry=None, read_at=read_at) if whole else state


def fold_snapshot(
    record_id: str,
    known: Known,
    kept: Collection[Change],
    values: Mapping[str, Any] | None,
    read_at: datetime,
    layout: Layout,
    *,
    with_history: bool = False,
) -> SnapshotOutcome:
    """Replace a record by the one that was read, then apply the kept events that are newer.

    :param known: as before the read, with the entity's entry if the read answers it.
    :param kept: what was kept for the record, and what was kept for the entity and has a prefix
        that its id begins with.
    :param values: that were read, by column of the entity's table; None: the record is deleted, or
        a full read did not bring it.
    :param read_at: when the read began; aware, by the org's clock.
    """
    superseded = _superseded(known)
    refusal = _refusal(known, superseded, read_at)
    if refusal is not None:
        still = tuple(one.of(record_id) for one in kept if refusal.holds_back(one.order))
        outcome = Outcome(state=known.state, entry=refusal, kept=still)
        return SnapshotOutcome(answer="refused", outcome=outcome)
    base, answer = _base(known.state, superseded, values, read_at, layout)
    waiting = [one for one in kept if superseded < one.order]
    after = fold(record_id, Known(state=base), waiting, layout, with_history=with_history)
    read_states = (base,) if with_history and base is not known.state else ()
    if after.entry is not None:
        # Half applied, a job that dies now and runs anew could not tell what was left to do.
        outcome = replace(
            after,
            state=base,
            entry=replace(after.entry, since=superseded),
            kept=tuple(one.of(record_id) for one in waiting),
            settled=superseded,
            passed=read_states,
        )
        return SnapshotOutcome(answer=answer, outcome=outcome)
    last = max((base.order, *(one.order for one in kept)))
    state = after.state or base
    outcome = replace(
        after,
        # A record that stays as it is is not written again.
        state=replace(state, order=last) if state.order < last else state,
        settled=last,
        passed=(*read_states, *after.passed),
    )
    return SnapshotOutcome(answer=answer, outcome=outcome)


def _superseded(known: Known) -> EventOrder:
    """Return the order of the last event that the read surely contains."""
    entries = (entry for entry in (known.entry, known.entity_entry) if entry is not None)
    return max((ORIGIN, *(entry.last for entry in entries)))


def _refusal(known: Known, superseded: EventOrder, read_at: datetime) -> ResyncEntry | None:
    """Return the entry that the read does not answer, because it began too early."""
    entry, state = known.entry, known.state
    if entry is not None and not entry.is_answered_by(read_at):
        return together(entry, known.entity_entry)
    whole = together(entry, known.entity_entry)
    if whole is None or state is None or state.order > superseded:
        return None
    # A read of before, which this one is older than, answered the entry already.
    if state.read_at is not None and whole.is_answered_by(state.read_at):
        return None
    # The record has an event from before the cause that was committed after it, as the servers'
    # clocks say, and after the read.
    if state.committed_at + CLOCK_GRAIN > read_at:
        return replace(whole, cause_at=max(whole.cause_at, state.committed_at))
    return None


def _base(
    state: RecordState | None,
    superseded: EventOrder,
    values: Mapping[str, Any] | None,
    read_at: datetime,
    layout: Layout,
) -> tuple[RecordState, Answer]:
    if state is not None and state.committed_at + CLOCK_GRAIN > read_at:
        return state, "newer"
    order = max(superseded, state.order) if state else superseded
    gone = values is None
    if gone and state is not None and state.deleted:
        # Its tombstone goes when the deletion is old enough, however often it is missed by a read.
        return replace(state, order=order, read_at=read_at), "absent"
    row = (state.values if state else {}) if values is None else layout.row(values)
    base = RecordState(values=row, deleted=gone, order=order, committed_at=read_at, read_at=read_at)
    return base, "deleted" if gone else "replaced"


def _check_read(entity: str, what: str, moment: datetime, read_at: datetime) -> None:
    if moment + CLOCK_GRAIN > read_at:
        raise ConfigurationError(
            f"The read of {entity} began at {read_at.isoformat()}, but {entity} {what} "
            f"{moment.isoformat()}, and the read may lack what was "
            "changed then. Nothing was changed. Read again (at least a second after that time), "
            "and apply the new read."
        )
