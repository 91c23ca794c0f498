"""Landings in Delta and Iceberg tables that are killed, or meet twins, batches or other forms."""

from __future__ import annotations

import logging
import shutil
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import NotLandedError
from airflow_provider_sfevents.spark import read_table
from airflow_provider_sfevents.spark.tables.merging import conflicts
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest
from tests.harness.killed import Killed, kill
from tests.spark.conftest import SOAKED_DELTA, Staging, at
from tests.spark.lakes import by_path

if TYPE_CHECKING:
    from tests.spark.lakes import Tables

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

OLDER = "2026-11-02T06:30:00+00:00"
NEWER = "2026-11-02T06:40:00.5+00:00"


@pytest.mark.parametrize(
    ("table_format", "table"), [("delta", "_quarantine"), ("iceberg", "Order__e")]
)
def test_killed_between_two_tables_the_next_landing_makes_it_whole(
    tables: Tables, staging: Staging, table: str
) -> None:
    """After a kill between two tables' commits, the next landing has every row once."""
    alert = staging.event("alert", CreatedDate=0, CreatedById="005A", At__c=1)
    manifest = staging.write([staging.order(0), alert, ("order", b"")])

    def killed(name: str, about: str) -> None:
        if (name, about) == (steps.LANDING_MOVE, table):
            raise Killed

    with pytest.raises(Killed):
        tables.land(manifest, killed)
    assert not (staging.batch / layout.RECEIPT).exists()

    tables.land(manifest)

    assert tables.events() == [("0f3c-1", 0)]
    assert tables.events("Alert__e") == [("0f3c-1", 1)]
    assert tables.events("_quarantine") == [("0f3c-1", 2)]
    assert not tables.under_way()


