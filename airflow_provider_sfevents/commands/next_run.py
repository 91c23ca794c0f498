"""Describe the next run, and warn before a position is changed by hand. Pure.

The decisions are those of the operators (`recovery`, `open_position`, `replay_id_age`); here they
become sentences.
"""

from __future__ import annotations

from datetime import timedelta
from math import isinf
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.batches.position import open_position, replay_id_age
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST
from airflow_provider_sfevents.staging.manifest import LossWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.batches.position.open_position import EpochStart, Landed
    from airflow_provider_sfevents.commands.staged_batches import BatchOverview
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint

_FROM = {
    EARLIEST.to_text(): "all events that the bus still holds",
    LATEST.to_text(): "events published after it has subscribed",
}


LANDS_ONCE = "Events that have landed are recognised by their identity and do not land again."


def without_position(
    landed: Landed | None,
    begun: Sequence[EpochStart],
    consumer: str,
    topic: str,
    store: PositionStore,
) -> str:
    """Describe a run that finds no position."""
    request = BatchRequest(topic=topic, consumer=consumer, initial_replay="initial_replay")
    try:
        open_position.refuse_lost(landed, begun, request, store)
    except PositionConflictError as error:
        return f"The next run is refused: {error}"
    return (
        "The next run is a first run: it begins an epoch at its `initial_replay`, by default "
        "'earliest'."
    )


def with_position(
    position: Position,
    landed: Landed | None,
    batch: BatchOverview,
    found: recovery.BatchContents,
    store: PositionStore,
) -> str:
    """Describe a run that finds this position.

    :param batch: the batch after it.
    :param found: the same batch, as `recovery.plan` needs it.
    :param store: for messages.
    """
    try:
        open_position.refuse_stale(position, landed, store)
        plan = recovery.plan(found)
    except PositionConflictError as error:
        return f"The next run is refused: {error}"
    doing = _planned(plan, batch, position)
    if batch.held:
        return (
            f"A run that starts now gives way to {batch.describe_holder()}. After the batch is "
            f"released, a run {doing}"
        )
    return f"The next run {doing}"


def worry(position: Position, keepalive_point: KeepalivePoint | None, now: datetime) -> str:
    """Return a warning while there is time to act; empty if the position is young enough."""
    return replay_id_age.warning(
        position.topic, replay_id_age.known_since(position, keepalive_point), now
    )


def age_hours(
    position: Position, keepalive_point: KeepalivePoint | None, now: datetime
) -> float | None:
    """Return the age in hours of the position's replay id; None if it has no replay id.

    Salesforce keeps events for `retention`.
    """
    since = replay_id_age.known_since(position, keepalive_point)
    return None if since is None else round((now - since) / timedelta(hours=1), 1)


def too_old(ages: Iterable[tuple[str, float | None]], hours: float) -> str:
    """Name the positions that are older than so many hours; empty if there is none.

    :param ages: consumer and topic of each position, and its age in hours: infinite if the record
        is none, None if the position has no replay id.
    """
    old = [
        f"{one} ({'no position' if isinf(age) else f'{age} h'})"
        for one, age in ages
        if age is not None and age > hours
    ]
    return f"Older than {hours:g} hours: {', '.join(old)}." if old else ""


def refuse_to_abandon(batch: BatchOverview, command: str, *, abandon: bool) -> None:
    """Refuse to move a position if a staged batch that was paid for would be left behind.

    :param batch: the batch after the position.
    :param command: the same command with the option to leave it behind.
    :raises ConfigurationError: the message names that command.
    """
    if batch.unlanded and not abandon:
        raise ConfigurationError(
            f"Batch {batch.batch_id} is staged ({counted(batch.events, 'event')}, delivered and "
            "counted) and has not landed; it would be left behind. Nothing was changed. Let the "
            "next run land it first; or end its Spark job, if it is still running, and leave it "
            f"behind: {command}"
        )


