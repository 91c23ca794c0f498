"""Source of a set of tables, its progress, and the admission of the next batch.

1. A table is fed by one source: one topic, read by one consumer in one org. Another is refused.
2. Batches are applied by their number. A batch that was applied before changes nothing; a batch
   that skips others is refused.
3. A new epoch begins with its first batch. From then on, batches of the epoch before it that were
   never applied are refused.
4. A batch joins the one before it if it begins at the replay id where that one ended; replay ids
   are compared for equality only. If it does not join, events may be delivered again, and some may
   be lost. None is lost if the first event has been seen before, because reading then began at or
   before the point where it had stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.spark.changes.order import EventOrder, before_batch
from airflow_provider_sfevents.spark.changes.resync_entries import ResyncEntry, cause

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSource:
    """Org (id in 18 characters), consumer and topic that feed the tables."""

    org_id: str
    consumer: str
    topic: str

    # Spark's Python may lack typing_extensions, which has `override`.
    def __str__(self) -> str:  # type: ignore[explicit-override]
        return f"{self.topic} read by {self.consumer} in org {self.org_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBatch:
    """Facts of a batch's manifest that its apply needs.

    :param start: replay point that its first event follows: a replay id in hex, `earliest` or
        `latest`.
    :param end: replay id of its last event, hex; of an empty batch: its start.
    :param ended_by: as in the manifest; `idle_seconds` is silence, all others are bounds.
    :param opened_at: time at which it was staged (`created_at`); its start was known before that.
    :param losses: why events may be missing before it, one text for each loss window.
    """

    source: ChangeSource
    epoch: str
    batch_number: int
    start: str
    end: str
    ended_by: str
    opened_at: datetime
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A batch that did not join the one before it, and the events since then.

    :param order: place right before the first event after the break.
    :param high_water: latest commit time that was applied before the break; None: there was none.
    """

    order: EventOrder
    high_water: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a source: `applied_through`, written after all other tables.

    :param end: replay id that the last batch ended at.
    :param high_water: latest commit time of all events that were applied or kept.
    :param heard_since: no event after this time is known to be missing. It is the commit time of
        the first event, after a loss that of the first event behind it; without an event, the time
        at which the first batch was staged. An entity snapshot that began earlier may lack changes
        that no event reports.
    :param past: last batch number applied of each earlier epoch.
    :param unproven: the last batch did not join, and no event has come since to show whether events
        were lost.
    :param is_whole: no loss is known since the first batch.
    :param deletions: what becomes of a deleted record's row: `delete` or `flag`.
    :param open_from: order of the first event of the open transaction; None: there is none.
    """

    source: ChangeSource
    generation: int
    epoch: str
    batch_number: int
    end: str
    heard_since: datetime
    high_water: datetime | None = None
    past: Mapping[str, int] = field(default_factory=dict)
    unproven: bool = False
    is_whole: bool = True
    last_break: Break | None = None
    deletions: str = "delete"
    open_from: EventOrder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Admission of a batch to its tables.

    :param kind: `rerun`: it has been applied, and there is nothing to do; `next`: it is to be
        applied.
    :param generation: of its events (`EventOrder`).
    :param joins: it begins where the last one ended; the first batch of all joins.
    """

    kind: Literal["rerun", "next"]
    generation: int
    joins: bool = True


def admit(progress: Progress | None, batch: ChangeBatch) -> Admission:
    """Decide whether a batch is the next one to apply, was applied before, or is refused.

    :param progress: None: nothing was ever applied to these tables.
    :raises PositionConflictError: the tables are fed by another source; batches before this one are
        missing; or its epoch is over.
    """
    if progress is None:
        return Admission(kind="next", generation=1)
    if progress.source != batch.source:
        raise PositionConflictError(
            f"These tables are fed by {progress.source}; this is {batch.source}. There is no order "
            "between the events of the two, so give it a root of its own."
        )
    applied = {**progress.past, progress.epoch: progress.batch_number}.get(batch.epoch)
    if applied is not None and batch.batch_number <= applied:
        return Admission(kind="rerun", generation=0)
    if batch.epoch in progress.past:
        raise PositionConflictError(
            f"Batch {batch.epoch}-{batch.batch_number} of {batch.source} was never applied, and "
            f"its epoch is over: later batches were applied in epoch {progress.epoch}. The records "
            "that it would have changed have resync entries; run an entity snapshot of each entity "
            "that has one."
        )
    expected = progress.batch_number + 1 if batch.epoch == progress.epoch else 1
    if batch.batch_number != expected:
        raise PositionConflictError(
            f"Batch {batch.epoch}-{batch.batch_number} of {batch.source} cannot be applied: the "
            f"next one of this epoch is {expected}. "
            f"Apply the batches from {expected} on first, each in its turn. If they are gone for "
            "good, begin a new epoch with "
            "`airflow sfevents position set`: the tables are then marked, and repaired by a "
            "full entity snapshot."
        )
    is_new = batch.epoch != progress.epoch
    return Admission(
        kind="next",
        generation=progress.generation + is_new,
        joins=batch.start == progress.end and not batch.losses,
    )


