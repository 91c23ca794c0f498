"""What a wait came to. A value that fits into a trigger's event."""

from __future__ import annotations

from dataclasses import dataclass

HELD, OVERTAKEN, MOVED = "held", "overtaken", "moved"
MAX_WAIT, STOPPED, STAGED = "max_wait", "stopped", "staged"
"""Words of `Heard.ended_by`, beside the bounds' names and `error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a wait came to; plain values.

    :param events: known of the coming batch, those kept before included.
    :param staged: all of them are in closed files, or in a batch with a manifest.
    :param held_by: who is at work on the batch, and alive; empty: nobody.
    :param ended_by: a bound's name, `max_wait`, `stopped`, `error`; `held`: somebody else has it; `overtaken`: somebody else has gone on
        with it; `moved`: it is not the coming batch any more; `staged`: enough was there already.
    :param why: a sentence for people, where there is something to say.
    """

    batch_id: str
    events: int = 0
    staged: bool = True
    held_by: str = ""
    ended_by: str = ""
    why: str = ""
