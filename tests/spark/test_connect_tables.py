"""Rules of landing, snapshots and upkeep over Spark Connect, by the classic tests.

The classic tests have both formats; here they are in Iceberg tables, whose commits are quicker.
`test_connect_killed` has applying, in Delta tables.
"""

from __future__ import annotations

import pytest

from tests.harness.jars import Jars, or_skip
from tests.spark.connected import server_url, spark
from tests.spark.test_apply_snapshots import test_tables_are_seeded_by_bulk_and_by_rest
from tests.spark.test_tables import (
    test_each_landing_is_one_commit_for_each_table,
    test_events_delivered_again_land_once,
    test_landing_another_form_replaces_exactly_the_batchs_rows,
)
from tests.spark.test_upkeep import test_many_small_files_become_few_with_the_same_rows

__all__ = [
    "server_url",
    "spark",
    "test_each_landing_is_one_commit_for_each_table",
    "test_events_delivered_again_land_once",
    "test_landing_another_form_replaces_exactly_the_batchs_rows",
    "test_many_small_files_become_few_with_the_same_rows",
    "test_tables_are_seeded_by_bulk_and_by_rest",
]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.soak,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def table_format(jars: Jars) -> str:
    """The format that the rules are tested in; skipped if its jars cannot be had."""
    or_skip(lambda: jars.iceberg)
    return "iceberg"
