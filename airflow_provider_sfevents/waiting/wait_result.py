"""Result of a wait; JSON-serialisable for a `TriggerEvent`."""

from __future__ import annotations

from dataclasses import dataclass

HELD, OVERTAKEN, MOVED = "held", "overtaken", "moved"
MAX_WAIT, STOPPED, STAGED = "max_wait", "stopped", "staged"
"""Values of `WaitResult.ended_by`, beside the bounds' names and `error`."""

GAVE_WAY = (HELD, OVERTAKEN, MOVED)
"""Ends of a wait that leave the batch to another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """Result of a wait; plain values.

    :param events: number of events of the next batch, including those staged before the wait.
    :param staged: all of them are in closed files, or in a batch with a manifest.
    :param staging_id: of the staging area that holds them; empty if unknown.
    :param resume_after: replay id of the last keepalive, hex; empty if none came, or an event did.
    :param held_by: live process that holds the lease; empty: none.
    :param ended_by: name of a bound, `max_wait`, `stopped`, `error`; `held`: another process holds
        the lease; `overtaken`: another process has staged more of the batch; `moved`: the position
        has moved; `staged`: enough was staged already.
    :param why: a sentence for users, if there is something to explain.
    """

    batch_id: str
    events: int = 0
    staged: bool = True
    staging_id: str = ""
    resume_after: str = ""
    held_by: str = ""
    ended_by: str = ""
    why: str = ""
