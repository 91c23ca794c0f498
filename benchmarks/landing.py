"""Seconds to land a staged batch, beside a Spark job that copies the same columns decoded.

The peer reads what a landing has written and writes it again, partitioned alike: no decoding, no
comparison with the table, no counting, no receipt. Warm: both in one session, in turn, medians.
Then each as a `spark-submit` of its own, which is what a task waits for.

`python -m benchmarks.landing 100000 delta` lands fewer events, or in another format (which has no
limit; the peer stays Parquet).
"""

from __future__ import annotations

import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from fastavro import parse_schema, schemaless_writer

from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.tables import delta, naming
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Part
from airflow_provider_sfevents.staging.parts.part_file import COMPRESSION
from airflow_provider_sfevents.staging.parts.part_writer import PART_EVENTS
from airflow_provider_sfevents.submit import packaging
from airflow_provider_sfevents.submit.java import find_java
from tests.harness.jars import Jars
from tests.harness.spark import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

EVENTS = 1_000_000
ROUNDS, SUBMITS = 5, 3
TIMES_WARM, TIMES_SUBMITTED = 1.7, 1.5

EVENT_TYPE, SCHEMA_ID = "Departure__e", "bench"
_DAYS, _DAY_MS, _FIRST_MS = 3, 86_400_000, 1_793_491_200_000
_PATTERNS = 5_000
_TEXTS, _NUMBERS, _INSTANTS, _FLAGS = 12, 6, 3, 3

COPY = """
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("peer").getOrCreate()
spark.read.parquet(sys.argv[1]).write.partitionBy("event_date").parquet(sys.argv[2])
spark.stop()
"""


def event_type(number: int) -> str:
    """Name of one of a batch's event types."""
    return f"Departure{number}__e" if number else EVENT_TYPE


