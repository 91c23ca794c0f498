"""Rows per second from staged payloads to typed columns.

The payloads are of a change event of 26 fields, in Arrow batches of 10,000. The peer works like a
simple custom job: fastavro's `schemaless_reader` makes a dict of each payload, and columns of the
dicts are built with the table's types; it does not check for surplus bytes and leaves bitmaps as
they are.

First in one process, then through `mapInArrow` into nothing on `local[2]`. If one payload in a
hundred is corrupt (by turns cut short, too long, a wrong first byte, a flipped bit), the time may
at most double.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from airflow_provider_sfevents.spark.avro.arrow_columns import build_columns
from airflow_provider_sfevents.spark.avro.executor_tasks import Task, payload_decoder
from airflow_provider_sfevents.spark.landing.staged_batch import STAGED_SQL
from airflow_provider_sfevents.spark.landing.table_files import FileTask, table_rows
from airflow_provider_sfevents.spark.schema.envelope import ENVELOPE_SQL, EVENT_DATE
from airflow_provider_sfevents.spark.schema.event_columns import plan_batch
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.parts.part_file import COMPRESSION
from airflow_provider_sfevents.submit.java import find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_provider_sfevents.spark.schema.event_columns import EventType

ROWS = 10_000
FILES = 100
"""Number of rows; with fewer, Spark's third of a second for each task would count too much."""
ROUNDS = 5
TIMES_ONE_PROCESS = 10.0
TIMES_SPARK = 5.0
TIMES_CORRUPT = 2.0

_STRINGS = {"type": "array", "items": "string"}
_TEXTS = ("entityName", "changeOrigin", "transactionKey", "commitUser")
_LISTS = ("recordIds", "nulledFields", "diffFields", "changedFields")


def _field(name: str, kind: Any, doc: str) -> dict[str, Any]:
    branches = kind if isinstance(kind, list) else [kind]
    return {"name": name, "type": ["null", *branches], "doc": f"Data:{doc}", "default": None}


def _record(name: str, fields: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [*fields]}


def schema() -> dict[str, Any]:
    """An account's: header, a name that may be a person's, two addresses, and 22 plain fields."""
    symbols = ["CREATE", "UPDATE", "DELETE", "UNDELETE"]
    header: list[dict[str, Any]] = [
        *({"name": name, "type": "string"} for name in _TEXTS),
        {"name": "changeType", "type": {"type": "enum", "name": "ChangeType", "symbols": symbols}},
        {"name": "sequenceNumber", "type": "int"},
        *({"name": name, "type": "long"} for name in ("commitTimestamp", "commitNumber")),
        *({"name": name, "type": _STRINGS} for name in _LISTS),
    ]
    person = [_field(name, "string", "Text") for name in ("Salutation", "FirstName", "LastName")]
    lines = ("Street", "City", "State", "PostalCode", "Country", "GeocodeAccuracy")
    address = [
        *(_field(name, "string", "Text") for name in lines),
        *(_field(name, "double", "Double") for name in ("Latitude", "Longitude")),
    ]
    texts = [_field(f"Text{number}", "string", "Text") for number in range(14)]
    return {
        **_record(
            "AccountChangeEvent",
            [
                {"name": "ChangeEventHeader", "type": _record("ChangeEventHeader", header)},
                _field("Name", ["string", _record("PersonName", person)], "Switchable_PersonName"),
                _field("BillingAddress", _record("Address", address), "Address"),
                _field("ShippingAddress", "Address", "Address"),
                *texts,
                _field("AnnualRevenue", "double", "Currency"),
                _field("Score", "double", "Double"),
                _field("NumberOfEmployees", "int", "Integer"),
                _field("CreatedDate", "long", "DateTime"),
                _field("LastModifiedDate", "long", "DateTime"),
                _field("Founded", "long", "DateOnly"),
                _field("Opens", "long", "TimeOnly"),
                _field("Active", "boolean", "Boolean"),
            ],
        ),
        "namespace": "com.sforce.eventbus",
    }


