"""Extra deliveries of a batch, counted by cause. Pure.

Each delivery counts against the org's daily allowance, so a delivery that brought no new event is
counted here.

If no process was killed, a batch's events and its extra deliveries together are all that Salesforce
delivered for it. After a kill they are a lower bound: the number of events that the killed process
had in memory is known as of its last lease heartbeat. Closed files that it was about to leave to
the next batch are not counted either; their events are delivered again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from airflow_provider_sfevents.staging.manifest import Part

STAGED_BEFORE = "staged_before"
"""Managed subscription: already staged; delivered again as Salesforce had not kept the position."""

AFTER_END = "after_end"
"""Managed subscription: received after the batch had ended; delivered again with the next batch."""

IN_MEMORY = "in_memory"
"""Received by an attempt that was killed, or could not write, before they were in a closed file."""

OUTSIDE_BATCH = "outside_batch"
"""In closed files outside the batch: a file was damaged, or another attempt received the same."""

BEYOND_BOUND = "beyond_bound"
"""Delivered beyond the batch and not kept for the next one; left out, and delivered again."""

BEFORE_START = "before_start"
"""Streaming API: created before the time that `latest` stood for, and passed over."""

OVERLAPPING_WAIT = "overlapping_wait"
"""Delivered to a wait after another task took the batch over and got them too; a lower bound."""

STAGED_ELSEWHERE = "staged_elsewhere"
"""Staged by a wait in another staging area, which this task does not see; a lower bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDeliveries:
    """Events that one lease holder received of a batch.

    :param received: number of events, as of the last lease heartbeat.
    :param closed: the holder's closed files.
    """

    received: int
    closed: tuple[Part, ...] = ()

    @property
    def events(self) -> int:
        return sum(part.events for part in self.closed)


def of_attempts(attempts: Iterable[AttemptDeliveries], batch: Collection[Part]) -> dict[str, int]:
    """Count the events that the attempts received and the batch does not hold, by cause.

    :param batch: the files that make up the batch.
    """
    paths = {part.path for part in batch}
    found = {IN_MEMORY: 0, OUTSIDE_BATCH: 0}
    for attempt in attempts:
        found[IN_MEMORY] += max(0, attempt.received - attempt.events)
        found[OUTSIDE_BATCH] += sum(
            part.events for part in attempt.closed if part.path not in paths
        )
    return found


def sums(*counts: Mapping[str, int]) -> dict[str, int]:
    """Add up counts by cause; a cause with the sum 0 is left out."""
    causes = dict.fromkeys(cause for count in counts for cause in count)
    total = {cause: sum(count.get(cause, 0) for count in counts) for cause in causes}
    return {cause: count for cause, count in total.items() if count}