def schema(name: str = EVENT_TYPE) -> dict[str, Any]:
    """Make a schema of 26 fields, as an event with a good many of each usual type has."""
    own = [
        {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
        {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
    ]
    kinds = (
        ("Text", "string", "Data:Text", _TEXTS),
        ("Number", "double", "Data:Double", _NUMBERS),
        ("At", "long", "Data:DateTime", _INSTANTS),
        ("Flag", "boolean", "Data:Boolean", _FLAGS),
    )
    fields = [
        {"name": f"{name}{n}__c", "type": ["null", avro], "doc": doc, "default": None}
        for name, avro, doc, count in kinds
        for n in range(count)
    ]
    return {"type": "record", "name": name, "fields": [*own, *fields]}


def payload(parsed: Any, day: int, number: int) -> bytes:
    stream = io.BytesIO()
    record: dict[str, Any] = {
        "CreatedDate": _FIRST_MS + day * _DAY_MS + number,
        "CreatedById": "005000000000001AAA",
    }
    record |= {f"Text{n}__c": f"{number % 97} of {n}, a text" for n in range(_TEXTS)}
    record |= {f"Number{n}__c": number / (n + 3) for n in range(_NUMBERS)}
    record |= {f"At{n}__c": _FIRST_MS + number * n for n in range(_INSTANTS)}
    record |= {f"Flag{n}__c": number % (n + 2) == 0 for n in range(_FLAGS)}
    schemaless_writer(stream, parsed, record)
    return stream.getvalue()


def stage(batch: Path, events: int, number: int = 1, types: int = 1) -> str:
    """Stage a batch as the fetch leaves it.

    :param number: of the batch; no two batches have an event in common.
    :param types: event types, of which the events are in turn.
    :returns: path of the manifest.
    """
    (batch / layout.attempt_folder(1)).mkdir(parents=True)
    (batch / layout.SCHEMAS).mkdir()
    ids = [f"{SCHEMA_ID}{one}" for one in range(types)]
    for one, schema_id in enumerate(ids):
        text = json.dumps(schema(event_type(one)))
        (batch / layout.schema_name(schema_id)).write_text(text)
    parsed = parse_schema(schema())
    # One day after the other, as a bus delivers them.
    patterns = [[payload(parsed, day, n) for n in range(_PATTERNS)] for day in range(_DAYS)]
    parts = tuple(
        _part(batch, first, events, patterns, number, ids)
        for first in range(0, events, PART_EVENTS)
    )
    manifest = Manifest(
        org_id="00Dx0000000001ZEAW",
        instance_url="https://bench.my.salesforce.com",
        topic=f"/event/{EVENT_TYPE}",
        consumer="bench",
        epoch="bench",
        batch_number=number,
        batch_id=layout.batch_id("bench", number),
        position_start=_before(0, number),
        start=_before(0, number),
        end=_replay_id(events - 1, number).hex(),
        events=events,
        bytes=sum(part.bytes for part in parts),
        ended_by="max_events",
        parts=parts,
        schemas=tuple(ids),
        created_at=datetime.now(UTC).isoformat(),
    )
    (batch / layout.MANIFEST).write_text(manifest.to_json())
    return str(batch / layout.MANIFEST)


def _part(
    batch: Path,
    first: int,
    events: int,
    patterns: list[list[bytes]],
    number: int,
    schema_ids: list[str],
) -> Part:
    ordinals = range(first, min(first + PART_EVENTS, events))
    payloads = [patterns[ordinal * _DAYS // events][ordinal % _PATTERNS] for ordinal in ordinals]
    received = pa.array([datetime.now(UTC)] * len(ordinals), pa.timestamp("us", tz="UTC"))
    path = f"{layout.attempt_folder(1)}/{layout.part_name(first)}"
    columns = {
        layout.ORDINAL: pa.array(ordinals, pa.int64()),
        layout.EVENT_ID: pa.array([f"bench-{number}-{ordinal:010}" for ordinal in ordinals]),
        layout.REPLAY_ID: pa.array(
            [_replay_id(ordinal, number) for ordinal in ordinals], pa.binary()
        ),
        layout.SCHEMA_ID: pa.array([schema_ids[ordinal % len(schema_ids)] for ordinal in ordinals]),
        layout.RECEIVED_AT: received,
        layout.PAYLOAD: pa.array(payloads, pa.binary()),
    }
    pq.write_table(
        pa.table(columns), batch / path, compression=COMPRESSION, use_dictionary=[layout.SCHEMA_ID]
    )
    return Part(
        path=path,
        start=_before(first, number),
        end=_replay_id(ordinals[-1], number).hex(),
        first_ordinal=first,
        events=len(ordinals),
        bytes=sum(map(len, payloads)),
        sha256="",
        schemas=tuple(sorted({schema_ids[ordinal % len(schema_ids)] for ordinal in ordinals})),
    )


def _before(ordinal: int, number: int) -> str:
    """Replay point after which an event comes."""
    return "earliest" if ordinal == 0 else _replay_id(ordinal - 1, number).hex()


def _replay_id(ordinal: int, number: int) -> bytes:
    return ((number << 32) + 0xF3A1_0000 + ordinal).to_bytes(10, "big")


def settings(table_format: str) -> dict[str, str]:
    """Settings that both jobs run with."""
    found = {
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    jars, paths = Jars(), list[Path]()
    if table_format == naming.DELTA:
        paths += jars.delta
        found |= delta.from_the_start({})
    if table_format == naming.ICEBERG:
        paths += jars.iceberg
    return {**found, "spark.jars": ",".join(map(str, paths))}


def seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def warm(
    spark: SparkSession, folder: Path, manifest: str, table_format: str
) -> tuple[float, float]:
    """Medians of the peer and of the landing, in turn, each into a folder that is not there yet."""
    decoded = folder / "decoded"
    land(spark, LandingOptions(manifest_url=manifest, table=str(decoded)))
    took: dict[str, list[float]] = {"peer": [], "ours": []}
    for _ in range(ROUNDS + 1):
        for name, act in (
            ("peer", lambda: _copy(spark, decoded / EVENT_TYPE, folder / "copy")),
            (
                "ours",
                lambda: land(
                    spark,
                    LandingOptions(
                        manifest_url=manifest,
                        table=str(folder / "lake" / "bench"),
                        table_format=table_format,
                    ),
                ),
            ),
        ):
            took[name].append(seconds(act))
            shutil.rmtree(folder / "copy", ignore_errors=True)
            shutil.rmtree(folder / "lake", ignore_errors=True)
    # The first round of each warms up.
    return statistics.median(took["peer"][1:]), statistics.median(took["ours"][1:])


def _copy(spark: SparkSession, source: Path, target: Path) -> None:
    spark.read.parquet(str(source)).write.partitionBy("event_date").parquet(str(target))


def submitted(
    folder: Path, manifest: str, table_format: str, conf: dict[str, str]
) -> tuple[float, float]:
    """Medians of the peer's `spark-submit` and of ours."""
    (folder / "peer.py").write_text(COPY)
    options = [f"--conf={key}={value}" for key, value in conf.items()]
    begin = ["spark-submit", "--master", "local[2]", *options]
    zipped = str(packaging.py_files(folder / "zip"))
    lake = str(folder / "lake" / "bench")
    ours = [*begin, "--py-files", zipped, str(packaging.application()), "--manifest", manifest]
    ours += ["--table", lake, "--format", table_format]
    peer = [*begin, str(folder / "peer.py"), str(folder / "decoded" / EVENT_TYPE)]
    took: dict[str, list[float]] = {"peer": [], "ours": []}
    for _ in range(SUBMITS):
        for name, command in (("peer", [*peer, str(folder / "copy")]), ("ours", ours)):
            took[name].append(seconds(lambda said=command: _run(said)))  # type: ignore[misc]
            shutil.rmtree(folder / "copy", ignore_errors=True)
            shutil.rmtree(folder / "lake", ignore_errors=True)
    return statistics.median(took["peer"]), statistics.median(took["ours"])


def _run(command: list[str]) -> None:
    """Run a command. :raises SystemExit: it failed."""
    done = subprocess.run(
        command,
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command[-1]} failed:\n{(done.stdout + done.stderr)[-4000:]}")


@contextmanager
def session(conf: dict[str, str]) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ.update({**environment(), "JAVA_HOME": find_java().home})
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    yield spark
    spark.stop()


def report(title: str, peer: float, ours: float, limit: float, *, counts: bool) -> bool:
    within = ours <= peer * limit
    print(f"  {title}")
    print(f"    reads and writes, already decoded  {peer:6.1f} s")
    said = f"(limit: {limit} x)" if counts else "(no limit: another format than the peer's)"
    print(f"    landing                            {ours:6.1f} s  {ours / peer:.2f} x {said}")
    return within or not counts


def main(events: int = EVENTS, table_format: str = naming.PARQUET) -> int:
    print(f"landing {events:,} events of 26 fields as {table_format}, local[2]")
    conf = settings(table_format)
    counts = table_format == naming.PARQUET
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        manifest = stage(folder / "staging" / "1", events)
        with session(conf) as spark:
            found = warm(spark, folder, manifest, table_format)
        within = report(f"warm, median of {ROUNDS}", *found, TIMES_WARM, counts=counts)
        found = submitted(folder, manifest, table_format, conf)
        within &= report(
            f"spark-submit, median of {SUBMITS}", *found, TIMES_SUBMITTED, counts=counts
        )
    return 0 if within else 1


if __name__ == "__main__":
    said = sys.argv[1:]
    sys.exit(main(int(said[0]) if said else EVENTS, *said[1:]))
