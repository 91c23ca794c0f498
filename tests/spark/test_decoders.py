"""The accelerator and the reference make the same rows of the same payloads, well-formed or not."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.spark.avro import decoder_needs
from airflow_provider_sfevents.spark.avro.executor_tasks import OF_QUARANTINE_SQL, Task, columns_sql
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.landing.staged_batch import STAGED_SQL
from airflow_provider_sfevents.spark.landing.table_files import FileTask, table_rows
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.event_columns import plan_batch
from airflow_provider_sfevents.spark.tables.file_moves import QUARANTINE
from tests.spark.conftest import RECEIVED_AT
from tests.unit.spark.avro import shapes
from tests.unit.spark.landing.test_table_files import OF_BATCH

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.schema.event_columns import SchemaPlan
    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SCHEMAS = {
    "account": json.dumps(shapes.ACCOUNT),
    "older": json.dumps(shapes.OLDER_ACCOUNT),
    "reading": json.dumps(shapes.READING),
}
PER_PART = 400


def staged(spark: Any, folder: Path, events: list[tuple[str, bytes]]) -> DataFrame:
    """Rows of some staged files."""
    for first in range(0, len(events), PER_PART):
        some = events[first : first + PER_PART]
        ordinals = range(first, first + len(some))
        columns = {
            "ordinal": pa.array(ordinals, pa.int64()),
            "event_id": [f"id-{ordinal}" for ordinal in ordinals],
            "replay_id": pa.array([b"\x01"] * len(some), pa.binary()),
            "schema_id": [schema_id for schema_id, _ in some],
            "received_at": pa.array([RECEIVED_AT] * len(some), pa.timestamp("us", tz="UTC")),
            "payload": pa.array([payload for _, payload in some], pa.binary()),
        }
        pq.write_table(pa.table(columns), folder / f"{first:05}.parquet")
    return spark.read.schema(STAGED_SQL).parquet(str(folder))


def task(plan: SchemaPlan, count: int, **more: Any) -> Task:
    return Task(
        **{
            "types": plan.types,
            "refused": plan.refused,
            "names": plan.names,
            "first_ordinals": tuple(range(0, count, PER_PART)),
            "keep_payload": True,
            **more,
        }
    )


def outcome(
    rows: DataFrame, plan: SchemaPlan, count: int, *, accelerated: bool, **more: Any
) -> dict[str, list[str]]:
    """Return every decoded row, and every reason of a failure."""
    from pyspark.sql import functions as F  # noqa: N812

    def made(table: str, own: list[str], rows: DataFrame) -> list[str]:
        wanted = FileTask(
            decoding=task(plan, count, accelerated=accelerated, **more),
            of_batch=OF_BATCH,
            tables=frozenset({table}),
            codec="none",
        )
        columns = ", ".join([envelope.ENVELOPE_SQL, *own, "event_date date"])
        found = rows.mapInArrow(partial(table_rows, wanted), columns)
        return sorted(map(repr, found.toArrow().to_pylist()))

    found = {"undecodable": made(QUARANTINE, [OF_QUARANTINE_SQL], rows)}
    for kind in plan.types:
        own = rows.where(F.col("schema_id").isin(sorted(kind.schemas)))
        found[kind.name] = made(kind.name, columns_sql(kind, keep_payload=True), own)
    return found


def poisoned(seed: int, count: int) -> list[tuple[str, bytes]]:
    """Events of three schemas; every fifth spoiled somehow, or said to be of another schema."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    events: list[tuple[str, bytes]] = []
    for number in range(count):
        name, payload = shapes.event(chance, number)
        events.append(shapes.spoiled(chance, name, payload) if number % 5 == 0 else (name, payload))
    return events


@pytest.mark.parametrize("seed", [20261, 20262])
def test_the_accelerator_and_the_reference_make_the_same_rows(
    spark: Any, tmp_path: Path, seed: int
) -> None:
    """Decoders agree on values, types and reasons of good and bad payloads, in any time zone."""
    rows = staged(spark, tmp_path, poisoned(seed, 1200))
    plan = plan_batch(SCHEMAS, dict)
    left_out = frozenset({1, 5, 1000})
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    there = elsewhere.read.schema(STAGED_SQL).parquet(str(tmp_path))

    reference = outcome(rows, plan, 1200, accelerated=False, left_out=left_out)

    assert len(reference["undecodable"]) > 50
    assert outcome(rows, plan, 1200, accelerated=True, left_out=left_out) == reference
    assert outcome(there, plan, 1200, accelerated=True, left_out=left_out) == reference


@pytest.mark.parametrize("accelerated", [True, False])
def test_a_claimed_length_beyond_all_reason_ends_no_executor(
    spark: Any, tmp_path: Path, accelerated: bool
) -> None:
    """A corrupt payload claims gigabytes that it does not have: it alone does not decode."""
    good = shapes.event(random.Random(1), 1, "account")  # noqa: S311
    claims = [b"\xec\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x04", b"\xff" * 9 + b"\x01"]
    events = [good, *(("account", claim + good[1]) for claim in claims)]
    rows = staged(spark, tmp_path, events)
    plan = plan_batch({"account": SCHEMAS["account"]}, dict)

    found = outcome(rows, plan, len(events), accelerated=accelerated)

    assert (len(found["AccountChangeEvent"]), len(found["undecodable"])) == (1, 3)


def test_a_batch_of_two_schemas_lands_in_order(spark: Any, staging: Staging, lake: Lake) -> None:
    """A batch of two schemas lands as one file for each staged file and date, in order."""
    orders = [staging.order(number, day=number % 2) for number in range(6)]
    orders[2] = (orders[2][0], orders[2][1] + b"\x00")
    manifest = staging.write([*orders, staging.event("order2", CreatedDate=0, CreatedById="005A")])

    receipt = land(spark, LandingOptions(manifest_url=manifest, table=str(lake.root)))

    assert receipt.quarantined == 1
    assert lake.ordinals("Order__e") == [0, 1, 3, 4, 5, 6]
    assert len([path for path in lake.files() if path.startswith("Order__e/event_date=")]) == 3


def test_the_log_says_what_decodes(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the decoder of a batch in one line."""
    with caplog.at_level("INFO", logger="airflow_provider_sfevents"):
        assert decoder_needs.has_accelerator(spark)

    assert [record.message for record in caplog.records] == [
        "Decoding with pyruhvro; fastavro decodes the events that it cannot verify."
    ]
