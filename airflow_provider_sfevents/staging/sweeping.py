"""Select the old batches that may be removed. Pure; in doubt a batch stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

KEEP_BATCHES = 10
"""Committed batches that are kept, so that a cleared old run can land its own batch again."""


NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """State of a batch, as its folder shows it.

    :param staged: the batch has a manifest.
    :param landed: the batch has a receipt.
    :param held: a task may be at work on the batch.
    :param half_swept: a sweep that was killed has removed its manifest and receipt.
    """

    epoch: str
    batch_number: int
    staged: bool
    landed: bool
    held: bool
    half_swept: bool = False


def to_sweep(
    old: Sequence[BatchState], newest_receipt: tuple[str, int] | None, newest_epoch: str
) -> list[BatchState]:
    """Select the batches that may be removed from those that are old enough.

    These batches stay:

    1. A batch that is held.
    2. The newest receipt: it distinguishes a lost position from a first run.
    3. A batch that is staged and not landed: its events may have left the bus.
    4. A batch of the newest epoch that is not landed: a task is fetching it. The remains of an
       earlier sweep are no such batch.

    :param old: batches that need not be kept for their age.
    :param newest_receipt: epoch and batch number.
    """
    return [
        batch
        for batch in old
        if not batch.held
        and (batch.epoch, batch.batch_number) != newest_receipt
        and (batch.landed or batch.half_swept or not (batch.staged or batch.epoch == newest_epoch))
    ]


def is_young(landed_at: str, keep_for: timedelta, now: datetime) -> bool:
    """Return whether a batch landed less than `keep_for` ago; true if its time is not readable.

    The time comes from the clock of the machine that landed it. It decides only how long files
    stay.

    :param landed_at: ISO-8601, UTC.
    """
    try:
        return now - datetime.fromisoformat(landed_at) < keep_for
    except (ValueError, TypeError):
        return True


def check_keep_batches(keep_batches: Any) -> int:
    """Check an operator's argument.

    :raises ConfigurationError: it is no number of batches.
    """
    if type(keep_batches) is not int or keep_batches < 0:
        raise ConfigurationError(
            f"keep_batches is {keep_batches!r}. Give a whole number, 0 or more."
        )
    return keep_batches


def check_keep_for(keep_for: Any) -> timedelta:
    """Check an operator's argument.

    :raises ConfigurationError: it is no length of time.
    """
    if not isinstance(keep_for, timedelta) or keep_for < NO_TIME:
        raise ConfigurationError(
            f"keep_for={keep_for!r} is no length of time; give a timedelta, such as "
            "timedelta(days=1), or leave it out."
        )
    return keep_for
