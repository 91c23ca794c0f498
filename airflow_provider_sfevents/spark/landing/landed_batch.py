"""A batch whose rows are in the event tables: a landing's result for the rest of the same job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.spark.landing.staged_batch import StagedBatch
    from airflow_provider_sfevents.spark.tables.interface import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedBatch:
    """A batch, and the tables that it has landed in.

    :param staged: with the plan by which it has landed.
    :param dates: event dates of its rows, by table; ISO-8601.
    """

    staged: StagedBatch
    tables: Tables
    dates: Mapping[str, Sequence[str]]
