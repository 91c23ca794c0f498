"""Every decoder makes the same rows of the same payloads, well-formed or not."""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark import decoding
from airflow_provider_sfevents.spark.decoders import jvm
from airflow_provider_sfevents.spark.executor import Task
from airflow_provider_sfevents.spark.landing import Order, land
from airflow_provider_sfevents.spark.plan import plan_batch
from airflow_provider_sfevents.spark.staged import STAGED_SQL
from tests.harness.jars import NoJars
from tests.spark.conftest import RECEIVED_AT
from tests.unit.spark.decoders import shapes

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.plan import BatchPlan
    from tests.harness.jars import Jars
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


@pytest.fixture
def spark_avro(spark: Any, jars: Jars) -> Any:
    """The session, with spark-avro."""
    try:
        assert jars.spark_avro
    except NoJars as reason:
        pytest.skip(str(reason))
    return spark


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


def task(plan: BatchPlan, count: int, **more: Any) -> Task:
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
    rows: DataFrame, plan: BatchPlan, count: int, decoder: str, *, jvm: bool = False, **more: Any
) -> dict[str, Any]:
    """Every decoded row and every reason, and the columns' types."""
    from pyspark.sql import functions as F  # noqa: N812

    found: dict[str, Any] = {}
    for kind in plan.types:
        own = rows.where(F.col("schema_id").isin(sorted(kind.schemas)))
        made = decoding.decoded(
            own, task(plan, count, types=(kind,), refused={}, decoder=decoder, **more), jvm=jvm
        )
        found[kind.name] = sorted(map(repr, made.toArrow().to_pylist()))
        found[f"{kind.name} columns"] = [
            (field.name, field.dataType.simpleString()) for field in made.schema.fields
        ]
    bad = decoding.undecodable(rows, task(plan, count, decoder=decoder, **more), jvm=jvm)
    found["undecodable"] = sorted(map(repr, bad.toArrow().to_pylist()))
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
    """Values, types, reasons; of well-formed and of spoiled payloads."""
    rows = staged(spark, tmp_path, poisoned(seed, 1200))
    plan = plan_batch(SCHEMAS, dict)

    reference = outcome(rows, plan, 1200, "python")

    assert len(reference["undecodable"]) > 50
    assert outcome(rows, plan, 1200, "arrow") == reference


@pytest.mark.full
@pytest.mark.parametrize("seed", [20261, 20263])
def test_from_avro_and_the_reference_make_the_same_rows(
    spark_avro: Any, tmp_path: Path, seed: int
) -> None:
    """The same in Spark's own processes: bytes left over and text that is none are corrupt there, too."""
    rows = staged(spark_avro, tmp_path, poisoned(seed, 1200))
    plan = plan_batch(SCHEMAS, dict)
    left_out = frozenset({1, 5, 1000})

    reference = outcome(rows, plan, 1200, "python", left_out=left_out)

    assert outcome(rows, plan, 1200, "python", jvm=True, left_out=left_out) == reference


@pytest.mark.full
def test_a_claimed_length_beyond_all_reason_ends_no_executor(
    spark_avro: Any, tmp_path: Path
) -> None:
    """Avro would reserve what a corrupt payload claims, and Spark die of it; the limits refuse that."""
    assert decoding.chosen(spark_avro, "jvm").jvm
    good = shapes.event(random.Random(1), 1, "account")  # noqa: S311
    claims = [b"\xec\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x04", b"\xff" * 9 + b"\x01"]
    events = [good, *(("account", claim + good[1]) for claim in claims)]
    rows = staged(spark_avro, tmp_path, events)

    found = outcome(
        rows, plan_batch({"account": SCHEMAS["account"]}, dict), len(events), "python", jvm=True
    )

    assert (len(found["AccountChangeEvent"]), len(found["undecodable"])) == (1, 3)


@pytest.mark.full
def test_two_halves_of_a_character_in_two_fields_are_no_text(
    spark_avro: Any, tmp_path: Path
) -> None:
    """`from_avro` takes any bytes for text; all texts of an event are looked at together, and stay apart."""
    fields = [("CreatedDate", "long"), ("Text1__c", "string"), ("Text2__c", "string")]
    schema = {
        "type": "record",
        "name": "Halved__e",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }
    payloads = [b"\x00\x02a\x02b", b"\x00\x02\xc3\x02\xa9"]
    rows = staged(spark_avro, tmp_path, [("halved", payload) for payload in payloads])
    plan = plan_batch({"halved": json.dumps(schema)}, dict)

    found = outcome(rows, plan, 2, "python", jvm=True)

    assert (len(found["Halved__e"]), len(found["undecodable"])) == (1, 1)


@pytest.mark.parametrize("count", [1, 2, 7, 64, 65, 300])
def test_from_avro_tells_which_split_an_event_is_of(spark: Any, count: int) -> None:
    """However many there are, at its first event and behind it."""
    starts = [number * (number + 5) for number in range(count)]
    some = sorted({ordinal for start in starts for ordinal in (start, start + 1, start + 4)})
    rows = spark.createDataFrame([(ordinal,) for ordinal in some], "ordinal bigint")

    found = rows.selectExpr(f"{jvm.split_sql('ordinal', starts)} AS split").collect()

    assert [row.split for row in found] == [bisect_right(starts, ordinal) - 1 for ordinal in some]


@pytest.mark.full
def test_from_avro_gives_the_same_whatever_the_sessions_time_zone(
    spark_avro: Any, tmp_path: Path
) -> None:
    """Dates, days of partitions and times of day are UTC."""
    chance = random.Random(7)  # noqa: S311
    rows_in = [shapes.event(chance, number) for number in range(60)]
    plan = plan_batch(SCHEMAS, dict)
    there = spark_avro.newSession()
    there.conf.set("spark.sql.session.timeZone", "Pacific/Auckland")
    rows = staged(there, tmp_path, rows_in)

    reference = outcome(rows, plan, 60, "python")

    assert outcome(rows, plan, 60, "python", jvm=True) == reference


@pytest.mark.full
@pytest.mark.parametrize("decoder", ["jvm", "arrow", "python"])
def test_a_batch_lands_the_same_with_each(
    spark_avro: Any, staging: Staging, lake: Lake, decoder: str
) -> None:
    """One file for each staged file and date, the rest in quarantine."""
    orders = [staging.order(number, day=number % 2) for number in range(6)]
    orders[2] = (orders[2][0], orders[2][1] + b"\x00")
    manifest = staging.write([*orders, staging.event("order2", CreatedDate=0, CreatedById="005A")])

    receipt = land(spark_avro, Order(manifest_url=manifest, table=str(lake.root), decoder=decoder))

    assert receipt.quarantined == 1
    assert lake.ordinals("Order__e") == [0, 1, 3, 4, 5, 6]
    assert len([path for path in lake.files() if path.startswith("Order__e/event_date=")]) == 3


def test_auto_takes_the_first_that_is_there_and_says_which(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One line for a batch."""
    with caplog.at_level("INFO", logger="airflow_provider_sfevents"):
        choice = decoding.chosen(spark)

    assert choice.on_executor == "arrow"
    assert [record.message.split(" (")[0] for record in caplog.records] == [
        f"Decoder: {choice.name}"
    ]


def test_a_decoder_of_no_known_name_is_refused(spark: Any) -> None:
    """With the names there are."""
    with pytest.raises(ConfigurationError, match=r"'fast'.*auto, jvm, arrow, python"):
        decoding.chosen(spark, "fast")
