"""What happens when the bus refuses a replay id. Nothing is skipped by itself: a user has chosen, and the loss is written down.

The choice is kept beside the batch's claims before the first event is asked for, so that every later attempt at this batch begins
at the same place, and the loss window is in its manifest whoever writes that.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import ConfigurationError, ReplayIdRefused
from airflow_provider_sfevents.positions.text import PRESETS
from airflow_provider_sfevents.staging.manifest import LossWindow

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.restart import Fetch
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.claims import Claim

log = logging.getLogger(__name__)

FAIL = "fail"
CHOICES = (FAIL, *PRESETS)


def check_choice(replay_fallback: str) -> str:
    """:raises ConfigurationError: it is none of the choices."""
    if replay_fallback not in CHOICES:
        raise ConfigurationError(
            f"replay_fallback={replay_fallback!r} is not known; give {', '.join(map(repr, CHOICES))}."
        )
    return replay_fallback


def choose(
    position: Position, plan: Fetch, replay_fallback: str, refused: ReplayIdRefused, where: str
) -> LossWindow:
    """The window to keep, now that the bus has refused the place where the coming batch begins.

    :param where: the position's store, for the message.
    :raises ReplayIdRefused: the user has not chosen to go on; or has, and the bus refused that too.
    """
    if plan.loss is not None:
        raise refused  # a preset cannot be refused; whatever this is, choosing once more does not help
    at = datetime.now(UTC).isoformat()
    return loss_window(position, replay_fallback, refused, at, where)


def without_anchor(plan: Fetch, refused: ReplayIdRefused) -> Fetch:
    """The same plan where the bus has refused its anchor: no loss, since the place it follows is known.

    :raises ReplayIdRefused: there was no anchor; it is the place itself that is refused.
    """
    if not plan.anchor:
        raise refused
    log.warning(
        "The anchor %s is refused; going on after %s. %s", plan.anchor, plan.resume, refused
    )
    return replace(plan, anchor="")


def loss_window(
    position: Position, replay_fallback: str, refused: ReplayIdRefused, at: str, where: str
) -> LossWindow:
    """The window that going on at `replay_fallback` leaves.

    :param where: the position's store, for the message.
    :raises ReplayIdRefused: when the user has not chosen to go on; the message names the choices.
    """
    if replay_fallback == FAIL:
        raise ReplayIdRefused(_what_to_choose(refused, position, where))
    return LossWindow(
        after=position.replay_id,
        after_event_at=position.last_event_at,
        start=replay_fallback,
        at=at,
        why=str(refused),
    )


def keep(window: LossWindow, folder: BatchFolder, claim: Claim, topic: str) -> LossWindow:
    """Write the window beside the batch; returns the one that counts: this one, or one that was there before."""
    claim.check()
    steps.reached(steps.FALLBACK_NEXT, folder.batch_id)
    kept = folder.keep_loss(window)
    steps.reached(steps.FALLBACK_WRITTEN, folder.batch_id)
    log.warning(
        "LOSS WINDOW on %s: the bus refused replay id %s (last event %s). Going on at %r, as replay_fallback says. What was "
        "published in between and is no longer kept is lost; what has landed already does not land again. %s",
        topic,
        kept.after,
        kept.after_event_at or "at an unknown time",
        kept.start,
        kept.why,
    )
    return kept


def _what_to_choose(refused: ReplayIdRefused, position: Position, where: str) -> str:
    command = f"airflow sfevents position set {position.consumer} {position.topic}"
    return (
        f"{refused} The replay id is {position.replay_id}, of {where}; its last event was created at "
        f"{position.last_event_at or 'an unknown time'}. Nothing was moved, and nothing is skipped without you. Events published after that "
        "place and no longer kept (72 hours) are lost to this topic; the org may also have been moved or refreshed. To go on, once: "
        f"`{command} earliest` (all that the bus still holds; what has landed does not land again) or `{command} latest` (from now on). "
        "To let this task choose by itself whenever it happens: replay_fallback='earliest' or 'latest'; either records a loss window."
    )
