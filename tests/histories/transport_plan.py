"""Histories of one bus that is read over both of Salesforce's APIs; the seed decides all of one.

A history has rounds. In each, events are published, then each API is read once, with a fault. An
API may break off within an answer, so what is delivered again differs between the two.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

EXPIRED_HOURS = 80.0
"""Longer than events and replay ids are kept (72 hours)."""

REORDER = "reorder_next"
WHOLE = 100
"""Bound of a batch that takes all events of a history."""

_CUTS = ("reset", "goaway", "rst_stream")
_STATUSES = ("NOT_FOUND", "UNAVAILABLE", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED")
"""Answers of the Streaming API: unknown client with the advice of a handshake, busy (503), invalid
token (401) with the advice to stop, over the limit (403)."""


_OF_BOTH = ("repeat_next", "restart", "expire_tokens", REORDER)
ALL_FAULTS = (
    *(f"pubsub: {one}" for one in ("UNAVAILABLE", "service.auth.error", "resend_on_reconnect")),
    *(f"pubsub: {one}" for one in (*_CUTS, *_OF_BOTH)),
    *(f"streaming: {one}" for one in (*_STATUSES, "reset", "hold", "cookies", *_OF_BOTH)),
)
"""Names of all faults, by API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One fault: a verb of the emulator and its arguments."""

    verb: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        said = self.arguments
        return str(said.get("how") or said.get("status") or said.get("error_code") or self.verb)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round.

    :param events: number of events published first.
    :param max_events: bound of the batch that each API is read by.
    :param faults: by API, before it is read.
    :param dies: APIs whose reader dies before it has staged its batch.
    :param hours: all events are read, and so many hours pass, before anything else.
    """

    events: int
    max_events: int
    faults: dict[str, Order]
    dies: frozenset[str]
    hours: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One history.

    :param changes: change events of an object's records; otherwise platform events.
    """

    seed: int
    changes: bool
    rounds: tuple[Round, ...]


def planned(seed: int) -> Plan:
    """Plan the history of a seed."""
    pick = random.Random(seed)  # noqa: S311 - repeatable, guards nothing
    changes = pick.random() < 0.4
    rounds = [_round(pick, changes=changes, first=not one) for one in range(pick.choice((1, 1, 2)))]
    return Plan(seed=seed, changes=changes, rounds=tuple(rounds))


def _round(pick: random.Random, *, changes: bool, first: bool) -> Round:
    of_api = {"pubsub": _of_pubsub, "streaming": _of_streaming}
    faults = {
        api: order(pick, changes=changes) for api, order in of_api.items() if pick.random() < 0.6
    }
    # A position between re-ordered events passes over some of them: a batch takes all or none.
    is_whole = any(one.verb == REORDER for one in faults.values())
    return Round(
        events=pick.randint(1, 6),
        max_events=WHOLE if is_whole else pick.choice((2, 5, WHOLE)),
        faults=faults,
        dies=frozenset(api for api in of_api if pick.random() < 0.1),
        hours=EXPIRED_HOURS if not first and pick.random() < 0.15 else 0.0,
    )


def _of_pubsub(pick: random.Random, *, changes: bool) -> Order:
    after = pick.randint(0, 3)
    call = {"rpc": "Subscribe", "after": after}
    return pick.choice(
        (
            Order(verb="fail_next", arguments={**call, "status": "UNAVAILABLE"}),
            Order(verb="fail_next", arguments={**call, "error_code": "service.auth.error"}),
            Order(verb="fail_next", arguments={**call, "how": pick.choice(_CUTS)}),
            Order(verb="resend_on_reconnect", arguments={"events": pick.randint(1, 3)}),
            *_of_both(pick, changes=changes),
        )
    )


def _of_streaming(pick: random.Random, *, changes: bool) -> Order:
    call = {"rpc": "cometd", "after": pick.randint(0, 4)}
    late = {"rpc": "cometd", "after": pick.randint(2, 4)}  # handshake and subscription come first
    return pick.choice(
        (
            *(
                Order(verb="fail_next", arguments={**call, "status": status})
                for status in _STATUSES
            ),
            *(Order(verb="fail_next", arguments={**late, "how": "reset"}) for _ in range(3)),
            Order(verb="fail_next", arguments={**late, "how": "hold", "after_seconds": 0.02}),
            Order(verb="fail_next", arguments={**call, "how": "cookies"}),
            *_of_both(pick, changes=changes),
        )
    )


def _of_both(pick: random.Random, *, changes: bool) -> tuple[Order, ...]:
    """Faults of either API. Salesforce keeps the order of change events."""
    found = (
        Order(verb="repeat_next", arguments={"events": pick.randint(1, 4)}),
        Order(verb="restart"),
        Order(verb="expire_tokens", arguments={"in_stream": True}),
    )
    if changes:
        return found
    return (*found, Order(verb=REORDER, arguments={"events": pick.randint(2, 4)}))
