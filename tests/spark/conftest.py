"""A Spark session for all tests here, and staged batches made by hand."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastavro import parse_schema, schemaless_writer

from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

EPOCH = "0f3c"
RECEIVED_AT = datetime(2026, 11, 2, 6, 30, tzinfo=UTC)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("sfevents tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()


def schema(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    """Make a platform event's schema as GetSchema returns it: two fields of its own, then optional ones."""
    own = [
        {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
        {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
    ]
    return {
        "type": "record",
        "name": name,
        "namespace": "com.sforce.eventbus",
        "fields": [*own, *fields],
    }


def optional(name: str, kind: Any, doc: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "doc": doc, "default": None}


def encoded(avro: dict[str, Any], record: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(avro), record)
    return stream.getvalue()


@dataclass
class Staging:
    """Stages batches in a folder, as the fetch does."""

    folder: Path
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)

    def write(
        self,
        payloads: Sequence[tuple[str, bytes]],
        *,
        per_part: int = 1000,
        sequence: int = 1,
        topic: str = "/event/Order__e",
    ) -> str:
        """URL of the manifest of a batch with these (schema id, payload) pairs."""
        batch = self.folder / layout.batch_folder(EPOCH, sequence)
        (batch / layout.attempt_folder(1)).mkdir(parents=True, exist_ok=True)
        (batch / layout.SCHEMAS).mkdir(exist_ok=True)
        used = sorted({schema_id for schema_id, _ in payloads})
        for schema_id in used:
            (batch / layout.schema_name(schema_id)).write_text(json.dumps(self.schemas[schema_id]))
        starts = range(0, len(payloads), per_part)
        parts = tuple(
            self._part(batch, first, payloads[first : first + per_part]) for first in starts
        )
        manifest = Manifest(
            org_id="00Dx0000000001ZEAW",
            instance_url="https://acme.my.salesforce.com",
            topic=topic,
            consumer="orders",
            epoch=EPOCH,
            sequence=sequence,
            batch_id=layout.batch_id(EPOCH, sequence),
            start="earliest",
            position_start="earliest",
            end=_replay_id(len(payloads) - 1).hex(),
            events=len(payloads),
            bytes=sum(len(payload) for _, payload in payloads),
            ended_by="idle_seconds",
            parts=parts,
            schemas=tuple(used),
            created_at=RECEIVED_AT.isoformat(),
        )
        (batch / layout.MANIFEST).write_text(manifest.to_json())
        return str(batch / layout.MANIFEST)

    def _part(self, batch: Path, first: int, payloads: Sequence[tuple[str, bytes]]) -> Part:
        path = f"{layout.attempt_folder(1)}/{layout.part_name(first)}"
        ordinals = range(first, first + len(payloads))
        columns = {
            layout.ORDINAL: pa.array(ordinals, pa.int64()),
            layout.EVENT_ID: pa.array([f"id-{ordinal}" for ordinal in ordinals], pa.string()),
            layout.REPLAY_ID: pa.array([_replay_id(ordinal) for ordinal in ordinals], pa.binary()),
            layout.SCHEMA_ID: pa.array([schema_id for schema_id, _ in payloads], pa.string()),
            layout.RECEIVED_AT: pa.array(
                [RECEIVED_AT] * len(payloads), pa.timestamp("us", tz="UTC")
            ),
            layout.PAYLOAD: pa.array([payload for _, payload in payloads], pa.binary()),
        }
        pq.write_table(pa.table(columns), batch / path)
        return Part(
            path=path,
            start="earliest" if first == 0 else _replay_id(first - 1).hex(),
            end=_replay_id(ordinals[-1]).hex(),
            first_ordinal=first,
            events=len(payloads),
            bytes=sum(len(payload) for _, payload in payloads),
            sha256="",
            schemas=tuple(sorted({schema_id for schema_id, _ in payloads})),
        )


def _replay_id(ordinal: int) -> bytes:
    return (0xF3A1_0000 + ordinal).to_bytes(10, "big")


ORDER = schema(
    "Order__e",
    optional("Number__c", "string", "Data:Text:00N000000000001"),
    optional("Amount__c", "double", "Data:Double:00N000000000002"),
    optional("Due__c", "long", "Data:DateOnly:00N000000000003"),
)
DAY_MS = 86_400_000
FIRST_DAY_MS = 1_793_491_200_000  # 2026-11-01T00:00:00Z


def order(number: int, *, day: int = 0) -> bytes:
    created = FIRST_DAY_MS + day * DAY_MS + number * 1000
    record = {
        "CreatedDate": created,
        "CreatedById": "005A",
        "Number__c": f"N{number}",
        "Amount__c": number / 4,
        "Due__c": FIRST_DAY_MS,
    }
    return encoded(ORDER, record)


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staging area" / "00D%2Fx@+", {"order": ORDER})


@pytest.fixture
def orders() -> Any:
    return order
