"""An apply reads its events as they land: few from the landing's files, many from the event tables.

This includes events that the landing left out as duplicates, and events whose values are in other
columns of the event table. Landings that leave out duplicates, and applies, are tested in both
formats elsewhere.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.spark.changes.tables import ROLES
from airflow_provider_sfevents.spark.current_state.frames import read_here
from airflow_provider_sfevents.spark.current_state.state_tables import STATE_TABLES
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.tables.merging.merged_tables import MergedTables
from airflow_provider_sfevents.staging import layout
from tests.harness.jars import or_skip
from tests.spark.event_schemas import SCHEMAS
from tests.spark.lakes import by_path
from tests.spark.orgs import A, B, CurrentState, event, opened

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.landing.landed_batch import LandedBatch
    from tests.spark.conftest import Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(params=[True, False], ids=["few", "many"])
def state(
    spark: Any, staging: Staging, tmp_path: Path, jars: Any, request: pytest.FixtureRequest
) -> CurrentState:
    """Tables of the format with the quicker commits, for rules that do not depend on the format."""
    or_skip(lambda: jars.iceberg)
    root = str(tmp_path / "current state")
    return CurrentState(spark, root, "iceberg", staging, few=request.param)


@pytest.fixture
def delta_state(spark: Any, staging: Staging, tmp_path: Path, jars: Any) -> CurrentState:
    """Tables whose versions are numbers, and whose compaction is one statement."""
    or_skip(lambda: jars.delta)
    return CurrentState(spark, str(tmp_path / "current state"), "delta", staging)


def industries(state: CurrentState) -> dict[str, str]:
    return {row["record_id"]: row["Industry"] for row in state.rows("Account")}


def test_what_another_consumer_has_landed_is_applied(state: CurrentState, staging: Staging) -> None:
    """Events that another consumer has landed are left out by the landing, and applied."""
    told = [
        event(staging, 1, "CREATE", A, Industry="Mining"),
        event(staging, 2, "CREATE", B, Industry="Farming"),
        event(staging, 3, "UPDATE", B, changed=["0xFF00"], Industry="lost"),
    ]
    others = staging.write(told, consumer="other", topic="/data/ChangeEvents", epoch="77aa")
    log = by_path(state.table_format, state.spark, Path(state.log))
    log.land(others)
    ids = [f"id-77aa-1-{ordinal}" for ordinal in range(3)]
    batch = state.stage(
        *told, event(staging, 4, "UPDATE", A, Industry="Shipping"), ids=[*ids, "new"]
    )

    counts = state.apply(batch)

    assert log.rows("AccountChangeEvent", "event_id") == [
        ("id-77aa-1-0",),
        ("id-77aa-1-1",),
        ("new",),
    ]
    assert industries(state) == {A: "Shipping", B: "Farming"}
    assert (counts["applied"], counts["repeated"], counts["unapplied"]) == (3, 0, 1)
    assert [row["record_id"] for row in state.rows("resync")] == [B]


def test_a_change_that_is_delivered_again_changes_nothing(
    delta_state: CurrentState, staging: Staging
) -> None:
    """A redelivery with another event id or none, after a compaction, is a repeat."""
    state = delta_state
    told = [
        event(staging, 1, "CREATE", A, Industry="Mining"),
        event(staging, 2, "UPDATE", A, Industry="Shipping"),
    ]
    state.apply(state.stage(told[0], told[1]))
    log = by_path(state.table_format, state.spark, Path(state.log))
    log.sql("OPTIMIZE {}", "AccountChangeEvent")
    batch = state.stage(
        told[0],
        told[1],
        event(staging, 3, "UPDATE", A, Industry="Tourism"),
        start="aa",
        ids=["another", "", "third"],
    )

    counts = state.apply(batch)

    assert (counts["applied"], counts["repeated"], counts["resync_entities"]) == (1, 2, 0)
    assert industries(state) == {A: "Tourism"}
    assert len(log.events("AccountChangeEvent")) == 3


def test_events_are_there_to_read_before_the_landing_has_ended(
    state: CurrentState, staging: Staging
) -> None:
    """A landing passes its rows on before its last commit: all, and each once."""
    log = by_path(state.table_format, state.spark, Path(state.log))
    batch = state.stage(
        event(staging, 1, "CREATE", A, Industry="Mining"),
        event(staging, 2, "CREATE", B, Industry="Farming"),
        event(staging, 2, "CREATE", B, Industry="Farming"),
    )
    seen: list[int] = []

    def read(landed: LandedBatch) -> None:
        (table,) = landed.dates
        if landed.contents:
            assert landed.tables.schema(table) is None
            found = read_here(landed.contents.values(), "batch_ordinal BIGINT")
            seen.extend(found.column(0).to_pylist())
            return
        batch_id = landed.staged.manifest.batch_id
        assert isinstance(landed.tables, MergedTables)
        rows = landed.tables.of_batch(table, batch_id, landed.dates[table], "batch_ordinal INT")
        seen.extend(row[0] for row in rows.collect())

    land(state.spark, log.options(batch), rows_found=read)

    assert sorted(seen) == [0, 1]


def test_an_attempt_that_gives_way_applies_what_the_other_has_landed(
    state: CurrentState, staging: Staging
) -> None:
    """An event that is in quarantine is not applied, although this attempt could decode it."""
    log = by_path(state.table_format, state.spark, Path(state.log))
    batch = state.stage(
        event(staging, 1, "CREATE", A, Industry="Mining"),
        event(staging, 2, "CREATE", "003000000000001AAA", schema="org_contact", Industry="new"),
    )
    schema = staging.batch / layout.schema_name("org_contact")
    unknown = staging.batch / layout.unknown_schema_name("org_contact")
    others: list[int] = []

    def overtaken(name: str, _about: str) -> None:
        if name == steps.LANDING_MOVE and not others:
            known = schema.read_text()
            schema.unlink()
            unknown.write_text("not found")
            others.append(log.land(batch).quarantined)
            unknown.unlink()
            schema.write_text(known)

    state.apply(batch, overtaken)

    assert others == [1]
    assert len(log.rows("_quarantine", "batch_id")) == 1
    assert state.rows("Contact") == []
    assert [row["resync_reasons"] for row in state.rows("resync")] == [["unseeded", "undecodable"]]


def test_an_attempt_that_gives_way_leaves_applying_to_the_other(
    delta_state: CurrentState, staging: Staging
) -> None:
    """An attempt whose batch another one lands and applies stops, and its next try has it done."""
    state = delta_state
    batch = state.stage(event(staging, 1, "CREATE", A, Industry="Mining"))
    counts: list[dict[str, int]] = []

    def overtaken(name: str, _about: str) -> None:
        if name == steps.LANDING_MOVE and not counts:
            # The run of this attempt takes the tables while the batch lands.
            while not state.tables.progress().writer:
                time.sleep(0.05)
            counts.append(state.apply(batch))

    with pytest.raises(PositionConflictError, match="this one gives way"):
        state.apply(batch, overtaken)

    assert counts[0]["applied"] == 1
    assert industries(state) == {A: "Mining"}
    assert state.apply(batch)["applied"] == 0
    assert industries(state) == {A: "Mining"}


def test_a_field_that_changed_its_kind_in_the_event_table_has_one_column_in_the_records(
    state: CurrentState, staging: Staging
) -> None:
    """A table of records that began after a change of kind has the new kind alone."""
    number = {"name": "Extra__c", "type": ["null", "double"], "doc": "Data:Double", "default": None}
    words = {**number, "type": ["null", "string"], "doc": "Data:Text"}
    for name, extra in (("of_number", number), ("of_words", words)):
        fields = [*SCHEMAS["org_account"]["fields"], extra]
        staging.schemas[name] = SCHEMAS[name] = {**SCHEMAS["org_account"], "fields": fields}
    log = by_path(state.table_format, state.spark, Path(state.log))
    before = [event(staging, 1, "CREATE", A, schema="of_number", Extra__c=1.5)]
    log.land(staging.write(before, topic="/data/ChangeEvents", epoch="77aa"))

    state.apply(state.stage(event(staging, 2, "CREATE", A, schema="of_words", Extra__c="many")))

    both = "concat_ws(' ', Extra__c, Extra__c__string)"
    assert log.rows("AccountChangeEvent", both) == [("1.5",), ("many",)]
    (row,) = state.rows("Account")
    assert row["Extra__c"] == "many"
    assert "Extra__c__string" not in row


def test_a_batch_that_touches_one_entity_makes_six_commits(
    delta_state: CurrentState, staging: Staging
) -> None:
    """The first batch of an entity makes six commits, although it has something for every table."""
    state = delta_state
    contact = "003000000000001AAA"
    state.apply(
        state.stage(
            event(staging, 1, "CREATE", contact, schema="org_contact", Industry="Mining"),
            event(staging, 2, "CREATE", A, Industry="Mining"),
            ended_by="max_events",
        )
    )
    batch = state.stage(
        event(staging, 3, "CREATE", B, Industry="Farming"),
        event(staging, 4, "DELETE", B),
        event(staging, 5, "GAP_UPDATE", A),
        event(staging, 6, "UPDATE", A, Industry="kept"),
        event(staging, 7, "SNAPSHOT", A),
        event(staging, 8, "UPDATE", A, Industry="open"),
        ended_by="max_events",
    )
    before = commits(state)

    state.apply(batch)

    assert industries(state) == {A: "Mining"}
    roles = {role: len(state.rows(role)) for role in ROLES}
    assert roles == {"kept": 1, "unapplied": 1, "open_transaction": 2, "tombstones": 1}
    assert [row["record_id"] for row in state.rows("resync")] == [A]
    made = {table: number - before[table] for table, number in commits(state).items()}
    assert made == {"applied_through": 2, "seen": 1, "resync": 1, "set_aside": 1, "Account": 1}


def commits(state: CurrentState) -> dict[str, int]:
    """The version of each Delta table, which each commit counts up."""
    tables = opened(state.spark, state.root, state.table_format)
    return {table: int(tables.version(table) or 0) for table in (*STATE_TABLES, "Account")}
