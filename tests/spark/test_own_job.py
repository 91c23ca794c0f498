"""The template for a user's own Spark job (`dags/jobs`), on staged batches."""

from __future__ import annotations

import json
import runpy
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Lake, Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def job(repository: Path) -> dict[str, Any]:
    """Load a copy of the template, and return the names that it defines."""
    return runpy.run_path(str(repository / "dags/jobs/sized_orders.py"))


def test_it_writes_each_event_once_however_often_it_runs(
    spark: Any, staging: Staging, lake: Lake, job: dict[str, Any]
) -> None:
    """The template writes each event once however often it runs, and its receipt counts all."""
    orders = [
        staging.event("order", CreatedDate=0, CreatedById="5", Amount__c=amount)
        for amount in (1.0, 1e3)
    ]
    manifest = staging.write([*orders, ("order", b"\x00")])
    other = staging.write(orders[:1], batch_number=2)

    for url in (manifest, other, manifest):
        job["run"](spark, url, str(lake.root))

    columns = "batch_id, batch_ordinal, Amount__c, size"
    assert lake.rows("Order__e", columns) == [
        ("0f3c-1", 0, 1.0, "small"),
        ("0f3c-1", 1, 1000.0, "large"),
        ("0f3c-2", 0, 1.0, "small"),
    ]
    assert lake.rows("bad", "batch_id, batch_ordinal") == [("0f3c-1", 2)]
    receipt = json.loads((staging.folder / "0f3c/0000000001/receipt.json").read_text())
    assert (sum(receipt["tables"].values()), receipt["quarantined"]) == (2, 1)
