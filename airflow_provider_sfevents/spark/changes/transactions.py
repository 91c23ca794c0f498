"""Sort the events of a batch: repeats, events to release, and the open transaction.

A batch that ended by a bound may have cut a transaction in two. Its last transaction is held back
until an event of another transaction comes, or a batch ends by silence. Repeats are removed first,
because a repeat from an old transaction does not end a newer one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from airflow_provider_sfevents.spark.changes.event import OVERFLOW, Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.order import EventOrder

SILENCE = "idle_seconds"
"""End of a batch when nothing more was delivered."""

SEEN_FOR = timedelta(days=12)
"""Least time that identities are kept: four times as long as the bus keeps events."""


class Sortable(Protocol):
    """The part of a `Change` that sorting and the summary need."""

    @property
    def order(self) -> EventOrder: ...
    @property
    def identity(self) -> str: ...
    @property
    def transaction_key(self) -> str: ...
    @property
    def committed_at(self) -> datetime: ...
    @property
    def entity(self) -> str: ...
    @property
    def about_entity(self) -> Change | None: ...


Event = TypeVar("Event", bound=Sortable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Generic[Event]):
    """A batch's events, sorted.

    :param released: events to apply or keep now, in order.
    :param held: events of the open transaction, held back for the next batch, in order.
    :param repeats: events that were seen before; they change nothing.
    """

    released: tuple[Event, ...]
    held: tuple[Event, ...]
    repeats: tuple[Event, ...]


def sort(
    held: Iterable[Event], arrived: Iterable[Event], seen: Mapping[str, EventOrder], ended_by: str
) -> Ready[Event]:
    """Sort a batch's events, after those held from the batch before.

    :param seen: identities, each with the order at which it came first. An identity that was seen
        at the event's own order is no repeat: a job that runs again meets its own events.
    """
    news, repeats = split_repeats((*held, *arrived), seen)
    hold_from = cut([(one.order, one.transaction_key) for one in news], ended_by)
    return Ready(
        released=tuple(one for one in news if hold_from is None or one.order < hold_from),
        held=tuple(one for one in news if hold_from is not None and hold_from <= one.order),
        repeats=tuple(repeats),
    )


def split_repeats(
    events: Iterable[Event], seen: Mapping[str, EventOrder]
) -> tuple[list[Event], list[Event]]:
    """Separate new events from repeats, each in order.

    An event without an identity is never taken for another.
    """
    news: list[Event] = []
    repeats: list[Event] = []
    met: set[str] = set()
    for _, change in sorted({one.order: one for one in events}.items()):
        identity = change.identity
        earlier = seen.get(identity, change.order) < change.order
        is_repeat = bool(identity) and (earlier or identity in met)
        (repeats if is_repeat else news).append(change)
        met.add(identity)
    return news, repeats


def cut(keys: Sequence[tuple[EventOrder, str]], ended_by: str) -> EventOrder | None:
    """Find the order from which events are held back; None if none is.

    In SQL: the first order after the last one whose key is neither empty nor that of the last event
    that has a key.

    :param keys: of the events that are no repeats: order and transaction key, in order. An event
        without a key belongs to no transaction and ends none; it is held back only between two that
        are.
    """
    last = next((key for _, key in reversed(keys) if key), "")
    if ended_by == SILENCE or not last:
        return None
    start = None
    for order, key in reversed(keys):
        if key not in {last, ""}:
            break
        start = order if key == last else start
    return start


def about_entities(released: Sequence[Sortable]) -> tuple[Change, ...]:
    """Collect the parts of events that are about an entity.

    An overflow event moves to its transaction's end: the other events of the transaction were sent
    in full, and are applied first.
    """
    found = [part for one in released if (part := one.about_entity) is not None]
    if not found:
        return ()
    ends = {one.transaction_key: one.order for one in released}
    return tuple(
        replace(one, order=ends[one.transaction_key])
        if one.change_type == OVERFLOW and one.transaction_key
        else one
        for one in found
    )
