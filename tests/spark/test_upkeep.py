"""Upkeep of Delta and Iceberg tables: the same rows in few files, on a real Spark."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.tables import TOMBSTONES
from tests.harness.jars import Jars, or_skip
from tests.harness.killed import Killed, kill
from tests.spark.conftest import SOAKED_DELTA, at
from tests.spark.lakes import Tables, by_path, upkeep
from tests.spark.orgs import A, B, CurrentState, event

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

COLUMNS = ("batch_id", "batch_ordinal", "event_id", "Number__c", "Amount__c", "event_date")
TEN_DAYS = 240 * 3600
LAST = {"delta": "upkeep-done", "iceberg": "upkeep-remove"}


def land(tables: Tables, staging: Staging, *sequences: int) -> list[str]:
    """Manifests of batches of two events each, one of either of two days."""
    manifests = [
        staging.write(
            [staging.order(10 * batch_number + day, day=day) for day in range(2)],
            batch_number=batch_number,
        )
        for batch_number in sequences
    ]
    for manifest in manifests:
        tables.land(manifest)
    return manifests


def files(tables: Tables, name: str = "Order__e") -> list[Path]:
    """Parquet files that lie in a table's folder, needed or not.

    Checkpoints of Delta's log are none of its data.
    """
    found = (tables.folder / name).rglob("*.parquet")
    return sorted(path for path in found if "_delta_log" not in path.parts)


def age(tables: Tables, name: str = "Order__e") -> None:
    """Make every file look ten days old."""
    before = time.time() - TEN_DAYS
    for path in (tables.folder / name).rglob("*"):
        os.utime(path, (before, before))


def test_many_small_files_become_few_with_the_same_rows(tables: Tables, staging: Staging) -> None:
    """A dry run predicts upkeep and changes nothing; batches land as before afterwards."""
    first, *_ = land(tables, staging, 1, 2, 3)
    before = tables.rows("Order__e", *COLUMNS)
    lying = files(tables)

    told = upkeep(tables, dry_run=True)

    assert (told["dry_run"], told["files"]) == (True, 6 + 3)  # and three of the ledger
    assert files(tables) == lying
    assert tables.rows("Order__e", *COLUMNS) == before

    done = upkeep(tables)

    assert (done["files"], done["files_after"]) == (6 + 3, told["files_after"])
    assert told["files_after"] == 2 + 1
    assert tables.rows("Order__e", *COLUMNS) == before

    tables.land(first)
    again = staging.write(
        [staging.order(11, day=1), staging.order(99)], ids=["id-1", "new"], epoch="1a2b"
    )

    assert tables.land(again).duplicates == 1
    assert [row for row in tables.rows("Order__e", *COLUMNS) if row[0] != "1a2b-1"] == before


def test_files_that_no_kept_version_needs_are_removed(tables: Tables, staging: Staging) -> None:
    """Replaced files stay while a reader may use them; old ones and those of dead tasks go."""
    land(tables, staging, 1, 2)
    upkeep(tables)
    before = tables.rows("Order__e", *COLUMNS)
    stray = tables.folder / "Order__e" / "data" / "part-00000-stray.parquet"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(files(tables)[0].read_bytes())
    assert (upkeep(tables)["removed_files"], len(files(tables))) == (0, 7)
    age(tables)
    assert upkeep(tables, keep_hours=480)["removed_files"] == 0

    assert upkeep(tables, keep_hours=24)["removed_files"] == 1

    assert not stray.exists()
    with pytest.raises(Killed):
        # Iceberg would refuse to look for stray files that are so young, after it has expired
        # snapshots.
        upkeep(tables, at(LAST[tables.table_format], kill), keep_hours=0)
    assert len(files(tables)) == 2
    assert tables.rows("Order__e", *COLUMNS) == before


@SOAKED_DELTA
def test_two_upkeeps_at_once_leave_every_row_once(tables: Tables, staging: Staging) -> None:
    """Two upkeeps at once both succeed, and the rows are the same."""
    land(tables, staging, 1, 2)
    before = tables.rows("Order__e", *COLUMNS)

    upkeep(tables, at("upkeep-compact", lambda: upkeep(tables)))

    assert tables.rows("Order__e", *COLUMNS) == before
    assert len(before) == 4


def test_tables_of_others_are_left_alone(quick_tables: Tables, staging: Staging) -> None:
    """Other tables in a namespace are neither read, written nor reported."""
    tables = quick_tables
    land(tables, staging, 1)
    tables.sql(f"create table {{}} (a int) using {tables.table_format}", "theirs")
    tables.sql("insert into {} values (1)", "theirs")
    tables.sql("insert into {} values (2)", "theirs")
    before = files(tables, "theirs")

    done = upkeep(tables)

    assert [name.rpartition("/")[2] for name in done["tables"]] == ["Order__e", "_batches"]
    assert files(tables, "theirs") == before


def test_a_root_without_tables_is_refused(tables: Tables) -> None:
    """Upkeep of a root without tables is refused, since the root is most likely misspelt."""
    with pytest.raises(ConfigurationError, match="There is no"):
        upkeep(tables)


@pytest.mark.soak
def test_current_state_is_the_same_after_upkeep(
    jars: Jars, spark: Any, staging: Staging, tmp_path: Path
) -> None:
    """State tables are compacted and applied to again; tombstones stay without a full snapshot.

    In Delta tables; `test_far_years` has upkeep of state tables of Iceberg.
    """
    or_skip(lambda: jars.delta)
    table_format = "delta"
    root = tmp_path / "records"
    state = CurrentState(spark, str(root), table_format, staging)
    created = [
        event(staging, 1 + n, "CREATE", one, Industry="Mining") for n, one in enumerate((A, B))
    ]
    state.apply(state.stage(*created))
    state.apply(state.stage(event(staging, 3, "DELETE", B)))
    records = by_path(table_format, spark, root)

    done = upkeep(records, table="", current_state=str(root))

    assert done["files_after"] < done["files"]
    assert done["tombstones"] == 0
    assert records.rows("set_aside", "event_role", "record_id") == [(TOMBSTONES, B)]
    state.apply(state.stage(event(staging, 4, "UPDATE", A, Industry="Shipping")))
    assert records.rows("Account", "record_id", "Industry") == [(A, "Shipping")]
