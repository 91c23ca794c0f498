"""The ledger of Delta and Iceberg tables accepts one form of each batch as landed."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.tables import ledger
from airflow_provider_sfevents.spark.tables.merging.conflicts import is_conflict
from airflow_provider_sfevents.spark.tables.merging.merged_ledger import (
    MergedLedger,
    OtherFormError,
)
from airflow_provider_sfevents.spark.tables.opening import open_dialect
from tests.harness.killed import Killed, kill
from tests.spark.conftest import SOAKED_DELTA, at
from tests.unit.spark.tables.test_ledger import ROW

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.tables.ledger import LedgerRow
    from tests.spark.conftest import Staging
    from tests.spark.lakes import Tables

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

OLDER = replace(ROW, revision=1)
NEWER = replace(OLDER, staged_at=OLDER.staged_at + timedelta(microseconds=1), attempt="b")


def opened(tables: Tables) -> MergedLedger:
    """The ledger in a session of its own, as each landing has it."""
    session, dialect, _ = open_dialect(
        tables.spark,
        Files(tables.spark),
        tables.table,
        tables.table_format,
    )
    return MergedLedger(session, dialect)


@SOAKED_DELTA
def test_a_row_lands_with_the_next_revision_and_never_over_another_form(tables: Tables) -> None:
    """A claim keeps another form out, is replaced by the next claim, and goes with the landing."""
    books = opened(tables)
    assert (books.version(), books.view(ROW.batch_id)) == ("", ledger.LedgerView())

    books.claim(OLDER)
    books.claim(NEWER)
    with pytest.raises(OtherFormError):
        books.write(OLDER)
    if tables.table_format == "delta":  # elsewhere it is not used
        assert not books.add(OLDER)
    assert books.view(ROW.batch_id).claimed_by == NEWER.staged_at
    assert books.rows().count() == 0
    books.write(NEWER)
    version = books.version()
    if tables.table_format == "delta":
        assert not books.add(OLDER)
    books.write(NEWER)

    found = books.view(ROW.batch_id)
    assert (found.row, found.claimed_by) == (replace(NEWER, revision=2), None)
    assert (books.version() != version, books.rows().count()) == (True, 1)
    for refused in (books.write, books.claim):
        with pytest.raises(OtherFormError):
            refused(OLDER)
    assert books.view("e-1").schemas == {("00D", "s", "{}")}


def test_two_forms_that_say_at_once_that_they_have_landed(tables: Tables) -> None:
    """Of two forms that record their landing at once, one writes its row and the other fails."""
    opened(tables).make()
    both_ready = threading.Barrier(2)
    said: list[Any] = []

    def say(row: LedgerRow) -> None:
        books = opened(tables)
        both_ready.wait()
        try:
            books.write(row)
            said.append(row.attempt)
        except Exception as error:  # noqa: BLE001 - looked at below
            said.append(error)

    threads = [threading.Thread(target=say, args=(row,)) for row in (OLDER, NEWER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (error,) = [one for one in said if isinstance(one, Exception)]
    assert isinstance(error, OtherFormError) or is_conflict(error)
    row = opened(tables).view(ROW.batch_id).row
    assert row is not None
    assert row.attempt in said


@SOAKED_DELTA
def test_a_landing_killed_around_its_row_is_completed_by_the_next(
    tables: Tables, staging: Staging
) -> None:
    """After a kill the ledger has the batch's row once, with the count of its landings."""
    manifest = staging.write([staging.order(0), staging.order(1, day=1), ("order", b"")])
    with pytest.raises(Killed):
        tables.land(manifest, at(steps.LANDING_LANDED, kill))
    assert tables.landed() == {}
    with pytest.raises(Killed):
        tables.land(manifest, at(steps.LANDING_CLEAN, kill))
    assert [*tables.landed()] == ["0f3c-1"]

    tables.land(manifest)

    row = tables.landed()["0f3c-1"]
    assert row.revision == 2
    assert {one.name: (one.rows, one.dates) for one in row.tables} == {
        "Order__e": (2, ("2026-11-01", "2026-11-02")),
        "_quarantine": (1, ("2026-11-02",)),
    }
    orders = row.tables[0]
    assert orders.earliest is not None
    assert orders.latest is not None
    assert (orders.latest - orders.earliest, orders.schema_ids) == (
        timedelta(days=1, milliseconds=1),
        ("order",),
    )