def event(chance: random.Random, number: int) -> dict[str, Any]:
    """A change that touches about half of the fields."""

    def maybe(value: Any, share: float = 0.5) -> Any:
        return value if chance.random() < share else None

    person = {"Salutation": None, "FirstName": "Ada", "LastName": f"L{number}"}
    name = chance.choice([f"Acme {number}", ("com.sforce.eventbus.PersonName", person)])
    address = {
        "Street": f"Hauptstr. {number}",
        "City": "Dresden",
        "PostalCode": "01067",
        "Country": "DE",
        "Latitude": 51.05,
        "Longitude": 13.74,
    }
    changed = [["0x200002"], ["0x200400"], ["0x200802", "2-0x01"]]
    return {
        "ChangeEventHeader": {
            "entityName": "Account",
            "changeOrigin": "com/salesforce/api/rest/66.0;client=bench",
            "transactionKey": f"00033c92-748b-4bdc-87ca-{number:012}",
            "commitUser": "0055f000001AbCdEFG",
            "changeType": "UPDATE",
            "sequenceNumber": 1,
            "commitTimestamp": 1_793_491_200_000 + number * 1000,
            "commitNumber": 1_756_817_292_878_872_579 + number,
            "recordIds": [f"001Dp{number:013}"],
            "nulledFields": chance.choice([[], ["0x40"]]),
            "diffFields": [],
            "changedFields": chance.choice(changed),
        },
        "Name": maybe(name),
        "BillingAddress": maybe(address, 0.3),
        "ShippingAddress": maybe(address, 0.2),
        **{f"Text{index}": maybe(f"value {index} of {number}") for index in range(14)},
        "AnnualRevenue": maybe(number * 1.5),
        "Score": maybe(number / 7),
        "NumberOfEmployees": maybe(number),
        "CreatedDate": maybe(1_685_217_197_000),
        "LastModifiedDate": 1_793_491_200_000 + number,
        "Founded": maybe(86_400_000 * (number % 20_000)),
        "Opens": maybe(number * 1000 % 86_400_000),
        "Active": maybe(bool(number % 2)),
    }


def payloads(count: int) -> list[bytes]:
    chance = random.Random(26)  # noqa: S311 - not a secret
    parsed = parse_schema(schema())
    found: list[bytes] = []
    for number in range(count):
        stream = io.BytesIO()
        schemaless_writer(stream, parsed, event(chance, number))
        found.append(stream.getvalue())
    return found


def one_in_a_hundred_corrupt(whole: Sequence[bytes]) -> list[bytes]:
    chance = random.Random(99)  # noqa: S311 - not a secret
    kinds: Iterator[Callable[[bytes], bytes]] = itertools.cycle(
        [
            lambda payload: payload[: chance.randrange(len(payload))],
            lambda payload: payload + b"\x00",
            lambda payload: b"\x01" + payload[1:],
            lambda payload: _flipped(payload, chance.randrange(len(payload) * 8)),
        ]
    )
    return [
        next(kinds)(payload) if number % 100 == 50 else payload
        for number, payload in enumerate(whole)
    ]


