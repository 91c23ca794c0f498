"""A run's events put in order by a task, from what identifies them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.current_state.event_rows import event_rows, values_column
from airflow_provider_sfevents.spark.current_state.intake.event_order import (
    answered,
    in_task,
    ordered,
)
from airflow_provider_sfevents.spark.current_state.state_rows import order_of, order_parts
from tests.unit.changes.building import A, B, change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.changes.event import Change

EARLIER = EventOrder(1, 0, 3)
HELD = [change(0, "CREATE", A, transaction_key="open"), change(1, transaction_key="open")]
ARRIVED = [
    change(2, "UPDATE", A, transaction_key="open", sequence_number=2),
    change(3, "UPDATE", B, Industry="Mining"),
    change(4, "UPDATE", "001*", Industry="Farming"),
    change(5, "DELETE", B, transaction_key="last"),
    change(6, "GAP_OVERFLOW", A, transaction_key="last"),
]
SEEN = {ARRIVED[1].identity: EARLIER, ARRIVED[2].identity: ARRIVED[2].order}


def batch(events: Sequence[Change], *, is_own: bool) -> pa.RecordBatch:
    """Events as a task gets them: without the values of those that are about records alone."""
    nothing = dict.fromkeys(order_parts(EARLIER, "seen"))
    rows: list[dict[str, Any]] = []
    for row, one in zip(event_rows(events).to_pylist(), events, strict=True):
        seen = SEEN.get(one.identity)
        found = nothing if seen is None else order_parts(seen, "seen")
        values = one.values if row["is_wide"] else None
        rows.append({**row, values_column(one.entity): values, "is_own": is_own, **found})
    return pa.RecordBatch.from_pylist(rows)


@pytest.mark.parametrize("ended_by", ["max_events", "idle_seconds"])
def test_a_task_answers_as_the_driver_would(ended_by: str) -> None:
    """A task sorts events as the driver does, in whatever batches the rows come."""
    batches = [batch(ARRIVED[2:], is_own=True), batch(HELD, is_own=False)]
    batches.append(batch(ARRIVED[:2], is_own=True))

    rows = [one for found in in_task(ended_by, iter(batches)) for one in found.to_pylist()]

    *repeats, answer = rows
    assert [order_of(one, "event") for one in repeats] == [ARRIVED[1].order]
    found = answered(answer["answer"])
    expected = ordered(HELD, ARRIVED, SEEN, ended_by)
    assert (found.repeated, found.met) == (1, 2)
    assert replace(found, repeats=(ARRIVED[1].order,)) == expected


def test_a_transaction_that_goes_on_stays_held() -> None:
    """Events held before are counted apart from those that the batch adds."""
    found = ordered(HELD, ARRIVED[:1], {}, "max_events")
    assert (found.open_from, found.open_events, found.added) == (HELD[0].order, 3, 1)
    assert found.summary.first_at == {}
    assert not found.identified


def test_a_transaction_that_ends_is_released() -> None:
    """A transaction that ends leaves the held events, and the next open one comes in."""
    found = ordered(HELD, ARRIVED, {}, "max_events")
    assert (found.open_from, found.open_events, found.added) == (ARRIVED[3].order, 2, 2)
    assert found.summary.first == (ARRIVED[0].committed_at, False)
    assert [one.record_ids for one in found.summary.about_entities] == [("001*",)]
    assert found.identified
