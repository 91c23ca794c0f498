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
    :param valid_to: exclusive; None: it still is so.
    :param was_read: it was read from the org rather than told by an event.
    """

    order: EventOrder
    valid_from: datetime
    valid_to: datetime | None
    values: Mapping[str, Any]
    was_read: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Changes of the history of one record.

    :param closes: when its open interval ends, if it has one and it does; equal to its beginning:
        it lasted no time and is removed.
    :param opens: intervals to be written, in order; those that are there under the same key are the
        same.
    """

    closes: datetime | None
    opens: tuple[Interval, ...]


def versions(passed: Iterable[RecordState], open_since: datetime | None) -> Versions:
    """Make intervals of the states a record went through.

    :param passed: as `record.fold` and `snapshot_rules.fold_snapshot` tell them; deleted ones open
        no interval.
    :param open_since: beginning of the interval that was open before: the record's newest one in
        the table of a lesser order than the first of these; None: there is none, or a deletion had
        ended it.
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
