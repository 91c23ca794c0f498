"""Fallback for a replay id that the bus refuses: the user chooses, and the loss is recorded.

1. A keepalive point is refused: subscribe at an older one, or at the replay point that it follows.
   There is no event between them, so nothing is lost.
2. The position's replay id is refused: `replay_fallback` decides. The loss window goes into the
   position itself, under the batch's lease and before the first event is staged. So every later
   attempt at the batch, with whichever staging area, begins at the same replay point.
3. `replay_fallback="latest"` is pinned like a first run at `latest`: the window is written with the
   replay id of the first keepalive or event.
4. Over the Streaming API nothing renews a replay id while a topic is silent, so an expired one is
   expected. There `fail` counts for the start of a first run alone: a later run continues at
   `earliest`, with a loss window.
5. The event that pinned `latest` is in no file: the task that received it died before it closed the
   file, and the bus delivers only later events. The position records a loss window of one event.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, ReplayIdRefusedError
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.positions.record_text import Whose
from airflow_provider_sfevents.pubsub.topic_names import TransportName
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, PRESETS
from airflow_provider_sfevents.staging.manifest import LossWindow

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.recovery import FetchPlan
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore

log = logging.getLogger(__name__)

FAIL = "fail"
CHOICES = (FAIL, *PRESETS)


def check_choice(replay_fallback: str) -> str:
    """Return the choice.

    :raises ConfigurationError: it is not one of `CHOICES`.
    """
    if replay_fallback not in CHOICES:
        raise ConfigurationError(
            f"replay_fallback={replay_fallback!r} is not known; give "
            f"{', '.join(map(repr, CHOICES))}."
        )
    return replay_fallback


def without_keepalive_point(plan: FetchPlan, refused: ReplayIdRefusedError) -> FetchPlan | None:
    """Return the plan without the keepalive point that the bus refused; None: the plan had none."""
    if not plan.keepalive_points:
        return None
    older = replace(plan, keepalive_points=plan.keepalive_points[1:])
    log.warning(
        "Keepalive point %s is refused; continuing after %s. %s",
        plan.subscribe_at,
        older.subscribe_at,
        refused,
    )
    return older


def choose(
    position: Position, replay_fallback: str, refused: ReplayIdRefusedError, store: PositionStore
) -> Position:
    """Return the position with a loss window, after the bus has refused its replay id.

    :param store: for the message.
    :return: not written anywhere yet; with `latest`, not pinned.
    :raises ReplayIdRefusedError: `replay_fallback` is `fail`; the message names the choices. Or the
        bus has also refused the replay point after an earlier loss window.
    """
    is_streaming = position.transport == TransportName.STREAMING
    if replay_fallback == FAIL and is_streaming and position.batch_number:
        replay_fallback = EARLIEST.to_text()
    if replay_fallback == FAIL:
        raise ReplayIdRefusedError(_what_to_choose(refused, position, store))
    if position.loss is not None and position.loss.start == replay_fallback == EARLIEST.to_text():
        raise refused  # the bus cannot refuse `earliest`; choosing it once more does not help
    window = LossWindow(
        after=position.loss.after if position.loss else position.replay_id,
        after_event_at=position.last_event_at,
        start=replay_fallback,
        at=datetime.now(UTC).isoformat(),
        why=str(refused),
    )
    return record.lose(position, window)


def without_first(position: Position) -> Position:
    """Return the position with a loss window for one event: it pinned `latest`, and no file has it.

    :return: not written anywhere yet; it starts at the same replay id.
    """
    why = (
        f"the task that received event {position.start}, the first one after 'latest', ended "
        "before it had staged it"
    )
    before = position.loss
    window = LossWindow(
        after=before.after if before else "",
        after_event_at=before.after_event_at if before else "",
        start=LATEST.to_text(),
        pinned=position.start.to_text(),
        at=datetime.now(UTC).isoformat(),
        why=f"{before.why} Then {why}." if before else f"{why[0].upper()}{why[1:]}.",
    )
    return record.lose(position, window)


def _what_to_choose(refused: ReplayIdRefusedError, position: Position, store: PositionStore) -> str:
    """Build the message with the user's choices after a refused replay id."""
    whose = Whose.of(store, position.consumer, position.topic)
    earliest, latest = (whose.command("set", one) for one in PRESETS)
    if not position.batch_number and position.initial_replay == position.start.to_text():
        return (
            f"{refused} The replay id {position.start} is the task's initial_replay, and nothing "
            "has landed yet. The position was not moved. Correct the argument; then "
            f"{whose.command('forget')}, and the next run begins at the new one. Or begin "
            f"elsewhere, once: {earliest}, {latest} or {whose.command('set', '<replay id>')}."
        )
    return (
        f"{refused} Stored is {position.replay_id} in {store.where}, of an event created at "
        f"{position.last_event_at or 'an unknown time'}. The position was not moved. Choose once: "
        f"{earliest} (all events that the bus still holds; those that have landed do not land "
        f"again) or {latest} (new events only). Or let the task choose each time: "
        "replay_fallback='earliest' or 'latest'. Each choice records a loss window."
    )
