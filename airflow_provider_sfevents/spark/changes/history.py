"""Intervals of the history table: values of a record, with their beginning and end.

An interval begins with the commit time of the event that made it, and ends where the next begins.
States that lasted no time (several changes within one second, the steps of a transaction) are left
out. A state of an entity snapshot begins when the snapshot was read, because no event says when the
change behind it happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.order import EventOrder
    from airflow_provider_sfevents.spark.changes.record import RecordState


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Values of a record during one interval.

    :param order: of the event that made it; with the record's id the row's key.
    :param valid_from: inclusive.
    :param valid_to: exclusive; None while the interval is open.
    :param was_read: its values come from an entity snapshot, and not from an event.
    """

    order: EventOrder
    valid_from: datetime
    valid_to: datetime | None
    values: Mapping[str, Any]
    was_read: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Changes of the history of one record.

    :param closes: end of the record's open interval; None: there is none, or it stays open. An end
        that equals the beginning removes the interval, because it lasted no time.
    :param opens: intervals to write, in order; an existing row with the same key is the same
        interval.
    """

    closes: datetime | None
    opens: tuple[Interval, ...]


def versions(passed: Iterable[RecordState], open_since: datetime | None) -> Versions:
    """Make intervals of the states a record went through.

    :param passed: as returned by `record.fold` and `snapshot_rules.fold_snapshot`; a deleted state
        opens no interval.
    :param open_since: beginning of the interval that was open before these states: the record's
        newest one in the table with a lower order. None: there is none, or a deletion has ended it.
    """
    states = _in_time(passed, open_since)
    if not states:
        return Versions(closes=None, opens=())
    ends: list[datetime | None] = [*(at for at, _ in states[1:]), None]
    return Versions(
        closes=states[0][0] if open_since is not None else None,
        opens=tuple(
            Interval(
                order=state.order,
                valid_from=at,
                valid_to=end,
                values=state.values,
                was_read=state.read_at == state.committed_at,
            )
            for (at, state), end in zip(states, ends, strict=True)
            if not state.deleted and at != end
        ),
    )


def _in_time(
    passed: Iterable[RecordState], open_since: datetime | None
) -> list[tuple[datetime, RecordState]]:
    """States with their beginnings, which never go back.

    The order of events counts more than the servers' clocks.
    """
    found: list[tuple[datetime, RecordState]] = []
    latest = open_since
    for state in passed:
        latest = state.committed_at if latest is None else max(latest, state.committed_at)
        found.append((latest, state))
    return found