def check_deletions(progress: Progress | None, asked: str) -> None:
    """Refuse to delete rows where earlier ones were flagged, and the reverse.

    Readers could not tell which records are deleted.

    :param asked: `delete` or `flag`, for this job.
    :raises ConfigurationError: they differ; the message names both.
    """
    if progress is not None and progress.deletions != asked:
        raise ConfigurationError(
            f"These tables were made with deletions={progress.deletions!r}; this job was told "
            f"deletions={asked!r} (--deletions). Give every "
            "apply and every entity snapshot the same; for tables of the other kind take a root of "
            "their own."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Effect of a batch's beginning, before its events.

    :param entry: for every entity of the source; None: nothing is missing.
    :param last_break: the break that counts from this batch on.
    :param unproven: it is not known yet whether events are missing.
    """

    entry: ResyncEntry | None = None
    last_break: Break | None = None
    unproven: bool = False


def opening(
    progress: Progress | None,
    batch: ChangeBatch,
    admission: Admission,
    first: tuple[datetime, bool] | None,
) -> Opening:
    """Decide whether events are missing before this batch.

    :param first: commit time of its first event, and whether that is a repeat; None: the batch is
        empty.
    """
    place = before_batch(admission.generation, batch.batch_number)
    if progress is None:
        entry = cause(place, batch.opened_at, "loss", batch.losses[0]) if batch.losses else None
        return Opening(entry=entry)
    last_break = progress.last_break
    if not admission.joins:
        last_break = Break(order=place, high_water=progress.high_water)
    missed_until = first[0] if first else batch.opened_at
    if batch.losses:
        detail = "; ".join(batch.losses)
        return Opening(entry=cause(place, missed_until, "loss", detail), last_break=last_break)
    in_doubt = progress.unproven or not admission.joins
    if first is None or not in_doubt:
        return Opening(last_break=last_break, unproven=in_doubt)
    if first[1]:
        return Opening(last_break=last_break)
    detail = (
        f"batch {batch.epoch}-{batch.batch_number} begins at {batch.start}, not at {progress.end}"
    )
    return Opening(entry=cause(place, missed_until, "unjoined", detail), last_break=last_break)


def is_suspect(last_break: Break | None, order: EventOrder, committed_at: datetime) -> bool:
    """True if an event may be older than the records it changes.

    This is possible only until the events catch up with the latest commit time before the break.
    Outside that span, times that are out of order only show that two servers' clocks differ.
    """
    return (
        last_break is not None
        and last_break.high_water is not None
        and last_break.order < order
        and committed_at <= last_break.high_water
    )


def advanced(
    progress: Progress | None,
    batch: ChangeBatch,
    admission: Admission,
    opened: Opening,
    *,
    first_at: datetime | None,
    high_water: datetime | None,
) -> Progress:
    """Make the progress in `applied_through` after a batch has been applied.

    :param first_at: commit time of the batch's first event.
    :param high_water: latest commit time of the events that are applied or kept now.
    """
    if progress is None:
        return Progress(
            source=batch.source,
            generation=admission.generation,
            epoch=batch.epoch,
            batch_number=batch.batch_number,
            end=batch.end,
            heard_since=first_at or batch.opened_at,
            high_water=high_water,
            is_whole=not batch.losses,
        )
    entries = [at for at in (progress.high_water, high_water) if at is not None]
    over = {progress.epoch: progress.batch_number} if batch.epoch != progress.epoch else {}
    return replace(
        progress,
        generation=admission.generation,
        epoch=batch.epoch,
        batch_number=batch.batch_number,
        end=batch.end,
        high_water=max(entries, default=None),
        past={**progress.past, **over},
        heard_since=max(progress.heard_since, opened.entry.cause_at)
        if opened.entry
        else progress.heard_since,
        unproven=opened.unproven,
        is_whole=progress.is_whole and opened.entry is None,
        last_break=opened.last_break,
    )