def losses_after(position: Position, start: str, at: str) -> tuple[LossWindow, ...]:
    """Return the loss windows of a position that is moved by hand.

    The move may pass over events, so it leaves a loss window of its own.
    """
    before = position.loss_windows
    if position.start.to_text() == start:
        return before
    window = LossWindow(
        after=position.start.to_text(),
        after_event_at=position.last_event_at,
        start=start,
        at=at,
        why="the position was set by hand",
    )
    return (*before, window)


def loss_of_move(position: Position | None, start: str) -> list[str]:
    """Describe the loss window that a move by hand leaves; empty if it leaves none."""
    if position is None or len(losses_after(position, start, "")) <= len(position.loss_windows):
        return []
    return [
        f"The position records a loss window, from {position.start} to {start}, because the move "
        "may pass over events."
    ]


def first_of(consumer: str, topic: str) -> list[str]:
    """Describe the first position of a consumer on a topic, with no batch staged before."""
    return [
        f"Consumer {consumer!r} has no position and no batch on {topic}: this is its first "
        "position. `airflow sfevents position show` lists all positions."
    ]


def meaning(start: str, *, is_first: bool = False) -> list[str]:
    """Describe the consequences of a new epoch at `start`, sentence by sentence.

    :param is_first: the consumer has not read the topic before.
    """
    if is_first and start != LATEST.to_text():
        after = "that the bus still holds" if start == EARLIEST.to_text() else f"after {start}"
        return [f"The next run gets all events {after}."]
    if start == EARLIEST.to_text():
        return [
            "The next run gets all events that the bus still holds: every event is "
            "delivered again and counts against the org's daily allowance.",
            LANDS_ONCE,
        ]
    if start == LATEST.to_text():
        return [
            "The next run gets the events that are published after it has subscribed: every event "
            "that is published before that and has not landed is skipped."
        ]
    return [
        f"The next run gets the events after {start}: if that replay id is before the position, "
        "events are delivered again and count against the org's daily allowance; if it is after "
        "the position, the events in between are skipped. Replay ids do not show which.",
        LANDS_ONCE,
    ]


def left_behind(batch: BatchOverview | None) -> list[str]:
    """Describe the fate of the batch after the position if the position begins a new epoch."""
    if batch is None or not batch.events:
        return []
    if batch.manifest is None:
        return [
            f"{counted(batch.events, 'event')} received for batch {batch.batch_id} will be left "
            "behind."
        ]
    if batch.receipt is None:
        return [
            f"Batch {batch.batch_id} ({counted(batch.events, 'event')}, staged) is left behind; "
            "`airflow sfevents batches reland` can still land it. End its Spark job first, if it "
            "is still running."
        ]
    return []


def _planned(
    plan: recovery.CommitPlan | recovery.ReusePlan | recovery.FetchPlan,
    batch: BatchOverview,
    position: Position,
) -> str:
    if isinstance(plan, recovery.CommitPlan):
        return (
            f"commits batch {batch.batch_id} ({counted(batch.events, 'event')}), which has landed: "
            "the position moves to its end, and nothing is fetched or landed again."
        )
    if isinstance(plan, recovery.ReusePlan):
        return (
            f"lands batch {batch.batch_id} ({counted(batch.events, 'event')}), which is staged, "
            "and commits it; nothing is fetched."
        )
    start = plan.subscribe_at
    after = _FROM.get(start.to_text(), f"the events after {start}")
    if start.not_before is not None:
        after = f"the events that were created from {start.not_before:%Y-%m-%d %H:%M:%S} UTC on"
    if plan.kept:
        return (
            f"continues batch {batch.batch_id}: it keeps the {counted(plan.events, 'event')} of "
            f"{counted(len(plan.kept), 'file')} and fetches {after}."
        )
    why = ""
    if position.loss is not None:
        why = f", after a loss window: the bus refused {position.loss.after}"
    elif plan.keepalive_points:
        why = ", the replay id of the last keepalive"
    return f"fetches batch {batch.batch_id}: {after}{why}."
