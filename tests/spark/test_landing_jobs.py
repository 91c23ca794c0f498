"""The number of Spark jobs of a landing, which is the same on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.spark.conftest import Staging
    from tests.spark.lakes import Tables

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

MOST = {"parquet": 3, "delta": 11, "iceberg": 7}
"""Of Delta's, two are the count of a table's files that each of its MERGEs makes for its metrics;
Delta's next version takes it from the commit's checksum file."""


def jobs(spark: Any) -> int:
    """Number of the jobs that the application has run."""
    return int(spark._jsc.sc().statusStore().jobsList(None).size())


def test_a_batch_of_one_type_takes_few_spark_jobs(any_tables: Tables, staging: Staging) -> None:
    """A later batch on the same dates takes up to 3 jobs in Parquet, 11 in Delta, 7 in Iceberg."""
    events = [staging.order(number) for number in range(20)]
    any_tables.land(staging.write(events))
    manifest = staging.write(events, batch_number=2)
    before = jobs(any_tables.spark)

    any_tables.land(manifest)

    assert jobs(any_tables.spark) - before <= MOST[any_tables.table_format]
