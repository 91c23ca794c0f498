"""Current state in a catalog, by name: the job by its command line, with `--flush`.

In Iceberg tables; `test_connect_tables` has it in Delta tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark import apply
from airflow_provider_sfevents.spark.changes.tables import TOMBSTONES
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Receipt
from tests.harness.jars import Jars, or_skip
from tests.spark.lakes import Tables, by_name
from tests.spark.orgs import A, B, CurrentState, event

if TYPE_CHECKING:
    from tests.spark.conftest import Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def table_format(jars: Jars) -> str:
    or_skip(lambda: jars.iceberg)
    return "iceberg"


def applied(log: Tables, records: Tables, manifest: str, *more: str) -> dict[str, int]:
    """Run the job, and read `applied` from the receipt on disk."""
    where = ["--table", log.table, "--current-state", records.table, "--format", log.table_format]
    how = ["--new-entities", "empty", "--history"]
    *_, act = apply.job_of(["--manifest", manifest, *where, *how, *more])
    act(log.spark, None)
    receipt = Path(manifest).with_name(layout.RECEIPT)
    return dict(Receipt.from_json(receipt.read_text(), str(receipt)).applied or {})


def spans(records: Tables) -> list[tuple[Any, ...]]:
    """Read the history table: record, value, and the seconds in which each row began and ended."""
    return records.rows(
        "Account_history", "record_id", "Industry", "second(valid_from)", "second(valid_to)"
    )


def test_records_their_history_and_what_was_held_are_in_a_catalog(
    table_format: str, spark: Any, staging: Staging, tmp_path: Path
) -> None:
    """Current state and history are kept by name in a catalog, with an open transaction flushed."""
    log, records = (by_name(table_format, spark, tmp_path / name) for name in ("log", "records"))
    state = CurrentState(spark, records.table, table_format, staging)
    first = state.stage(
        event(staging, 1, "CREATE", A, Industry="Mining"),
        event(staging, 2, "CREATE", B, Industry="Farming"),
        event(staging, 3, "UPDATE", A, key="t", Industry="Shipping"),
        event(staging, 4, "DELETE", B, key="t"),
        ended_by="max_events",
    )

    counts = applied(log, records, first)

    assert (counts["applied"], counts["open_events"]) == (2, 2)
    assert records.rows("Account", "record_id", "Industry") == [(A, "Mining"), (B, "Farming")]
    assert spans(records) == [(A, "Mining", 1, None), (B, "Farming", 2, None)]

    counts = applied(log, records, first, "--flush")

    assert (counts["applied"], counts["open_events"]) == (2, 0)
    assert records.rows("Account", "record_id", "Industry") == [(A, "Shipping")]
    aside = records.rows("set_aside", "event_role", "record_id")
    assert [one for one in aside if one[0] == TOMBSTONES] == [(TOMBSTONES, B)]
    told = [(A, "Mining", 1, 3), (A, "Shipping", 3, None), (B, "Farming", 2, 4)]
    assert spans(records) == told

    second = state.stage(
        event(staging, 5, "UPDATE", A, schema="org_account2", changed=["0x20"], Extra__c=4.5)
    )

    assert applied(log, records, second)["applied"] == 1

    assert records.rows("Account", "record_id", "Industry", "Extra__c") == [(A, "Shipping", 4.5)]
    told[1:2] = [(A, "Shipping", 3, 5), (A, "Shipping", 5, None)]
    assert spans(records) == told
    assert log.rows("AccountChangeEvent", "batch_number", "batch_ordinal") == [
        *((1, number) for number in range(4)),
        (2, 0),
    ]
