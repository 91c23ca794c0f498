"""A Spark session for all tests here, and staged batches made by hand."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastavro import parse_schema, schemaless_writer

from airflow_provider_sfevents.spark.landing.splits import SPLIT_BYTES
from airflow_provider_sfevents.spark.tables import delta, ledger
from airflow_provider_sfevents.spark.tables.sessions import EXTENSIONS
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Part
from airflow_provider_sfevents.submit.java import find_java
from airflow_provider_sfevents.submit.preflight import quick_start
from tests.harness.jars import Jars, JarsMissingError, jars, or_skip
from tests.spark.event_schemas import SCHEMAS
from tests.spark.lakes import Tables, by_path

__all__ = ["jars"]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from airflow_provider_sfevents.spark.tables.ledger import LedgerRow
    from tests.harness.step_hooks import OnStep

EPOCH = "0f3c"
BATCH_ID = "0f3c-1"
RECEIVED_AT = datetime(2026, 11, 2, 6, 30, tzinfo=UTC)
DAY_MS = 86_400_000
FIRST_DAY_MS = 1_793_491_200_000  # 2026-11-01T00:00:00Z


@pytest.fixture(scope="session")
def spark(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests: starting a JVM takes longer than most of them.

    It has the jars of all formats, where they can be had.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = find_java().home
    # It says good-bye when pytest's streams are closed already.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("sfevents tests")
        .config(map=quick_start("local[2]", 0, {}))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "OFF")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config(map=_with_jars(jars))
        .getOrCreate()
    )
    yield session
    session.stop()


def _with_jars(jars: Jars) -> dict[str, str]:
    try:
        paths = [*jars.delta, *jars.iceberg]
    except JarsMissingError:
        return {}  # a test that needs them asks for them, and is skipped
    return {"spark.jars": ",".join(map(str, paths)), EXTENSIONS: delta.EXTENSION}


@dataclass
class Staging:
    """Stages batches in a folder, as the fetch does; events are (schema id, payload)."""

    folder: Path
    received_at: datetime = RECEIVED_AT
    schemas: dict[str, Any] = field(default_factory=lambda: dict(SCHEMAS))
    batch: Path = field(init=False)

    def event(self, schema_id: str, **record: Any) -> tuple[str, bytes]:
        stream = io.BytesIO()
        schemaless_writer(stream, parse_schema(self.schemas[schema_id]), record)
        return schema_id, stream.getvalue()

    def order(self, number: int, *, day: int = 0) -> tuple[str, bytes]:
        return self.event(
            "order",
            CreatedDate=FIRST_DAY_MS + day * DAY_MS + number,
            CreatedById="005A",
            Number__c=f"N{number}",
            Amount__c=number / 4,
            Due__c=FIRST_DAY_MS,
        )

    def change(self, number: int, *records: str, kind: str = "CREATE") -> tuple[str, bytes]:
        """Make the n-th change event of a transaction, about these records."""
        header = {
            "entityName": "Account",
            "recordIds": list(records),
            "changeType": kind,
            "transactionKey": "00033c92",
            "sequenceNumber": number,
            "commitTimestamp": 1_685_217_197_000,
            "commitNumber": 1,
            "nulledFields": [],
            "diffFields": [],
            "changedFields": [],
        }
        return self.event("account", ChangeEventHeader=header)

    def write(
        self,
        events: Sequence[tuple[str, bytes]],
        *,
        per_part: int | Sequence[int] = 1000,
        worth_a_task: bool = True,
        batch_number: int = 1,
        row_group_size: int = 1000,
        ids: Sequence[str] | None = None,
        **manifest: Any,
    ) -> str:
        """Stage a batch of these events, and return the URL of its manifest.

        :param per_part: events of each staged file, the last of which has what is left; or of the
            first, the second, and so on.
        :param worth_a_task: False: files are put together (`spark.landing.splits`).
        :param ids: the events'; default: the ordinal, and from the second batch on its number
            before it.
        :param manifest: what it says otherwise than usual.
        """
        epoch = manifest.get("epoch", EPOCH)
        prefix = "id-" if batch_number == 1 and epoch == EPOCH else f"id-{epoch}-{batch_number}-"
        ids = [f"{prefix}{ordinal}" for ordinal in range(len(events))] if ids is None else ids
        batch = self.folder / layout.batch_folder(epoch, batch_number)
        self.batch = batch
        (batch / layout.attempt_folder(1)).mkdir(parents=True, exist_ok=True)
        (batch / layout.SCHEMAS).mkdir(exist_ok=True)
        used = sorted({schema_id for schema_id, _ in events})
        for schema_id in set(used) & set(self.schemas):
            (batch / layout.schema_name(schema_id)).write_text(json.dumps(self.schemas[schema_id]))
        sizes = repeat(per_part) if isinstance(per_part, int) else iter(per_part)
        parts: list[Part] = []
        start = 0
        while start < len(events):
            end = start + next(sizes)
            least = SPLIT_BYTES if worth_a_task else 0
            parts.append(
                self._part(start, events[start:end], ids[start:end], row_group_size, least)
            )
            start = end
        said: dict[str, Any] = {
            "org_id": "00Dx0000000001ZEAW",
            "instance_url": "https://acme.my.salesforce.com",
            "topic": "/event/Order__e",
            "consumer": "orders",
            "epoch": epoch,
            "batch_number": batch_number,
            "batch_id": layout.batch_id(epoch, batch_number),
            "position_start": "earliest",
            "start": "earliest",
            "end": _replay_id(len(events)).hex(),
            "events": len(events),
            "bytes": sum(len(payload) for _, payload in events),
            "ended_by": "idle_seconds",
            "parts": tuple(parts),
            "schemas": tuple(used),
            "created_at": RECEIVED_AT.isoformat(),
        }
        (batch / layout.MANIFEST).write_text(Manifest(**{**said, **manifest}).to_json())
        return str(batch / layout.MANIFEST)

    def _part(
        self,
        first: int,
        events: Sequence[tuple[str, bytes]],
        ids: Sequence[str],
        row_group_size: int,
        least_bytes: int,
    ) -> Part:
        path = f"{layout.attempt_folder(1)}/{layout.part_name(first)}"
        ordinals = range(first, first + len(events))
        columns = {
            layout.ORDINAL: pa.array(ordinals, pa.int64()),
            layout.EVENT_ID: pa.array(ids, pa.string()),
            layout.REPLAY_ID: pa.array([_replay_id(ordinal) for ordinal in ordinals], pa.binary()),
            layout.SCHEMA_ID: pa.array([schema_id for schema_id, _ in events], pa.string()),
            layout.RECEIVED_AT: pa.array(
                [self.received_at] * len(events), pa.timestamp("us", tz="UTC")
            ),
            layout.PAYLOAD: pa.array([payload for _, payload in events], pa.binary()),
        }
        pq.write_table(pa.table(columns), self.batch / path, row_group_size=row_group_size)
        return Part(
            path=path,
            start="earliest" if first == 0 else _replay_id(first - 1).hex(),
            end=_replay_id(ordinals[-1]).hex(),
            first_ordinal=first,
            events=len(events),
            bytes=max(least_bytes, sum(len(payload) for _, payload in events)),
            sha256="",
            schemas=tuple(sorted({schema_id for schema_id, _ in events})),
        )


def _replay_id(ordinal: int) -> bytes:
    return (0xF3A1_0000 + ordinal).to_bytes(10, "big")


@dataclass
class Lake:
    """A folder of landed Parquet tables, read as plain files."""

    root: Path

    def landed(self, batch_id: str) -> LedgerRow:
        """Read a batch's row of the ledger."""
        files = sorted((self.root / ledger.TABLE).glob("*.parquet"))
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        row = ledger.view_of(rows, batch_id).row
        assert row is not None
        return row

    def files(self) -> list[str]:
        """Every file, hidden ones too, relative to the root.

        Records of columns are left out, and names in the ledger come without their revision.
        """
        paths = [path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file()]
        names = (str(path) for path in paths if path.parts[0] != "_types")
        return sorted(re.sub(r"-r\d+\.parquet$", ".parquet", name) for name in names)

    def contents(self) -> dict[str, bytes]:
        """Every file but those of the ledger, by its path."""
        return {
            path: (self.root / path).read_bytes()
            for path in self.files()
            if not path.startswith(f"{ledger.TABLE}/")
        }

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """Read a table by DuckDB, in the batches' order."""
        import duckdb

        with duckdb.connect() as connection:
            connection.execute("set timezone = 'UTC'")
            found = (
                f"read_parquet('{self.root}/{table}/**/*.parquet', hive_partitioning=true, "
                f"union_by_name=true)"
            )
            query = f"select {columns} from {found} order by batch_id, batch_ordinal"  # noqa: S608 - names of our own
            rows: list[tuple[Any, ...]] = connection.sql(query).fetchall()
            return rows

    def ordinals(self, table: str) -> list[int]:
        return [row[0] for row in self.rows(table, "batch_ordinal")]


