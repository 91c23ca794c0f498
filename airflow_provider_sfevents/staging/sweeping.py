"""Which old batches may go. Pure; when in doubt a batch stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KEEP_BATCHES = 10
"""Batches kept after they were committed, so that a cleared old run can land its own batch again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """What a look into a batch's folder tells.

    :param staged: there is a manifest.
    :param landed: there is a receipt.
    :param held: somebody may be at work on it.
    """

    epoch: str
    sequence: int
    staged: bool
    landed: bool
    held: bool


def to_sweep(
    old: Sequence[BatchState], newest_receipt: tuple[str, int] | None, newest_epoch: str
) -> list[BatchState]:
    """Of the batches that need not be kept for their age, those that may go.

    Never one that is held, never the newest receipt (it tells a lost position from a first run), never one that is staged but not
    landed (its events may have left the bus), never one of the newest epoch that is not landed (it is being fetched).

    """
    return [
        batch
        for batch in old
        if not batch.held
        and (batch.epoch, batch.sequence) != newest_receipt
        and (batch.landed or (not batch.staged and batch.epoch != newest_epoch))
    ]
