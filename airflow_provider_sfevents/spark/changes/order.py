"""Order of the events of one source: the only order that decisions use.

Replay ids, commit numbers and event ids are opaque and are never compared. What counts is in which
batch an event came, and where in it. Batches are numbered within an epoch of their position; a
reset position begins a new epoch, whose numbers begin again at 1. Epochs have random names, so a
table counts those it has met: the `generation`.
"""

from __future__ import annotations

from typing import NamedTuple


class EventOrder(NamedTuple):
    """A place among all events of one source; compares as a tuple does.

    :param generation: which of the epochs that this table was fed from, from 1.
    :param batch_number: the batch's, within its epoch, from 1.
    :param ordinal: the event's in its batch, from 0; -1 is the place before all of them.
    """

    generation: int
    batch_number: int
    ordinal: int


ORIGIN = EventOrder(0, 0, -1)
"""Before every event."""


def before_batch(generation: int, batch_number: int) -> EventOrder:
    """Make the place right before a batch's first event, after all of the batch before it."""
    return EventOrder(generation, batch_number, -1)
