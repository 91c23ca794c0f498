"""Two jobs over one set of tables: the job that began first commits nothing more."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.changes.source import ChangeBatch, Progress, admit
from airflow_provider_sfevents.spark.changes.transactions import SEEN_FOR, SILENCE
from airflow_provider_sfevents.spark.current_state import state_tables
from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
from airflow_provider_sfevents.spark.current_state.frames import collected, local_rows
from airflow_provider_sfevents.spark.current_state.intake.event_intake import (
    Arrived,
    new_identities,
    released_events,
)
from airflow_provider_sfevents.spark.current_state.intake.seen_identities import see
from airflow_provider_sfevents.spark.current_state.state_rows import order_parts
from airflow_provider_sfevents.spark.current_state.state_tables import progress_of
from tests.harness.step_hooks import no_step, on_steps
from tests.histories.delivery import SOURCE
from tests.histories.spark_lake import applied, events_of
from tests.spark.conftest import SOAKED_DELTA
from tests.spark.orgs import opened
from tests.unit.changes.building import LAYOUT, A, B, change, second

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables
    from tests.harness.step_hooks import OnStep

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


STATEMENTS = {"iceberg": tables.APPLY_ORDER, "delta": ("history", "rows")}
"""Each statement in one format, and each format."""
TABLES = {"rows": "Account", "history": "Account_history"}
"""Tables of the statements that are not named for their table."""
LONGEST_WAIT = 300
"""Seconds."""
C, D = "001000000000003AAA", "001000000000004AAA"


@dataclass
class Records:
    """Tables of records with a history, fed batch by batch with events that are made here."""

    tables: StateTables
    applied: list[tuple[ChangeBatch, list[Change]]] = field(default_factory=list)

    def batch(self, *events: Change) -> tuple[ChangeBatch, list[Change]]:
        """Make the next batch, which a bound has ended."""
        number = len(self.applied) + 1
        before = self.applied[-1][0].end if self.applied else "earliest"
        batch = ChangeBatch(
            source=SOURCE,
            epoch="e",
            batch_number=number,
            start=before,
            end=f"{number:04x}",
            ended_by="max_events",
            opened_at=second(number * 100 + 99),
        )
        told = [
            replace(
                one,
                order=EventOrder(1, number, at),
                committed_at=second(number * 100 + at),
                transaction_key=f"{number}-{at}",
            )
            for at, one in enumerate(events)
        ]
        self.applied.append((batch, told))
        return batch, told

    def apply(self, batch: ChangeBatch, events: list[Change], step: OnStep = no_step) -> None:
        with (
            on_steps(step),
            ApplyRun(self.tables, new_entities="empty", history=True) as run,
        ):
            admission = admit(progress_of(run.progress), batch)
            layouts = {one.entity: LAYOUT for one in events}
            rows = events_of(self.tables.spark, events, layouts)
            arrived = Arrived(self.tables, len(events), f"{run.folder}/arrived")
            applied(run, batch, admission, arrived, rows, layouts)

    def rows(self, name: str) -> list[Any]:
        return sorted(collected(self.tables.rows(name, "none_there int")), key=str)

    def versions(self) -> dict[str, str]:
        """Version of each table, which every commit changes."""
        names = [*state_tables.STATE_TABLES, "Account", "Account_history"]
        return {name: self.tables.version(name) for name in names}


EVENTS = [
    change(0, "UPDATE", A, Industry="Shipping"),
    change(1, "CREATE", B, Industry="Farming"),
    change(2, "DELETE", B),
    change(3, "GAP_UPDATE", C),
    change(4, "UPDATE", C, Industry="kept"),
    change(5, "SNAPSHOT", D),
    change(6, "CREATE", "003000000000001AAA", Industry="new", entity="Contact"),
    change(7, "UPDATE", A, Phone="held"),
]
"""They write to every table, and the last one is held."""


@SOAKED_DELTA
def test_a_stale_run_changes_nothing_by_any_statement(
    table_format: str, spark: Any, tmp_path: Path
) -> None:
    """A run whose tables are taken before a statement commits no row by it, and gives way."""
    records = Records(opened(spark, str(tmp_path / "records"), table_format))
    records.apply(*records.batch(change(0, "CREATE", A, Industry="Mining")))
    batch, events = records.batch(*EVENTS)
    before: dict[str, list[Any]] = {}
    for name in STATEMENTS[table_format]:
        table = TABLES.get(name, name)
        versions: dict[str, str] = {}

        def stall(
            step: str,
            about: str,
            name: str = name,
            table: str = table,
            versions: dict[str, str] = versions,
        ) -> None:
            if name not in before and (step, about.partition(" ")[0]) == (steps.APPLY_COMMIT, name):
                with ApplyRun(records.tables) as other:
                    other.take()
                before[name] = records.rows(table)
                versions.update(records.versions())

        with pytest.raises(PositionConflictError, match="this one gives way"):
            records.apply(batch, events, stall)

        # A statement that changes no row may commit an empty version of its own table.
        assert records.rows(table) == before[name], name
        assert {**records.versions(), table: versions[table]} == versions, name

    records.apply(batch, events)

    for name, there in before.items():
        assert records.rows(TABLES.get(name, name)) != there, name


NUMBER = 10
"""Of a batch that removes old identities."""
SWEEPING = ChangeBatch(
    source=SOURCE,
    epoch="e",
    batch_number=NUMBER,
    start="earliest",
    end="0a",
    ended_by=SILENCE,
    opened_at=second(0),
)
BEFORE = Progress(
    source=SOURCE,
    generation=1,
    epoch="e",
    batch_number=NUMBER - 1,
    end="09",
    heard_since=second(0),
)
AGES = {"old": SEEN_FOR + timedelta(seconds=1), "recent": SEEN_FOR}


def add_identities(run: ApplyRun) -> None:
    rows = [
        {**order_parts(EventOrder(1, 1, at), "event"), "event_identity": name, "seen_at": when}
        for at, (name, when) in enumerate((name, second(0) - age) for name, age in AGES.items())
    ]
    added = local_rows(run.state.spark, rows, tables.SEEN_SQL).coalesce(1)
    run.state.append(state_tables.SEEN, added, writer=run.token)


def identities(state: StateTables) -> list[str]:
    there = collected(state.rows(state_tables.SEEN, tables.SEEN_SQL))
    return sorted(row["event_identity"] for row in there)


@SOAKED_DELTA
def test_old_identities_go_in_the_commit_that_adds_new_ones(
    table_format: str, spark: Any, tmp_path: Path
) -> None:
    """Every tenth batch removes the identities older than 12 days, and those alone."""
    state = opened(spark, str(tmp_path / "records"), table_format)
    new = change(0, "CREATE", A)
    with ApplyRun(state) as run:
        run.take()
        add_identities(run)
        found = events_of(state.spark, [new], {new.entity: LAYOUT})
        arrived = Arrived(state, 1, f"{run.folder}/arrived")
        arrived.read_held((1, NUMBER), BEFORE)
        arrived.find([lambda _: found])
        order = arrived.sort(SILENCE, BEFORE)

        see(
            run,
            SWEEPING,
            BEFORE,
            new_identities(released_events(arrived, order), arrived, order),
        )

    assert identities(state) == sorted(["recent", new.identity])


@SOAKED_DELTA
def test_identities_are_seen_although_another_commit_comes_between(
    table_format: str, spark: Any, tmp_path: Path
) -> None:
    """If another job rewrites files of the identities at that moment, they are merged again."""
    state = opened(spark, str(tmp_path / "records"), table_format)
    with ApplyRun(state) as run, ThreadPoolExecutor(1) as pool:
        run.take()
        add_identities(run)
        began, go = tmp_path / "began", tmp_path / "go"
        new = [{**order_parts(EventOrder(1, NUMBER, 0), "event"), "event_identity": "new"}]
        columns = tables.SEEN_SQL.rpartition(", ")[0]
        rows = local_rows(state.spark, new, columns).mapInArrow(
            waiting(f"{run.folder}/old/_SUCCESS", began, go), columns
        )

        seeing = pool.submit(see, run, SWEEPING, BEFORE, rows)
        while not (began.exists() or seeing.done()):
            time.sleep(0.02)
        target = state._dialect.identifier(state_tables.SEEN)
        state.spark.sql(f"DELETE FROM {target} WHERE event_identity = 'recent'")  # noqa: S608
        go.touch()
        seeing.result()

    assert identities(state) == ["new"]


def waiting(armed: str, began: Path, go: Path) -> Any:
    """Return the rows unchanged; once `armed` is there, the first time only after `go` is, too."""

    def wait(batches: Any) -> Any:
        if Path(armed).exists() and not began.exists():
            began.touch()
            until = time.monotonic() + LONGEST_WAIT
            while not go.exists():
                if time.monotonic() > until:
                    raise TimeoutError("the other one never committed")
                time.sleep(0.02)
        yield from batches

    return wait