def at(step: str, act: Callable[[], object], times: int = 1) -> OnStep:
    """Call a function before the n-th step of this kind."""
    taken: list[str] = []

    def called(name: str, _about: str) -> None:
        if name == step:
            taken.append(name)
            if len(taken) == times:
                act()

    return called


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    """Staging in a folder with the characters that names of orgs and topics bring into a path."""
    return Staging(tmp_path / "staging area" / "00D%2Fx@+é")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "my lake")


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def any_tables(request: pytest.FixtureRequest, jars: Jars, spark: Any, tmp_path: Path) -> Tables:
    """Tables of each format, Parquet included; skipped if the format's jars cannot be had."""
    name: str = request.param
    if name != "parquet":
        or_skip(lambda: getattr(jars, name))
    return by_path(name, spark, tmp_path / "my lake")


@pytest.fixture(params=["delta", "iceberg"])
def table_format(request: pytest.FixtureRequest, jars: Jars) -> str:
    """Each format that has commits (Delta, Iceberg); skipped if its jars cannot be had."""
    name: str = request.param
    or_skip(lambda: getattr(jars, name))
    return name


SOAKED_DELTA = pytest.mark.parametrize(
    "table_format", [pytest.param("delta", marks=pytest.mark.soak), "iceberg"], indirect=True
)
"""Of a long test, `make test-full` has the format with the quicker commits, `make proof` both."""

SOAKED_DELTA_OF_ANY = pytest.mark.parametrize(
    "any_tables",
    ["parquet", pytest.param("delta", marks=pytest.mark.soak), "iceberg"],
    indirect=True,
)
"""As `SOAKED_DELTA`, of a test with Parquet tables, too."""


@pytest.fixture
def quick_tables(jars: Jars, spark: Any, tmp_path: Path) -> Tables:
    """Tables of the format with the quicker commits, for rules that do not depend on the format."""
    or_skip(lambda: jars.iceberg)
    return by_path("iceberg", spark, tmp_path / "my lake")


@pytest.fixture
def tables(table_format: str, spark: Any, tmp_path: Path) -> Tables:
    """Delta or Iceberg tables by path, in a folder with a space in its name."""
    return by_path(table_format, spark, tmp_path / "my lake")
