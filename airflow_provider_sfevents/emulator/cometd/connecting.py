"""What becomes of a connect: answered at once, held, answered with events, refused. Decided here without I/O.

Rules (Streaming API Developer Guide, "Clients and Timeouts" and "Handling Streaming API Errors"):
1. a client's first connect is answered at once, with advice; so is one that came with other messages;
2. a later one is held until there are events, or for 110 s;
3. tokens are looked at while it is held; a session does not expire by time meanwhile;
4. where the org's allocation is used up, the client is disconnected, at its first connect or later.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """How things are for a connect.

    :param lost: the client's session is gone.
    :param authentic: its token is still good.
    :param exhausted: the org may not be delivered more events.
    :param ready: an event waits for the client.
    :param released: it is to be answered without events: nobody may be left to read them.
    :param left: seconds it may still be held.
    """

    lost: bool
    authentic: bool
    exhausted: bool
    ready: bool
    released: bool
    left: float


@dataclass(frozen=True, slots=True)
class Lost:
    """Tell the client that it is unknown."""


@dataclass(frozen=True, slots=True)
class Unauthenticated:
    """Tell the client that its token is not good."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Tell the client that the allocation is used up."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Answer with the events there are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer without events."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait until something happens, or for so long."""

    seconds: float


Step = Lost | Unauthenticated | Exhausted | Deliver | Answer | Hold


def next_step(now: Now) -> Step:
    for case, step in (
        (now.lost, Lost()),
        (not now.authentic, Unauthenticated()),
        (now.exhausted, Exhausted()),
        (now.released, Answer()),
        (now.ready, Deliver()),
        (now.left <= 0, Answer()),
    ):
        if case:
            return step
    return Hold(now.left)