def _flipped(payload: bytes, bit: int) -> bytes:
    spoilt = bytearray(payload)
    spoilt[bit // 8] ^= 1 << bit % 8
    return bytes(spoilt)


def peer(kind: EventType, some: Sequence[bytes]) -> list[pa.Array]:
    """Columns of dicts of payloads."""
    parsed = parse_schema(schema())
    records = [schemaless_reader(io.BytesIO(payload), parsed, None) for payload in some]
    return build_columns(records, kind.columns)[0]


def peer_batches(kind: EventType, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        arrays = peer(kind, batch.column("payload").to_pylist())
        yield pa.RecordBatch.from_arrays(arrays, [column.name for column in kind.columns])


def in_turn(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds of each; they take turns, after a round that does not count."""
    took: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(ROUNDS + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if number:
                took[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in took.items()}


def in_one_process(kind: EventType) -> dict[str, float]:
    whole = payloads(ROWS)
    corrupt = one_in_a_hundred_corrupt(whole)
    accelerated, reference = (
        payload_decoder(kind.schemas["bench"], kind.columns_of("bench"), accelerated=one)
        for one in (True, False)
    )
    return in_turn(
        {
            "peer": lambda: peer(kind, whole),
            "accelerator": lambda: accelerated(whole),
            "accelerator, 1 % corrupt": lambda: accelerated(corrupt),
            "reference": lambda: reference(whole),
            "reference, 1 % corrupt": lambda: reference(corrupt),
        }
    )


def in_spark(kind: EventType, folder: Path) -> dict[str, float]:
    spark = session()
    whole = staged(spark, folder / "whole", payloads(ROWS))
    corrupt = staged(spark, folder / "corrupt", one_in_a_hundred_corrupt(payloads(ROWS)))
    sql = ", ".join(f"{column.name} {column.type.sql()}" for column in kind.columns)

    task = FileTask(
        decoding=Task(
            types=(kind,),
            refused={},
            names={"bench": kind.name},
            first_ordinals=tuple(range(0, ROWS * FILES, ROWS)),
            accelerated=True,
        ),
        of_batch={"org_id": "00D", "event_topic": "t", "batch_id": "e-1", "batch_number": 1},
        tables=frozenset({kind.name}),
        codec="none",
    )
    ours = functools.partial(table_rows, task), f"{ENVELOPE_SQL}, {sql}, {EVENT_DATE} date"
    runs: dict[str, Callable[[], object]] = {
        "peer": lambda: into_nothing(whole.mapInArrow(functools.partial(peer_batches, kind), sql)),
        "accelerator": lambda: into_nothing(whole.mapInArrow(*ours)),
        "accelerator, 1 % corrupt": lambda: into_nothing(corrupt.mapInArrow(*ours)),
    }
    took = in_turn(runs)
    spark.stop()
    return took


def into_nothing(rows: Any) -> None:
    rows.write.format("noop").mode("overwrite").save()


def session() -> Any:
    """A Spark of two cores."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = find_java().home
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS))
        .getOrCreate()
    )


def staged(spark: Any, folder: Path, some: Sequence[bytes]) -> Any:
    """Rows of staged files, each with all of these payloads."""
    folder.mkdir()
    for first in range(0, ROWS * FILES, ROWS):
        columns = {
            "ordinal": pa.array(range(first, first + ROWS), pa.int64()),
            "event_id": [f"{ordinal}" for ordinal in range(first, first + ROWS)],
            "replay_id": pa.array([b"\x00"] * ROWS, pa.binary()),
            "schema_id": ["bench"] * ROWS,
            "received_at": pa.array([0] * ROWS, pa.timestamp("us", tz="UTC")),
            "payload": pa.array(some, pa.binary()),
        }
        pq.write_table(
            pa.table(columns),
            folder / f"{first:07}.parquet",
            compression=COMPRESSION,
            use_dictionary=[layout.SCHEMA_ID],
        )
    return spark.read.schema(STAGED_SQL).parquet(str(folder))


def report(took: dict[str, float], rows: int, times: float) -> bool:
    """Print each beside the peer; whether the accelerator is within both limits."""
    for name, seconds in took.items():
        print(
            f"  {name:25} {rows / seconds:10,.0f} rows/s  {took['peer'] / seconds:5.1f} x the peer"
        )
    gained = took["peer"] / took["accelerator"]
    slower = took["accelerator, 1 % corrupt"] / took["accelerator"]
    print(f"  accelerator: {gained:.1f} x the peer (limit: at least {times:g})")
    print(f"  accelerator, 1 % corrupt: {slower:.2f} x the time (limit: at most {TIMES_CORRUPT:g})")
    return gained >= times and slower <= TIMES_CORRUPT


def main() -> int:
    (kind,) = plan_batch({"bench": json.dumps(schema())}, dict).types
    print(f"one process, {ROWS:,} payloads, median of {ROUNDS}")
    within = report(in_one_process(kind), ROWS, TIMES_ONE_PROCESS)
    print(f"Spark local[2] into nothing, {ROWS * FILES:,} payloads, median of {ROUNDS}")
    with tempfile.TemporaryDirectory() as folder:
        took = in_spark(kind, Path(folder))
    return 0 if report(took, ROWS * FILES, TIMES_SPARK) and within else 1


if __name__ == "__main__":
    sys.exit(main())
