"""Deliveries beyond a batch's events: each counts against the org's daily allowance, so each is counted here, with its cause. Pure.

A batch's events and its excess together are what Salesforce has delivered for it, where nobody was killed; where somebody was, at least
that: what a killed process had in memory is known as of its last sign of life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from airflow_provider_sfevents.staging.manifest import Part

STAGED_BEFORE = "staged_before"
"""Of a managed subscription: staged already, and delivered again since Salesforce had not kept their place."""

AFTER_END = "after_end"
"""Of a managed subscription: came when the batch had ended; delivered again with the next one."""

IN_MEMORY = "in_memory"
"""Received by an attempt that was killed, or could not write, before they were in a closed file; delivered again."""

SET_ASIDE = "set_aside"
"""In closed files that are not part of the batch: another attempt was delivered the same, or a file was damaged."""

UNASKED = "unasked"
"""Delivered beyond the batch and not kept for the next one; left out, and delivered again."""

HEARD_TWICE = "heard_twice"
"""Delivered to a wait after another task had taken the batch over, which has them delivered as well. At least."""

STAGED_ELSEWHERE = "staged_elsewhere"
"""Staged by a wait in another staging area, which this task does not see; delivered again. At least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What one claim's holder has had of a batch.

    :param received: events, as of its last sign of life.
    :param closed: its closed files.
    """

    received: int
    closed: tuple[Part, ...] = ()

    @property
    def events(self) -> int:
        return sum(part.events for part in self.closed)


def of_attempts(attempts: Iterable[Attempt], batch: Collection[Part]) -> dict[str, int]:
    """What the attempts at a batch received in vain.

    :param batch: the files that make it up.
    """
    paths = {part.path for part in batch}
    found = {IN_MEMORY: 0, SET_ASIDE: 0}
    for attempt in attempts:
        found[IN_MEMORY] += max(0, attempt.received - attempt.events)
        found[SET_ASIDE] += sum(part.events for part in attempt.closed if part.path not in paths)
    return found


def sums(*counts: Mapping[str, int]) -> dict[str, int]:
    """All of them together; only causes that there were."""
    causes = dict.fromkeys(cause for count in counts for cause in count)
    total = {cause: sum(count.get(cause, 0) for count in counts) for cause in causes}
    return {cause: count for cause, count in total.items() if count}
