"""A batch as it lands in the event tables: a landing's result for the rest of the same job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.spark.landing.staged_batch import StagedBatch
    from airflow_provider_sfevents.spark.tables.interface import Tables

FEW = 1_000
"""So many events, and as many records, are few: a job holds them in the driver."""
FEW_BYTES = 16 * 1024 * 1024
"""Events with more bytes of payload are not few, however many they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedBatch:
    """A batch, and the tables that it lands in.

    :param staged: with the plan by which it lands.
    :param dates: event dates of its rows, by table; ISO-8601.
    :param contents: of the Parquet files that are committed to the tables, by path as of
        `file_moves.written_path`, if its events are few and the driver wrote them; otherwise none.
    :param gave_way: the rows in the tables are those of another attempt, which may have known other
        schemas.
    """

    staged: StagedBatch
    tables: Tables
    dates: Mapping[str, Sequence[str]]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    gave_way: bool = False
