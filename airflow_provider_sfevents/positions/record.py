"""Position of a consumer on a topic: one small record, and the only ways in which it changes. Pure.

    begin      batch number 0 at the first run's replay point; a new epoch
    pin        a replay id instead of `latest`, once
    move_on    a keepalive's replay id, before every event of the next batch
    lose       the bus refused the replay id, and the user chose where to continue
    note_wait  number of events that a wait has staged for the next batch, to count costs
    work_in    the staging area that the next batch is staged in
    advance    one batch further, and only over a batch that begins at the position

Any other record (another org's or task's, hand-edited, newer) is refused with location and remedy.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.positions import record_text
from airflow_provider_sfevents.positions.activity import Commit, Counts, commit_of, counted_on, kept
from airflow_provider_sfevents.replay_point import LATEST, PRESETS, ReplayPoint, is_replay_id
from airflow_provider_sfevents.staging.manifest import LossWindow, Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

VERSION = 1

_UNKNOWN = record_text.Whose()

KEEPALIVE, EVENT = "keepalive", "event"
"""Values of `Position.pinned_by`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Record of how far a consumer has come on a topic.

    :param epoch: random; a reset begins a new one, so that old batches are never taken for new.
    :param previous_epoch: the epoch that this one replaced, if there was one.
    :param previous_batch_number: batch number at which that epoch ended.
    :param batch_number: batch number: batches committed in this epoch.
    :param initial_replay: the replay point that the epoch was begun with, as it was given.
    :param replay_id: hex, of the last event committed; with batch number 0 also `earliest`, or
        `latest` (not pinned yet: only a position that was set by hand is stored like that).
    :param pinned_by: source of the replay point that replaced `latest`: `keepalive` (over the
        Streaming API the answer to the subscription); or `event`, and only the staging area
        `staging_id` holds that event; otherwise empty.
    :param transport: API that the replay ids are of.
    :param resume_after: keepalive point, hex, with no event between `start` and it; or empty.
    :param resume_after_at: time at which that keepalive came; ISO-8601, UTC.
    :param drained_at: time up to which the last batch has every event: the beginning of its fetch,
        if that ended after `idle_seconds` without an event; otherwise empty. ISO-8601, UTC.
    :param staging_id: the staging area of the last commit, or of the epoch's beginning.
    :param staging_since: number of the first batch since which `staging_id` has not changed.
    :param staged_in: staging area in which a wait last staged events of the next batch.
    :param staged_events: number of those events; both fields only count costs.
    :param batch_id: the last batch committed; empty with batch number 0.
    :param events_total: events committed in this epoch.
    :param last_event_at: creation time of the last event committed, if it has one; ISO-8601, UTC.
    :param committed_at: time at which the epoch began, or its last batch was committed.
    :param committed_by: the task that did that.
    :param owner: `<dag>.<task>` that fetches; in a chain, another task commits.
    :param recent: the last commits, oldest first; as many as `activity.kept` keeps.
    :param counts: counts of the epoch, for people.
    :param loss: the loss window before the next batch; its manifest takes it over.
    :param losses: loss windows before the batches that are committed.
    :param losses_acknowledged: time of the last loss window that a user has acknowledged.
    """

    org_id: str
    instance_url: str
    topic: str
    consumer: str
    epoch: str
    batch_number: int
    replay_id: str
    committed_at: str
    transport: str = "pubsub"
    previous_epoch: str = ""
    previous_batch_number: int = 0
    initial_replay: str = ""
    pinned_by: str = ""
    resume_after: str = ""
    resume_after_at: str = ""
    drained_at: str = ""
    staging_id: str = ""
    staging_since: int = 1
    staged_in: str = ""
    staged_events: int = 0
    batch_id: str = ""
    events_total: int = 0
    last_event_at: str = ""
    committed_by: Run = field(default_factory=Run)
    owner: str = ""
    recent: tuple[Commit, ...] = ()
    counts: Counts = field(default_factory=Counts)
    loss: LossWindow | None = None
    losses: tuple[LossWindow, ...] = ()
    losses_acknowledged: str = ""

    @property
    def start(self) -> ReplayPoint:
        """Replay point at which the next batch begins."""
        return ReplayPoint.from_text(self.loss.resumes_at if self.loss else self.replay_id)

    @property
    def loss_windows(self) -> tuple[LossWindow, ...]:
        """Loss windows of committed batches, and the one that the next batch begins with."""
        return (*self.losses, *([self.loss] if self.loss else []))

    @property
    def new_losses(self) -> tuple[LossWindow, ...]:
        """Loss windows after the acknowledged ones, by their order: clocks of workers differ."""
        windows, known = self.loss_windows, self.losses_acknowledged
        return windows[max((n for n, one in enumerate(windows, 1) if one.at == known), default=0) :]

    @property
    def is_pinned(self) -> bool:
        """True if `start` means the same for every task, which `latest` does not."""
        return self.start != LATEST

    def to_json(self) -> str:
        loss = asdict(self.loss) if self.loss else {}
        recent = [one.to_row() for one in self.recent]
        return record_text.in_lines(
            {"version": VERSION, **asdict(self), "loss": loss, "recent": recent}
        )

    @classmethod
    def from_json(cls, record: str, where: str, whose: record_text.Whose = _UNKNOWN) -> Position:
        """Read a record; strict, because a position that is read wrongly loses events.

        :param where: the record's location, as a user knows it; for messages.
        :param whose: consumer, topic and store, for the commands in messages.
        :raises ConfigurationError: it is no position, or one that a newer release wrote.
        """
        record_text.check_fields(record, VERSION, _TYPES, where, whose)
        value = json.loads(record)
        del value["version"]
        try:
            position = cls(
                **{
                    **value,
                    "committed_by": Run(**value["committed_by"]),
                    "recent": tuple(Commit.from_row(one) for one in value["recent"]),
                    "counts": Counts.from_dict(value["counts"]),
                    "loss": LossWindow(**value["loss"]) if value["loss"] else None,
                    "losses": tuple(LossWindow(**one) for one in value["losses"]),
                }
            )
            wrong = _wrong_in(position)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise record_text.unusable(where, whose, str(error)) from error
        if wrong:
            raise record_text.unusable(where, whose, wrong)
        return position


def begin(
    *,
    org_id: str,
    instance_url: str,
    topic: str,
    consumer: str,
    start: str,
    at: str,
    by: Run,
    epoch: str = "",
    staging_id: str = "",
    previous_epoch: str = "",
    losses: Sequence[LossWindow] = (),
    owns: bool = True,
    transport: str = "pubsub",
) -> Position:
    """Build the position of a first run, or of the first one after a reset.

    :param start: `earliest`, `latest` or a replay id in hex.
    :param epoch: random if it is not given.
    :param staging_id: of the staging area of the first batch; empty if a command begins the epoch.
    :param owns: `by` is the fetching task; otherwise the first committing task becomes the owner.
    """
    return Position(
        org_id=org_id,
        instance_url=instance_url,
        topic=topic,
        consumer=consumer,
        epoch=epoch or secrets.token_hex(6),
        previous_epoch=previous_epoch,
        batch_number=0,
        initial_replay=start,
        replay_id=start,
        staging_id=staging_id,
        committed_at=at,
        committed_by=by,
        owner=task_of(by) if owns else "",
        losses=tuple(losses),
        transport=transport,
    )


def pin(position: Position, replay_id: str, *, by: str, staging_id: str) -> Position:
    """Replace `latest` by a replay id, in a position that is not pinned.

    :param replay_id: hex, of the first keepalive or event after the subscription at `latest`.
    :param by: `KEEPALIVE`, or `EVENT`: the next batch's first part then holds that event, too.
    :param staging_id: of the staging area that the next batch is staged in.
    :raises ValueError: the position is pinned; an epoch's pinned replay id is never replaced.
    """
    if position.is_pinned:
        raise ValueError(f"the position is pinned to {position.start}")
    changed = replace(work_in(position, staging_id), pinned_by=by)
    if position.loss is not None:
        return replace(changed, loss=replace(position.loss, pinned=replay_id))
    return replace(changed, replay_id=replay_id)


def move_on(position: Position, replay_id: str, at: str) -> Position:
    """Let the next batch start after a keepalive; call it only if nothing of the batch is staged.

    :param at: time at which the keepalive came; ISO-8601, UTC.
    """
    return replace(position, resume_after=replay_id, resume_after_at=at)


def lose(position: Position, window: LossWindow) -> Position:
    """Let the next batch begin after a loss window, because the bus refused the replay id."""
    return replace(position, loss=window, resume_after="", resume_after_at="", pinned_by="")


def note_wait(position: Position, staging_id: str, events: int) -> Position:
    """Record the number of events that a wait has staged for the next batch.

    A task with another staging area has them delivered again, and counts them by this.
    """
    return replace(position, staged_in=staging_id, staged_events=events)


def work_in(position: Position, staging_id: str) -> Position:
    """Record the staging area that the next batch is staged in; empty if it is not known."""
    if staging_id in ("", position.staging_id):
        return position
    return replace(position, staging_id=staging_id, staging_since=position.batch_number + 1)


def advance(
    position: Position,
    manifest: Manifest,
    committed_at: str,
    committed_by: Run,
    staging_id: str = "",
    receipt: Receipt | None = None,
    extra_deliveries: Mapping[str, int] | None = None,
) -> Position:
    """Move a position over a landed batch.

    A commit that is repeated, because its first answer was lost, leaves the position as it is.

    :param staging_id: of the staging area that holds the batch.
    :param receipt: of the batch, for the counts; as are its `extra_deliveries`.
    :raises PositionConflictError: the batch does not begin at the position.
    """
    if is_committed(position, manifest):
        return position
    if why := _contradiction(position, manifest):
        raise PositionConflictError(
            f"Batch {manifest.batch_id} of {manifest.topic} cannot be committed: {why}. The "
            "position was moved or reset meanwhile, and stays; the next run continues from it."
        )
    commit = commit_of(manifest, receipt, committed_at, committed_by)
    counts = counted_on(position.counts, commit, extra_deliveries or {}, receipt)
    return replace(
        work_in(position, staging_id),
        batch_number=manifest.batch_number,
        replay_id=manifest.end,
        pinned_by="",
        resume_after="",
        resume_after_at="",
        drained_at=manifest.begun_at if manifest.is_drained else "",
        staged_in="",
        staged_events=0,
        batch_id=manifest.batch_id,
        events_total=position.events_total + manifest.events,
        last_event_at=manifest.last_event_at or position.last_event_at,
        committed_at=committed_at,
        committed_by=committed_by,
        owner=position.owner or task_of(manifest.run),
        recent=kept((*position.recent, commit), counts),
        counts=counts,
        loss=None,
        losses=(*position.losses, *manifest.losses),
    )


def is_past(position: Position, manifest: Manifest) -> bool:
    """Return whether the batch was committed earlier, with later ones after it.

    False if a recent commit shows that another copy of the batch counted, with another end.
    """
    if manifest.epoch != position.epoch or manifest.batch_number >= position.batch_number:
        return False
    remembered = [one for one in position.recent if one.batch_number == manifest.batch_number]
    return all(one.replay_id == manifest.end for one in remembered)


def overlaps(position: Position) -> bool:
    """Return whether the bus may deliver events again that have landed.

    It may after a loss window, until an event was committed that was created after the last event
    before the window. Both times are the events' own; an unknown one counts as "it may".
    """
    if not position.losses:
        return False
    before = position.losses[-1].after_event_at
    return not before or position.last_event_at <= before


def is_committed(position: Position, manifest: Manifest) -> bool:
    """Return whether the position is at the end of this very batch already."""
    at = (position.epoch, position.batch_number, position.replay_id)
    return at == (manifest.epoch, manifest.batch_number, manifest.end)


def _contradiction(position: Position, manifest: Manifest) -> str:
    for name in ("org_id", "topic", "consumer", "epoch"):
        if getattr(position, name) != getattr(manifest, name):
            return f"its {name} is {getattr(manifest, name)!r}, not {getattr(position, name)!r}"
    if manifest.batch_number != position.batch_number + 1:
        return f"it has batch number {manifest.batch_number}, the position {position.batch_number}"
    if manifest.position_start != position.replay_id:
        return (
            f"it begins at {manifest.position_start}, and the position is at {position.replay_id}"
        )
    return ""


def _wrong_in(position: Position) -> str:
    """Return what is wrong with a value of the right type; empty if nothing is."""
    for name in ("batch_number", "previous_batch_number", "events_total"):
        if (given := getattr(position, name)) < 0 or not record_text.is_number(given):
            return f"`{name}` is {str(given)[:30]}; it must be 0 or more, and no larger than 10^13"
    epochs = {"epoch": position.epoch, "previous_epoch": position.previous_epoch or position.epoch}
    for name, epoch in epochs.items():
        if not record_text.is_epoch(epoch):
            return f"`{name}` is {epoch!r}; it must be a word of letters, digits, - and _"
    if wrong := _wrong_place(position):
        return wrong
    if position.pinned_by not in ("", KEEPALIVE, EVENT):
        return f"`pinned_by` is {position.pinned_by!r}; it must be {KEEPALIVE}, {EVENT} or empty"
    # Times that are computed with; those that are only shown may be anything.
    computed = ("last_event_at", "resume_after_at", "drained_at")
    may_lack = {name: getattr(position, name) for name in computed}
    may_lack["committed_by.run_after"] = position.committed_by.run_after
    times = {name: value for name, value in may_lack.items() if value}
    times["committed_at"] = position.committed_at
    times |= {f"recent[{n}].at": commit.at for n, commit in enumerate(position.recent)}
    times |= {f"losses[{n}].at": loss.at for n, loss in enumerate(position.losses)}
    times |= {"loss.at": position.loss.at} if position.loss else {}
    parts: list[tuple[str, Any]] = [
        ("committed_by", position.committed_by),
        *((f"recent[{n}]", commit) for n, commit in enumerate(position.recent)),
        *([("loss", position.loss)] if position.loss else []),
        *((f"losses[{n}]", loss) for n, loss in enumerate(position.losses)),
    ]
    return record_text.wrong_time(times) or record_text.wrong_part(parts) or position.counts.wrong()


def _wrong_place(position: Position) -> str:
    also = "" if position.batch_number else f", or {' or '.join(PRESETS)}"
    is_start = is_replay_id if position.batch_number else ReplayPoint.is_valid
    if not is_start(position.replay_id):
        return f"`replay_id` is {position.replay_id!r}; it must be lower-case hex{also}"
    if position.loss and not ReplayPoint.is_valid(place := position.loss.resumes_at):
        name = "loss.pinned" if position.loss.pinned else "loss.start"
        return f"`{name}` is {place!r}; it must be lower-case hex, or {' or '.join(PRESETS)}"
    if position.resume_after and not is_replay_id(position.resume_after):
        return f"`resume_after` is {position.resume_after!r}; it must be lower-case hex, or empty"
    return ""


def task_of(run: Run) -> str:
    """Return `<dag>.<task>`; empty outside of Airflow."""
    return f"{run.dag}.{run.task}" if run.dag else ""


# A record has texts, numbers, lists for tuples, and objects for the rest.
_TYPES: dict[str, type] = {
    one.name: {"str": str, "int": int}.get(kind, list if kind.startswith("tuple") else dict)
    for one in fields(Position)
    for kind in [str(one.type)]
}
