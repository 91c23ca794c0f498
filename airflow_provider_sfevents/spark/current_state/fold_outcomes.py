"""What a run has folded, on its way into the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.current_state.fold_records import DONE, DROP, PUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.changes.fields import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was folded of one entity.

    :param rows: outcomes (`folding.OUTCOME_SQL`), computed once (`frames.acted`).
    :param counts: how many rows of each kind there are, and what became of events.
    :param few: whether they are of few records, so that the driver has them.
    """

    entity: str
    layout: Layout
    rows: DataFrame
    counts: Mapping[str, int]
    few: bool


def counted(rows: DataFrame) -> dict[str, int]:
    """Count what there is to write, and what became of events."""
    done = [f"coalesce(sum(fold_counts['{name}']), 0) AS {name}" for name in DONE]
    found = rows.selectExpr(
        "count_if(row_write <> '' OR row_bury) AS rows_written",
        f"count_if(row_write IN ('{PUT}', '{DROP}')) AS rows_changed",
        "count_if(row_bury) AS rows_buried",
        f"count_if(mark_write IN ('{PUT}', '{DROP}')) AS marks_changed",
        "count_if(size(kept_events) > 0) AS rows_kept",
        "count_if(settled_generation IS NOT NULL) AS rows_settled",
        "count_if(size(put_aside) > 0) AS rows_aside",
        *(
            f"count_if(read_answer = '{answer}') AS answer_{answer}"
            for answer in ("replaced", "deleted", "newer", "refused")
        ),
        *done,
    ).collect()[0]
    return {name: int(number) for name, number in found.asDict().items()}
