"""Removal of old tombstones by upkeep, on a real Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
from airflow_provider_sfevents.spark.current_state.frames import collected, local_rows
from airflow_provider_sfevents.spark.current_state.state_tables import SET_ASIDE
from airflow_provider_sfevents.spark.upkeep.tombstones import remove_old
from tests.harness.jars import Jars, or_skip
from tests.spark.orgs import A, B, opened

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
NOW = datetime(2026, 11, 20, tzinfo=UTC)


def tombstone(record_id: str, days: int) -> dict[str, Any]:
    order = dict.fromkeys((*tables.SET_ASIDE_KEY[3:], *tables.ORDER), 0)
    return {
        "event_role": tables.TOMBSTONES,
        "entity_name": "Account",
        tables.RECORD_ID: record_id,
        **order,
        tables.COMMITTED_AT: NOW - timedelta(days=days),
    }


def test_only_tombstones_that_no_late_event_can_need_are_removed(
    spark: Any, jars: Jars, tmp_path: Path
) -> None:
    """An old tombstone of an entity with a later full snapshot goes, and a young one stays."""
    or_skip(lambda: jars.iceberg)
    state = opened(spark, str(tmp_path / "records"), "iceberg")
    with ApplyRun(state) as run:
        run.take()
        rows = [tombstone(A, 20), tombstone(B, 2)]
        added = local_rows(state.spark, rows, tables.SET_ASIDE_SQL)
        run.state.append(SET_ASIDE, added, writer=run.token)
        run.advance("applied", {"Account": NOW, "Contact": None})

    assert remove_old(state, dry_run=True) == 1
    assert len(collected(state.set_aside(tables.TOMBSTONES))) == 2
    assert remove_old(state, dry_run=False) == 1
    (left,) = collected(state.set_aside(tables.TOMBSTONES))
    assert left[tables.RECORD_ID] == B
