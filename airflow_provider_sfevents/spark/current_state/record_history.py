"""Rows of a record's history: the intervals that end, begin, or were left by a killed run.

An interval begins with the commit time of the event that made it, inclusive, and ends where the
next begins, exclusive. States that lasted no time (several changes within one second, the steps of
a transaction) are left out. A state of an entity snapshot begins when the snapshot was read,
because no event says when the change behind it happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.changes.tables import RECORD_ID
from airflow_provider_sfevents.spark.current_state.state_rows import (
    VALID_FROM,
    VALID_TO,
    WAS_READ,
    order_of,
    order_parts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.order import EventOrder
    from airflow_provider_sfevents.spark.changes.record import RecordState


def changed_intervals(
    record_id: str,
    known: RecordState | None,
    past: Iterable[Mapping[str, Any]],
    passed: Sequence[RecordState],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Make the changes of a record's history.

    :param known: the record's state before.
    :param past: keys and ends of its existing intervals.
    :param passed: states it went through, at least one; a deleted state begins no interval.
    :return: the intervals that end, with only key and end (an end that equals the beginning removes
        one); and those that begin.
    """
    intervals = list(past)
    left = _left_by_killed_runs(known, intervals)
    kept = [] if known is None or known.deleted else [one for one in intervals if one not in left]
    was_open = _open_before(kept, passed[0])
    states = _in_time(passed, None if was_open is None else was_open[VALID_FROM])
    ends = [*(at for at, _ in states[1:]), None]
    opens = [
        {
            RECORD_ID: record_id,
            **order_parts(state.order),
            VALID_FROM: at,
            VALID_TO: end,
            WAS_READ: state.read_at == state.committed_at,
            **state.values,
        }
        for (at, state), end in zip(states, ends, strict=True)
        if not state.deleted and at != end
    ]
    begun = {_key(one) for one in opens}
    closes = [
        {
            RECORD_ID: record_id,
            **order_parts(order_of(one)),
            VALID_FROM: one[VALID_FROM],
            VALID_TO: one[VALID_FROM],
        }
        for one in left
        if _key(one) not in begun
    ]
    if was_open is not None:
        closes.append({RECORD_ID: record_id, **was_open, VALID_TO: states[0][0]})
    return closes, opens


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


def _key(interval: Mapping[str, Any]) -> tuple[EventOrder, datetime]:
    return order_of(interval), interval[VALID_FROM]


def _left_by_killed_runs(
    known: RecordState | None, past: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Find the intervals of runs that were killed before the record's row was written.

    The same batch makes the same intervals again, but a snapshot that is run again has read at
    another time.
    """
    if known is not None:
        # None begins after the latest of the commit times that made the state.
        return [one for one in past if _key(one) > (known.order, known.committed_at)]
    # Of a record without a row none is open; those before it without a gap are of the same run.
    left: list[Mapping[str, Any]] = []
    begins: datetime | None = None
    for one in sorted(past, key=_key, reverse=True):
        if one[VALID_TO] is None or one[VALID_TO] == begins:
            left.append(one)
            begins = one[VALID_FROM]
    return left


def _open_before(past: Iterable[Mapping[str, Any]], first: RecordState) -> dict[str, Any] | None:
    """The newest interval from before this batch.

    Intervals that a killed run of this batch has written do not count.
    """
    is_read = first.read_at == first.committed_at
    before = [
        _key(one)
        for one in past
        if order_of(one) < first.order
        or (is_read and order_of(one) == first.order and one[VALID_FROM] < first.committed_at)
    ]
    if not before:
        return None
    order, valid_from = max(before)
    return {**order_parts(order), VALID_FROM: valid_from}
