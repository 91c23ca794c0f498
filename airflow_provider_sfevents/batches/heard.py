"""Result of a wait; JSON-serialisable for a `TriggerEvent`."""

from __future__ import annotations

from dataclasses import dataclass

HELD, OVERTAKEN, MOVED = "held", "overtaken", "moved"
MAX_WAIT, STOPPED, STAGED = "max_wait", "stopped", "staged"
"""Words of `Heard.ended_by`, beside the bounds' names and `error`."""

GAVE_WAY = (HELD, OVERTAKEN, MOVED)
"""Ends of a wait that leave the batch to another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Result of a wait; plain values.

    :param events: known of the coming batch, those kept before included.
    :param staged: all of them are in closed files, or in a batch with a manifest.
    :param staging_id: of the staging area that they are in; empty if it is not known.
    :param resume_after: replay id of the last keepalive, hex; empty if none came, or an event did.
    :param held_by: who is at work on the batch, and alive; empty: nobody.
    :param ended_by: a bound's name, `max_wait`, `stopped`, `error`; `held`: somebody else has it; `overtaken`: somebody else has gone on
        with it; `moved`: it is not the coming batch any more; `staged`: enough was there already.
    :param why: a sentence for people, where there is something to say.
    """

    batch_id: str
    events: int = 0
    staged: bool = True
    staging_id: str = ""
    resume_after: str = ""
    held_by: str = ""
    ended_by: str = ""
    why: str = ""
