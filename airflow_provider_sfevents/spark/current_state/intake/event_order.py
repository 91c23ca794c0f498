"""Sort a run's events: find repeats and the open transaction, and summarise the batch.

No I/O, no Spark. The functions need the events' identities, and the values only of events about an
entity as a whole. The driver sorts few events by itself. Many events are sorted in one task
(`in_task`), so that the driver receives only the summary; the orders of repeats stay rows.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.changes.plan import Summary, summarised
from airflow_provider_sfevents.spark.changes.tables import EVENT_ORDER, EVENT_ORDER_SQL
from airflow_provider_sfevents.spark.changes.transactions import Sortable, sort
from airflow_provider_sfevents.spark.current_state.event_rows import event_of
from airflow_provider_sfevents.spark.current_state.frames import rows_of
from airflow_provider_sfevents.spark.current_state.state_rows import order_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.event import Change

ANSWER_SQL = f"{EVENT_ORDER_SQL}, answer binary"


class Placed(NamedTuple):
    """An event as sorting needs it: a tuple, because there may be a million in one task."""

    order: EventOrder
    identity: str
    transaction_key: str
    committed_at: datetime
    entity: str
    about_entity: Change | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """The events of a run, sorted.

    :param repeats: orders of events that were seen before; there are `repeated`.
    :param met: number of identities that were seen before, also at an event's own order.
    :param open_from: order of the first event of the open transaction; None: there is none.
    :param open_events: number of its events; `added` of them are the batch's own.
    :param identified: whether an event that is released has an identity.
    """

    summary: Summary
    repeats: tuple[EventOrder, ...]
    repeated: int
    met: int
    open_from: EventOrder | None
    open_events: int
    added: int
    identified: bool


def ordered(
    held: Sequence[Sortable],
    arrived: Sequence[Sortable],
    seen: Mapping[str, EventOrder],
    ended_by: str,
) -> Ordered:
    """Sort the events of a run (`transactions.sort`), and make their summary."""
    ready = sort(held, arrived, seen, ended_by)
    own = {one.order for one in arrived}
    return Ordered(
        summary=summarised(arrived, ready),
        repeats=tuple(one.order for one in ready.repeats),
        repeated=len(ready.repeats),
        met=len(seen),
        open_from=ready.held[0].order if ready.held else None,
        open_events=len(ready.held),
        added=sum(one.order in own for one in ready.held),
        identified=any(one.identity for one in ready.released),
    )


def of_rows(rows: Iterable[Mapping[str, Any]], ended_by: str) -> Ordered:
    """Sort events by their rows.

    :param rows: what `Placed` has; of events with `is_wide` all that `event_of` reads; `is_own`:
        the event is the batch's own; and the order at which its identity was seen first
        (`seen_generation` and so on), null for a new one.
    """
    held: list[Placed] = []
    arrived: list[Placed] = []
    seen: dict[str, EventOrder] = {}
    for row in rows:
        identity = row["event_identity"]
        placed = Placed(
            order_of(row, "event"),
            identity,
            row["transaction_key"],
            row["committed_at"],
            row["entity_name"],
            event_of(row).about_entity if row["is_wide"] else None,
        )
        (arrived if row["is_own"] else held).append(placed)
        if row["seen_generation"] is not None:
            seen[identity] = order_of(row, "seen")
    return ordered(held, arrived, seen, ended_by)


def in_task(ended_by: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sort all events of a run in one task: a row for each repeat, and one with the answer."""
    found = of_rows((row for batch in batches for row in rows_of(batch)), ended_by)
    orders = list(zip(*found.repeats, strict=True)) or [()] * len(EventOrder._fields)
    answer = pickle.dumps(replace(found, repeats=()))
    columns = [pa.array([*parts, None], pa.int64()) for parts in orders]
    columns.append(pa.array([*(None for _ in found.repeats), answer], pa.binary()))
    yield pa.RecordBatch.from_arrays(columns, names=[*EVENT_ORDER, "answer"])


def answered(answer: bytes) -> Ordered:
    """Read the answer of `in_task`, which has no orders of repeats."""
    found: Ordered = pickle.loads(answer)  # noqa: S301 - a task of this very job wrote it
    return found
