"""Rows of a record's history: the intervals that end, begin, or were left by a killed run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.changes.history import versions
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
    :param passed: states it went through, at least one.
    :return: the intervals that end, with only key and end (an end that equals the beginning removes
        one); and those that begin.
    """
    intervals = list(past)
    left = _left_by_killed_runs(known, intervals)
    kept = [] if known is None or known.deleted else [one for one in intervals if one not in left]
    was_open = _open_before(kept, passed[0])
    found = versions(passed, None if was_open is None else was_open[VALID_FROM])
    closes: list[dict[str, Any]] = []
    if was_open is not None and found.closes is not None:
        closes = [{RECORD_ID: record_id, **was_open, VALID_TO: found.closes}]
    begun = {(one.order, one.valid_from) for one in found.opens}
    closes += [
        {
            RECORD_ID: record_id,
            **order_parts(order_of(one)),
            VALID_FROM: one[VALID_FROM],
            VALID_TO: one[VALID_FROM],
        }
        for one in left
        if _key(one) not in begun
    ]
    opens = [
        {
            RECORD_ID: record_id,
            **order_parts(one.order),
            VALID_FROM: one.valid_from,
            VALID_TO: one.valid_to,
            WAS_READ: one.was_read,
            **one.values,
        }
        for one in found.opens
    ]
    return closes, opens


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
