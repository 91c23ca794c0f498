"""Sort a run's events: find repeats and the open transaction, and summarise the batch.

No I/O, no Spark. The functions need the events' identities, and the values only of events about an
entity as a whole. The driver sorts few events by itself. Many events are sorted in one task
(`in_task`), so that the driver receives only the summary and the orders of repeats.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.changes.plan import Summary, summarised
from airflow_provider_sfevents.spark.changes.transactions import sort
from airflow_provider_sfevents.spark.current_state.event_rows import light
from airflow_provider_sfevents.spark.current_state.state_rows import order_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.order import EventOrder

ANSWER_SQL = "answer binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """The events of a run, sorted.

    :param repeats: orders of events that were seen before.
    :param open_from: order of the first event of the open transaction; None: there is none.
    :param open_events: number of its events; `added` of them are the batch's own.
    :param identified: whether an event that is released has an identity.
    """

    summary: Summary
    repeats: tuple[EventOrder, ...]
    open_from: EventOrder | None
    open_events: int
    added: int
    identified: bool


def ordered(
    held: Sequence[Change], arrived: Sequence[Change], seen: Mapping[str, EventOrder], ended_by: str
) -> Ordered:
    """Sort the events of a run (`transactions.sort`), and make their summary."""
    ready = sort(held, arrived, seen, ended_by)
    own = {one.order for one in arrived}
    return Ordered(
        summary=summarised(arrived, ready),
        repeats=tuple(one.order for one in ready.repeats),
        open_from=ready.held[0].order if ready.held else None,
        open_events=len(ready.held),
        added=sum(one.order in own for one in ready.held),
        identified=any(one.identity for one in ready.released),
    )


def of_rows(rows: Iterable[Mapping[str, object]], ended_by: str) -> Ordered:
    """Sort events by their rows.

    :param rows: what `light` reads; `is_own`: the event is the batch's own; and the order at which
        its identity was seen first (`seen_generation` and so on), null for one that is new.
    """
    held: list[Change] = []
    arrived: list[Change] = []
    seen: dict[str, EventOrder] = {}
    for row in rows:
        change = light(row)
        (arrived if row["is_own"] else held).append(change)
        if row["seen_generation"] is not None:
            seen[change.identity] = order_of(row, "seen")
    return ordered(held, arrived, seen, ended_by)


def in_task(ended_by: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sort all events of a run in one task, which returns one row."""
    import pyarrow as pa

    found = of_rows((row for batch in batches for row in batch.to_pylist()), ended_by)
    yield pa.RecordBatch.from_pydict({"answer": pa.array([pickle.dumps(found)], pa.binary())})


def answered(answer: bytes) -> Ordered:
    """Read the row that `in_task` returned."""
    found: Ordered = pickle.loads(answer)  # noqa: S301 - a task of this very job wrote it
    return found
