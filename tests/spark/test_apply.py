"""Change events to current state, on a real Spark with real tables."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.spark.changes.tables import APPLY_ORDER
from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import resolve
from tests.spark.orgs import A, B, CurrentState, JobKilledError, event, killing

if TYPE_CHECKING:
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
def delta_state(spark: Any, staging: Staging, tmp_path: Path, jars: Any) -> CurrentState:
    """What the formats have no part in."""
    from tests.harness.jars import or_skip

    or_skip(lambda: jars.delta)
    return CurrentState(spark, str(tmp_path / "current state"), "delta", staging)


def test_records_come_change_and_go(state: CurrentState, staging: Staging) -> None:
    """Exactly the fields that an UPDATE names are set, a field that is new is added, a batch applied again changes nothing."""
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
        "applied_sequence": 2,
        "applied_ordinal": 1,
    }
    assert state.rows("Account", *expected) == [expected]
    assert (counts["applied"], counts["held"], counts["repeated"]) == (3, 0, 0)
    assert [row["record_id"] for row in state.rows("tombstones")] == [B]
    before = [state.rows(table) for table in ("Account", "seen", "applied_through")]
    assert state.apply(first)["applied"] == 0
    assert [state.rows(table) for table in ("Account", "seen", "applied_through")] == before


def test_a_history_is_not_left_behind(delta_state: CurrentState, staging: Staging) -> None:
    """A job that would not keep it is refused, and nothing is applied; it says what to give, or to drop."""
    state = delta_state
    batches = [
        state.stage(event(staging, 1, "CREATE", A, Industry="Mining")),
        state.stage(event(staging, 2, "UPDATE", A, Industry="Shipping")),
    ]
    state.apply(batches[0], history=True)

    with pytest.raises(ConfigurationError, match=r"Account_history.*--history"):
        state.apply(batches[1], history=False)

    assert [row["Industry"] for row in state.rows("Account", "Industry")] == ["Mining"]
    state.apply(batches[1], history=True)
    assert [row["Industry"] for row in state.rows("Account", "Industry")] == ["Shipping"]


def test_deletions_are_as_the_first_batch_had_them(
    delta_state: CurrentState, staging: Staging
) -> None:
    """An apply and a resolve that would take rows away where they are flagged are refused, and change nothing."""
    state = delta_state
    batches = [
        state.stage(event(staging, 1, "CREATE", A, Industry="Mining")),
        state.stage(event(staging, 2, "DELETE", A)),
    ]
    state.apply(batches[0], deletions="flag")

    with pytest.raises(ConfigurationError, match="deletions='flag'"):
        state.apply(batches[1])
    with pytest.raises(ConfigurationError, match="deletions='flag'"):
        resolve(
            state.spark,
            str(state.root),
            "delta",
            "Account",
            state.spark.createDataFrame([], "Id string"),
            read_at=datetime.now(UTC),
        )

    assert state.rows("Account", "is_deleted") == [{"is_deleted": False}]
    state.apply(batches[1], deletions="flag")
    assert state.rows("Account", "is_deleted") == [{"is_deleted": True}]


def test_killed_after_any_commit_it_comes_to_the_same_end(
    delta_state: CurrentState, staging: Staging
) -> None:
    """A batch that writes to every table, with a history; died after each in turn, run again, and the same as never killed."""
    state = delta_state
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
    for table in APPLY_ORDER:
        with pytest.raises(JobKilledError):
            state.apply(batch, killing(table))

    counts = state.apply(batch)

    assert state.rows("Account", "record_id", "Industry") == [
        {"record_id": A, "Industry": "Shipping"}
    ]
    assert state.rows("Contact", "Industry") == [{"Industry": "new"}]
    assert state.rows("resync", "record_id", "mark_reasons") == [
        {"record_id": A, "mark_reasons": ["unknown_type"]},
        {"record_id": C, "mark_reasons": ["gap"]},
    ]
    assert [row["record_id"] for row in state.rows("kept")] == [C]
    assert [row["record_id"] for row in state.rows("tombstones")] == [B]
    assert len(state.rows("unapplied")) == len(state.rows("held")) == counts["held"] == 1
    spans = state.rows("Account_history", "record_id", "Industry", "valid_from", "valid_to")
    begins = [(row["record_id"][14], row["Industry"], row["valid_from"].second) for row in spans]
    assert sorted(begins) == [("1", "Mining", 1), ("1", "Shipping", 4), ("2", "Farming", 2)]
    ends = {row["Industry"]: row["valid_to"] and row["valid_to"].second for row in spans}
    assert ends == {"Mining": 4, "Shipping": None, "Farming": 5}
    assert len(state.rows("seen")) == 8


def test_silence_releases_what_was_held(delta_state: CurrentState, staging: Staging) -> None:
    """A flush may be repeated, the next batch follows it, and an unapplied batch has none."""
    state = delta_state
    first = state.stage(
        event(staging, 1, "CREATE", A, key="t", Industry="Mining"), ended_by="max_events"
    )
    with pytest.raises(PositionConflictError, match="has not been applied yet"):
        state.apply(first, flush=True)
    assert state.apply(first)["held"] == 1
    assert state.rows("Account") == []

    assert state.apply(first, flush=True)["held"] == 0
    assert state.apply(first, flush=True)["held"] == 0

    assert state.rows("Account", "Industry") == [{"Industry": "Mining"}]
    second = state.stage(event(staging, 2, "UPDATE", A, key="t", Industry="Shipping"))
    assert state.apply(second)["applied"] == 1
    assert state.rows("Account", "Industry") == [{"Industry": "Shipping"}]


def test_what_cannot_be_decoded_marks_its_record_or_its_entity(
    delta_state: CurrentState, staging: Staging
) -> None:
    """A bit beyond the schema: the header still says which record; a damaged header says which entity."""
    state = delta_state
    counts = state.apply(
        state.stage(
            event(staging, 1, "CREATE", A, Industry="Mining"),
            event(staging, 2, "UPDATE", A, changed=["0xFF00"], Industry="lost"),
            ("org_contact", b"\x00spoilt"),
        )
    )

    assert state.rows("Account", "Industry") == [{"Industry": "Mining"}]
    assert (counts["marked_records"], counts["marked_entities"]) == (1, 1)
    assert state.rows("resync", "entity_name", "record_id", "mark_reasons") == [
        {"entity_name": "Account", "record_id": A, "mark_reasons": ["undecodable"]},
        {"entity_name": "Contact", "record_id": "*", "mark_reasons": ["undecodable"]},
    ]
    assert [row["entity_name"] for row in state.rows("unapplied")] == ["Account", "Contact"]


def test_another_source_a_hole_and_a_twin_are_refused(
    delta_state: CurrentState, staging: Staging
) -> None:
    """Each with one error that says what to do; nothing is written."""
    state = delta_state
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
        if (name, about) == ("apply-commit", "rows Account"):
            state.apply(second)

    with pytest.raises(PositionConflictError, match="this one gives way"):
        state.apply(second, twin)
    assert state.rows("Account", "Industry") == [{"Industry": "Shipping"}]
    assert state.apply(third)["applied"] == 1


def test_a_twin_that_stalls_before_its_commits_undoes_nothing(
    state: CurrentState, staging: Staging
) -> None:
    """It wakes up when a later batch has been applied: marks, held events and the history stay."""
    state.options |= {"history": True}
    state.apply(
        state.stage(
            event(staging, 1, "CREATE", A, Industry="Mining"),
            event(staging, 2, "CREATE", B, Industry="Farming"),
            event(staging, 3, "GAP_UPDATE", B),
        )
    )
    # The mark of B goes, and comes again with the next batch.
    second = state.stage(
        event(staging, 4, "UPDATE", A, Industry="Shipping"),
        event(staging, 5, "DELETE", B),
        event(staging, 6, "UPDATE", A, Industry="first held"),
        ended_by="max_events",
    )
    third = state.stage(
        event(staging, 7, "GAP_UNDELETE", B),
        event(staging, 8, "UPDATE", A, Industry="Tourism"),
        event(staging, 9, "UPDATE", A, Industry="then held"),
        ended_by="max_events",
    )
    tables = ("Account", "Account_history", "resync", "kept", "tombstones", "entities")
    left: list[Any] = []

    def stall(name: str, _about: str) -> None:
        if name == "apply-commit" and not left:
            left.append(None)
            (own,) = Path(state.root, "_applying").iterdir()
            state.apply(second)
            state.apply(third)
            left[:] = [{table: state.rows(table) for table in (*tables, "held")}]
            own.mkdir(parents=True)  # the twin had its last look at it before

    with pytest.raises(PositionConflictError, match="this one gives way"):
        state.apply(second, stall)

    found = {table: state.rows(table) for table in tables}
    held = left[0].pop("held")
    assert found == left[0]
    assert [row["record_id"] for row in found["resync"]] == [B]
    assert [row for row in state.rows("held") if row in held] == held != []
