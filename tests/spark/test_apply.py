"""Change events to current state, on a real Spark with real tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.spark.changes.tables import APPLY_ORDER
from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import apply_snapshot
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import SnapshotOptions
from airflow_provider_sfevents.spark.current_state.state_tables import STATE_TABLES
from tests.spark.conftest import SOAKED_DELTA
from tests.spark.orgs import A, B, CurrentState, JobKilledError, event, killing, opened

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
C = "001000000000003AAA"


@pytest.fixture
def state(table_format: str, spark: Any, staging: Staging, tmp_path: Path) -> CurrentState:
    return CurrentState(spark, str(tmp_path / "current state"), table_format, staging)


@pytest.fixture
def one_state(spark: Any, staging: Staging, tmp_path: Path, jars: Any) -> CurrentState:
    """Tables of the format with the quicker commits, for rules that do not depend on the format."""
    from tests.harness.jars import or_skip

    or_skip(lambda: jars.iceberg)
    return CurrentState(spark, str(tmp_path / "current state"), "iceberg", staging)


@SOAKED_DELTA
def test_records_come_change_and_go(state: CurrentState, staging: Staging) -> None:
    """Updates set the fields that they name, a new field is added, and a batch applies once."""
    first = state.stage(
        event(staging, 1, "CREATE", A, Name="Acme", Industry="Mining", Employees=3),
        event(staging, 2, "CREATE", B, Name={"FirstName": "Ada", "LastName": "Byron"}),
    )
    assert state.apply(first)["applied"] == 2
    second = state.stage(
        event(staging, 3, "UPDATE", A, Industry=None, changed=("Industry",), Employees=4),
        event(staging, 4, "UPDATE", A, schema="org_account2", changed=["0x20"], Extra__c=4.5),
        event(staging, 5, "DELETE", B),
    )

    counts = state.apply(second)

    acme = {"FirstName": None, "LastName": None, "Name": "Acme"}
    expected = {
        "record_id": A,
        "Industry": None,
        "Employees": 3,
        "Name": acme,
        "Extra__c": 4.5,
        "is_deleted": False,
        "applied_batch_number": 2,
        "applied_ordinal": 1,
    }
    assert state.rows("Account", *expected) == [expected]
    assert (counts["applied"], counts["open_events"], counts["repeated"]) == (3, 0, 0)
    assert [row["record_id"] for row in state.rows("tombstones")] == [B]
    before = [state.rows(table) for table in ("Account", "seen", "applied_through")]
    assert state.apply(first)["applied"] == 0
    assert [state.rows(table) for table in ("Account", "seen", "applied_through")] == before


def test_a_job_with_other_options_than_the_first_is_refused(
    one_state: CurrentState, staging: Staging, tmp_path: Path
) -> None:
    """A job that would end the history, or delete rows where they are flagged, changes nothing."""
    state = one_state
    batches = [
        state.stage(event(staging, 1, "CREATE", A, Industry="Mining")),
        state.stage(event(staging, 2, "DELETE", A)),
    ]
    state.apply(batches[0], history=True, deletions="flag")
    state.spark.createDataFrame([], "Id string").write.parquet(str(tmp_path / "read"))
    snapshot = SnapshotOptions(
        current_state=state.root,
        table_format=state.table_format,
        entity="Account",
        records=str(tmp_path / "read"),
        records_format="parquet",
        read_at=datetime.now(UTC),
    )

    with pytest.raises(ConfigurationError, match=r"Account_history.*--history"):
        state.apply(batches[1], deletions="flag")
    with pytest.raises(ConfigurationError, match="deletions='flag'"):
        state.apply(batches[1], history=True)
    with pytest.raises(ConfigurationError, match="deletions='flag'"):
        apply_snapshot(state.spark, snapshot)

    assert state.rows("Account", "is_deleted") == [{"is_deleted": False}]
    state.apply(batches[1], history=True, deletions="flag")
    assert state.rows("Account", "is_deleted") == [{"is_deleted": True}]


def test_an_empty_start_from_a_later_batch_leaves_no_table(
    one_state: CurrentState, staging: Staging
) -> None:
    """A first batch that is refused makes no table of current state."""
    state = one_state
    state.stage(event(staging, 1, "CREATE", A, Industry="Mining"))
    second = state.stage(event(staging, 2, "UPDATE", A, Industry="Shipping"))

    with pytest.raises(ConfigurationError, match="events came before it"):
        state.apply(second)

    tables = opened(state.spark, state.root, state.table_format)
    assert not any(map(tables.exists, (*STATE_TABLES, "Account")))


@pytest.mark.soak
def test_killed_after_any_commit_it_comes_to_the_same_end(
    one_state: CurrentState, staging: Staging
) -> None:
    """A job killed while its batch lands, and before and after each commit, changes no result."""
    state = one_state
    state.options |= {"history": True}
    state.apply(
        state.stage(
            event(staging, 1, "CREATE", A, Name="Acme", Industry="Mining"),
            event(staging, 2, "CREATE", B, Industry="Farming"),
            event(staging, 3, "GAP_UPDATE", C),
        )
    )
    batch = state.stage(
        event(staging, 4, "UPDATE", A, Industry="Shipping"),
        event(staging, 5, "DELETE", B),
        event(staging, 6, "UPDATE", C, Industry="kept"),
        event(staging, 7, "SNAPSHOT", A),
        event(staging, 8, "CREATE", "003000000000001AAA", schema="org_contact", Industry="new"),
        event(staging, 9, "UPDATE", A, Industry="held"),
        ended_by="max_events",
    )

    def killed(name: str, _about: str) -> None:
        if name == steps.APPLY_COMMIT:
            raise JobKilledError

    def killed_landing(name: str, _about: str) -> None:
        if name == steps.LANDING_WRITE:
            raise JobKilledError

    for step in (killed_landing, killed, *map(killing, APPLY_ORDER)):
        with pytest.raises(JobKilledError):
            state.apply(batch, step)

    counts = state.apply(batch)

    assert state.rows("Account", "record_id", "Industry") == [
        {"record_id": A, "Industry": "Shipping"}
    ]
    assert state.rows("Contact", "Industry") == [{"Industry": "new"}]
    assert state.rows("resync", "record_id", "resync_reasons") == [
        {"record_id": A, "resync_reasons": ["unknown_type"]},
        {"record_id": C, "resync_reasons": ["gap"]},
    ]
    assert [row["record_id"] for row in state.rows("kept")] == [C]
    assert [row["record_id"] for row in state.rows("tombstones")] == [B]
    assert (
        len(state.rows("unapplied"))
        == len(state.rows("open_transaction"))
        == counts["open_events"]
        == 1
    )
    spans = state.rows("Account_history", "record_id", "Industry", "valid_from", "valid_to")
    begins = [(row["record_id"][14], row["Industry"], row["valid_from"].second) for row in spans]
    assert sorted(begins) == [("1", "Mining", 1), ("1", "Shipping", 4), ("2", "Farming", 2)]
    ends = {row["Industry"]: row["valid_to"] and row["valid_to"].second for row in spans}
    assert ends == {"Mining": 4, "Shipping": None, "Farming": 5}
    assert len(state.rows("seen")) == 8


def test_silence_releases_what_was_held(one_state: CurrentState, staging: Staging) -> None:
    """A flush may be repeated; the next batch follows it; an unapplied batch cannot be flushed."""
    state = one_state
    first = state.stage(
        event(staging, 1, "CREATE", A, key="t", Industry="Mining"), ended_by="max_events"
    )
    with pytest.raises(PositionConflictError, match="has not been applied yet"):
        state.apply(first, flush=True)
    assert state.apply(first)["open_events"] == 1
    assert state.rows("Account") == []

    assert state.apply(first, flush=True)["open_events"] == 0
    assert state.apply(first, flush=True)["open_events"] == 0

    assert state.rows("Account", "Industry") == [{"Industry": "Mining"}]
    second = state.stage(event(staging, 2, "UPDATE", A, key="t", Industry="Shipping"))
    assert state.apply(second)["applied"] == 1
    assert state.rows("Account", "Industry") == [{"Industry": "Shipping"}]


def test_what_cannot_be_decoded_marks_its_record_or_its_entity(
    one_state: CurrentState, staging: Staging
) -> None:
    """An undecodable event marks the record in its header; a damaged header marks the entity."""
    state = one_state
    counts = state.apply(
        state.stage(
            event(staging, 1, "CREATE", A, Industry="Mining"),
            event(staging, 2, "UPDATE", A, changed=["0xFF00"], Industry="lost"),
            ("org_contact", b"\x00spoilt"),
        )
    )

    assert state.rows("Account", "Industry") == [{"Industry": "Mining"}]
    assert (counts["resync_records"], counts["resync_entities"]) == (1, 1)
    assert state.rows("resync", "entity_name", "record_id", "resync_reasons") == [
        {"entity_name": "Account", "record_id": A, "resync_reasons": ["undecodable"]},
        {"entity_name": "Contact", "record_id": "*", "resync_reasons": ["undecodable"]},
    ]
    assert [row["entity_name"] for row in state.rows("unapplied")] == ["Account", "Contact"]


def test_another_source_a_hole_and_a_twin_are_refused(
    one_state: CurrentState, staging: Staging
) -> None:
    """A second source, a missing batch and a concurrent job are refused, and nothing is written."""
    state = one_state
    first = state.stage(event(staging, 1, "CREATE", A, Industry="Mining"))
    state.apply(first)
    second = state.stage(event(staging, 2, "UPDATE", A, Industry="Shipping"))
    third = state.stage(event(staging, 3, "UPDATE", A, Industry="Farming"))
    with pytest.raises(PositionConflictError, match="the next one of this epoch is 2"):
        state.apply(third)
    other = staging.write([event(staging, 1)], topic="/data/AccountChangeEvent", epoch="9e9e")
    with pytest.raises(PositionConflictError, match="These tables are fed by"):
        state.apply(other)
    with pytest.raises(ConfigurationError, match="no change events"):
        state.apply(staging.write([staging.order(1)], topic="/data/ChangeEvents", epoch="8d8d"))

    def twin(name: str, about: str) -> None:
        if (name, about) == (steps.APPLY_COMMIT, "rows Account"):
            state.apply(second)
            state.apply(third)

    with pytest.raises(PositionConflictError, match="this one gives way"):
        state.apply(second, twin)
    assert state.rows("Account", "Industry") == [{"Industry": "Farming"}]
