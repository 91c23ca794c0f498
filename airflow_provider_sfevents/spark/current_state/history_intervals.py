"""Rows of the history table from the states a record went through (`changes.history`). No I/O, no Spark."""

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

    from airflow_provider_sfevents.spark.changes.record import State


def changed_intervals(
    record_id: str, past: Iterable[Mapping[str, Any]], passed: Sequence[State]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What a record's history gets.

    :param past: keys of its intervals that are there; none if its last state before was that of a deleted record.
    :param passed: states it went through, at least one.
    :return: the interval that ends, of which only key and end are told (an end like its beginning: it goes); and those that begin.
    """
    was_open = _open_before(past, passed[0])
    found = versions(passed, None if was_open is None else was_open[VALID_FROM])
    closes: list[dict[str, Any]] = []
    if was_open is not None and found.closes is not None:
        closes = [{RECORD_ID: record_id, **was_open, VALID_TO: found.closes}]
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


def _open_before(past: Iterable[Mapping[str, Any]], first: State) -> dict[str, Any] | None:
    """The newest interval from before; those that a job wrote which then died, and is run again, are not."""
    is_read = first.read_at == first.committed_at
    before = [
        (order_of(one), one[VALID_FROM])
        for one in past
        if order_of(one) < first.order
        or (is_read and order_of(one) == first.order and one[VALID_FROM] < first.committed_at)
    ]
    if not before:
        return None
    order, valid_from = max(before)
    return {**order_parts(order), VALID_FROM: valid_from}