@pytest.mark.parametrize("table_format", ["delta"])
def test_a_landing_waits_for_the_first_commit_of_a_table_that_another_job_creates(
    tables: Tables, staging: Staging, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A Delta table has a folder for its log before it has a commit; a landing tries again."""
    tables.land(staging.write([staging.order(0)]))
    # Elsewhere, because Spark keeps what it has read of a log.
    lake = shutil.copytree(tables.folder, tmp_path / "their lake")
    other = by_path(tables.table_format, tables.spark, lake)
    log, commits = lake / "Order__e" / "_delta_log", tmp_path / "commits"
    log.rename(commits)
    log.mkdir()
    retries = logging.getLogger(conflicts.__name__)
    waits = 0

    def commit(_: logging.LogRecord) -> bool:
        nonlocal waits
        waits += 1
        if waits == 1:
            log.rmdir()
            commits.rename(log)
        return True

    retries.addFilter(commit)
    try:
        with caplog.at_level(logging.INFO, conflicts.__name__):
            other.land(staging.write([staging.order(1)], batch_number=2))
    finally:
        retries.removeFilter(commit)

    assert waits == 1
    assert other.events() == [("0f3c-1", 0), ("0f3c-2", 0)]


def test_readers_of_landed_batches_see_no_part_of_a_killed_one(
    quick_tables: Tables, staging: Staging
) -> None:
    """Readers of landed batches see no row of a batch that was killed between two tables."""
    tables = quick_tables
    tables.land(staging.write([staging.order(9)], batch_number=2))
    manifest = staging.write([staging.order(0), staging.order(1)])
    with pytest.raises(Killed):
        tables.land(manifest, at(steps.LANDING_LANDED, kill))

    landed = read_table(
        tables.spark,
        tables.table,
        "Order__e",
        landed_only=True,
        table_format=tables.table_format,
    )

    assert len(tables.events()) == 3
    assert [row.batch_id for row in landed.collect()] == ["0f3c-2"]


@SOAKED_DELTA
def test_twins_that_commit_at_the_same_time_leave_every_row_once(
    tables: Tables, staging: Staging
) -> None:
    """Two first landings of one batch that commit at the same time leave every row once."""
    manifest = staging.write([staging.order(n, day=n % 2) for n in range(50)], per_part=20)
    both_ready = threading.Barrier(2)
    failures: list[BaseException] = []

    def twin() -> None:
        waited = False

        def step(name: str, _about: str) -> None:
            nonlocal waited
            if name == steps.LANDING_MOVE and not waited:
                waited = True
                both_ready.wait()

        try:
            tables.land(manifest, step)
        except BaseException as failure:  # noqa: BLE001 - shown by the test's own thread
            failures.append(failure)
            both_ready.abort()

    twins = [threading.Thread(target=twin) for _ in range(2)]
    for thread in twins:
        thread.start()
    for thread in twins:
        thread.join()

    assert failures == []
    assert tables.events() == [("0f3c-1", n) for n in range(50)]


def test_two_batches_that_commit_at_the_same_time_both_land(
    tables: Tables, staging: Staging
) -> None:
    """Two batches that commit to one table and date at the same time both land."""
    manifests = [
        staging.write([staging.order(n) for n in range(5)], batch_number=1),
        staging.write([staging.order(n) for n in range(5, 10)], batch_number=2),
    ]
    both_ready = threading.Barrier(2)
    failures: list[BaseException] = []

    def one(manifest: str) -> None:
        try:
            tables.land(manifest, at(steps.LANDING_MOVE, both_ready.wait))
        except BaseException as failure:  # noqa: BLE001 - as above
            failures.append(failure)
            both_ready.abort()

    both = [threading.Thread(target=one, args=(manifest,)) for manifest in manifests]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()

    assert failures == []
    assert tables.events() == [(f"0f3c-{batch}", n) for batch in (1, 2) for n in range(5)]


@dataclass
class Forms:
    """One batch, staged twice: the older one has more, of another type."""

    older: str
    newer: str


@pytest.fixture
def forms(staging: Staging, tmp_path: Path) -> Forms:
    other = Staging(tmp_path / "other worker")
    alert = staging.event("alert", CreatedDate=0, CreatedById="005A", At__c=1)
    return Forms(
        older=staging.write([staging.order(0), staging.order(1), alert], created_at=OLDER),
        newer=other.write([other.order(0), other.order(1, day=1)], created_at=NEWER),
    )


def test_the_form_that_has_landed_stays(quick_tables: Tables, forms: Forms) -> None:
    """The other form changes nothing, and its receipt has the counts and end of the landed one."""
    tables = quick_tables
    tables.land(forms.older)
    before = tables.commits()

    receipt = tables.land(forms.newer)

    assert (tables.commits(), receipt.events) == (before, 3)
    assert receipt.end == Manifest.from_json(Path(forms.older).read_text(), "").end
    assert tables.events() == [("0f3c-1", 0), ("0f3c-1", 1)]


def test_an_older_form_is_overtaken_between_two_commits(tables: Tables, forms: Forms) -> None:
    """A newer form that lands between an older form's commits replaces it, and stays."""
    overtaken = at(steps.LANDING_MOVE, lambda: tables.land(forms.newer), 2)

    receipt = tables.land(forms.older, overtaken)

    assert receipt.events == 2
    assert tables.events("Alert__e") == []
    assert tables.rows("Order__e", "batch_ordinal", "cast(event_date as string)") == [
        (0, "2026-11-01"),
        (1, "2026-11-02"),
    ]
    assert tables.landed()["0f3c-1"].staged_at == datetime.fromisoformat(NEWER)


def test_a_row_of_the_ledger_alone_does_not_count_as_landed(
    quick_tables: Tables, forms: Forms
) -> None:
    """A ledger row whose rows are gone from the table does not count as landed."""
    tables = quick_tables
    tables.land(forms.older)
    tables.sql("truncate table {}")

    with pytest.raises(NotLandedError, match="holds 0 rows of it instead of 2"):
        tables.land(forms.newer)

    tables.land(forms.older)
    assert tables.events() == [("0f3c-1", 0), ("0f3c-1", 1)]
