"""The first and the last year of the calendar, in tables of every format and in every reader."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake.exceptions import DeltaProtocolError

from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import apply_snapshot
from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import SnapshotOptions
from airflow_provider_sfevents.spark.upkeep.job import maintain
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions
from tests.harness.jars import Jars, or_skip
from tests.spark.event_schemas import SCHEMAS
from tests.spark.lakes import by_path
from tests.spark.orgs import A, B, CurrentState, event
from tests.spark.readers import READERS, REFUSING_VECTORS, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Iceberg scan planning"),  # polars prefers a plugin
]

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
COLUMNS = ("At__c", "Day__c")
BOTH = [(FIRST, date(1, 1, 1)), (LAST, date(9999, 12, 31))]
FIELDS = [
    {"name": name, "type": ["null", "long"], "doc": f"Data:{kind}", "default": None}
    for name, kind in zip(COLUMNS, ("DateTime", "DateOnly"), strict=True)
]
READ_AT = datetime(2026, 12, 1, tzinfo=UTC)


def millis(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def payload(moment: datetime) -> dict[str, Any]:
    return {"At__c": millis(moment), "Day__c": millis(moment)}


def timestamp_kinds(folder: Path) -> set[str]:
    """Physical types of the columns of all Parquet files below a folder."""
    files = [pq.ParquetFile(path) for path in folder.rglob("*.parquet")]
    return {one.schema.column(at).physical_type for one in files for at in range(len(one.schema))}


def upkeep_of_records(spark: Any, root: str, table_format: str) -> None:
    maintain(
        spark,
        UpkeepOptions(table="", current_state=root, table_format=table_format, dry_run=False),
    )


@pytest.mark.parametrize("table_format", [*READERS])
def test_every_reader_has_the_values_that_landed(
    table_format: str, spark: Any, jars: Jars, tmp_path: Path, staging: Staging
) -> None:
    """Each reader finds the first and the last instant in event tables, which have no INT96."""
    if table_format != "parquet":
        or_skip(lambda: getattr(jars, table_format))
    # Without a space in its name: polars does not find the files of a Delta table otherwise.
    tables = by_path(table_format, spark, tmp_path / "lake")
    schema = SCHEMAS["order"]
    staging.schemas["far"] = {
        **schema,
        "name": "Far__e",
        "fields": [*schema["fields"][:2], *FIELDS],
    }
    events = [
        staging.event("far", CreatedDate=millis(moment), CreatedById="005A", **payload(moment))
        for moment in (FIRST, LAST)
    ]

    tables.land(staging.write(events))

    for read in READERS[table_format]:
        assert read_rows(read, tables.folder / "Far__e", COLUMNS) == BOTH, read.__name__
    assert "INT96" not in timestamp_kinds(tables.folder)


@pytest.mark.parametrize(
    ("table_format", "row_changes"),
    [
        pytest.param("delta", "rewrite", marks=pytest.mark.soak),
        pytest.param("delta", "vectors", marks=pytest.mark.soak),
        ("iceberg", "vectors"),
    ],
)
def test_every_reader_has_the_records_that_changed(
    table_format: str, row_changes: str, spark: Any, jars: Jars, tmp_path: Path, staging: Staging
) -> None:
    """Records that a snapshot replaced are read with their values, or deletion vectors refused."""
    or_skip(lambda: getattr(jars, table_format))
    staging.schemas["far_account"] = SCHEMAS["far_account"] = {
        **SCHEMAS["org_account"],
        "fields": [*SCHEMAS["org_account"]["fields"][:1], *FIELDS],
    }
    root = tmp_path / "records"
    options = {"new_entities": "empty", "row_changes": row_changes, "history": True}
    state = CurrentState(spark, str(root), table_format, staging, options)
    created = [
        event(staging, at, "CREATE", one, schema="far_account", **payload(moment))
        for at, (one, moment) in enumerate(((A, FIRST), (B, LAST)))
    ]
    state.apply(state.stage(*created))
    swapped = [(one, at.isoformat(), str(day)) for one, (at, day) in zip((B, A), BOTH, strict=True)]
    read_in_org = spark.createDataFrame(swapped, "Id string, At__c string, Day__c string")
    read_in_org.write.parquet(str(tmp_path / "read"))

    snapshot = SnapshotOptions(
        current_state=str(root),
        table_format=table_format,
        history=True,
        entity="Account",
        records=str(tmp_path / "read"),
        records_format="parquet",
        read_at=READ_AT,
    )
    apply_snapshot(spark, snapshot)

    for read in READERS[table_format]:
        if row_changes == "vectors" and read in REFUSING_VECTORS:
            with pytest.raises(DeltaProtocolError, match="deletionVectors"):
                read(root / "Account")
            continue
        found = read_rows(read, root / "Account", (*COLUMNS, "record_id"))
        assert found == [(*BOTH[0], B), (*BOTH[1], A)], read.__name__
        assert {*read_rows(read, root / "Account_history", COLUMNS)} == {*BOTH}, read.__name__
    assert "INT96" not in timestamp_kinds(root)
    if table_format == "iceberg":
        deletes = "table {}.delete_files"
        records = by_path(table_format, spark, root)
        assert records.sql(deletes, "Account").count() > 0
        upkeep_of_records(spark, str(root), table_format)
        assert records.sql(deletes, "Account").count() == 0
        assert len(records.rows("Account", "record_id")) == 2
