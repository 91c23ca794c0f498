"""Decide on a connect: answer at once, hold, deliver events or refuse. No I/O.

Rules (Streaming API Developer Guide, "Clients and Timeouts" and "Handling Streaming API Errors"):
1. a client's first connect is answered at once, with advice; so is one that came with other
   messages;
2. a later one is held until there are events, or for 110 s;
3. tokens are checked while it is held; a held connect keeps its session from expiring;
4. where the org's allocation is used up, the client is disconnected, at its first connect or later.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectState:
    """Facts for the decision on a connect.

    :param lost: the client's session is gone.
    :param authentic: its token is valid.
    :param exhausted: the org has used up its delivery allocation.
    :param ready: an event is ready for the client.
    :param released: answer without events, because the client may have gone.
    :param left: seconds that it may still be held.
    """

    lost: bool
    authentic: bool
    exhausted: bool
    ready: bool
    released: bool
    left: float


@dataclass(frozen=True, slots=True)
class Lost:
    """Answer that the client is unknown."""


@dataclass(frozen=True, slots=True)
class Unauthenticated:
    """Answer that the token is invalid."""


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Answer that the allocation is used up."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Answer with the events that are ready."""


@dataclass(frozen=True, slots=True)
class AnswerEmpty:
    """Answer without events."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait until a wake-up, at most this long."""

    seconds: float


Step = Lost | Unauthenticated | Exhausted | Deliver | AnswerEmpty | Hold


def next_step(now: ConnectState) -> Step:
    for case, step in (
        (now.lost, Lost()),
        (not now.authentic, Unauthenticated()),
        (now.exhausted, Exhausted()),
        (now.released, AnswerEmpty()),
        (now.ready, Deliver()),
        (now.left <= 0, AnswerEmpty()),
    ):
        if case:
            return step
    return Hold(now.left)
