"""Landing a staged batch in Parquet tables, on a real Spark."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import NotLandedError
from airflow_provider_sfevents.spark.landing.landed_batch import FEW_BYTES
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Receipt
from tests.spark.conftest import at
from tests.spark.lakes import land_in, land_watched

if TYPE_CHECKING:
    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.mark.parametrize("size", [1, FEW_BYTES + 1], ids=["in the driver", "in tasks"])
def test_each_event_type_lands_in_its_own_table(
    spark: Any, staging: Staging, lake: Lake, size: int
) -> None:
    """Each event type lands in its own table, as one file for each date and staged file."""
    alerts = [staging.event("alert", CreatedDate=0, CreatedById="005A", At__c=1)] * 2
    manifest = staging.write(
        [*(staging.order(n, day=n % 2) for n in range(6)), *alerts], per_part=4, bytes=size
    )

    receipt = land_in(spark, lake, manifest)

    assert lake.files() == [
        "Alert__e/event_date=1970-01-01/0f3c-1-00001.parquet",
        "Order__e/event_date=2026-11-01/0f3c-1-00000.parquet",
        "Order__e/event_date=2026-11-01/0f3c-1-00001.parquet",
        "Order__e/event_date=2026-11-02/0f3c-1-00000.parquet",
        "Order__e/event_date=2026-11-02/0f3c-1-00001.parquet",
        "_batches/0f3c-1.parquet",
    ]
    assert lake.ordinals("Order__e") == [0, 1, 2, 3, 4, 5]
    assert lake.ordinals("Alert__e") == [6, 7]
    assert receipt.tables == {f"{lake.root}/Alert__e": 2, f"{lake.root}/Order__e": 6}
    assert (receipt.events, receipt.quarantined) == (8, 0)


def test_the_receipt_lies_in_the_batchs_folder(spark: Any, staging: Staging, lake: Lake) -> None:
    """The receipt is in the batch's folder, and the landing leaves nothing else there."""
    manifest = staging.write([staging.order(1)])
    before = {path.name for path in staging.batch.iterdir()}

    receipt = land_in(spark, lake, manifest)

    written = staging.batch / layout.RECEIPT
    assert Receipt.from_json(written.read_text(), "receipt.json") == receipt
    assert {path.name for path in staging.batch.iterdir()} == before | {layout.RECEIPT}


def test_the_envelope_says_which_event_it_is_and_how_it_came_here(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """The envelope columns identify an event and its batch; replay ids are text, times UTC."""
    land_in(spark, lake, staging.write([staging.order(1)]))

    envelope = (
        "event_id, event_time, received_at, replay_id, schema_id, org_id, event_topic, "
        "batch_id, batch_number, "
        "batch_ordinal, event_date"
    )
    assert lake.rows("Order__e", envelope) == [
        (
            "id-0",
            datetime(2026, 11, 1, 0, 0, 0, 1000, tzinfo=UTC),
            datetime(2026, 11, 2, 6, 30, tzinfo=UTC),
            "000000000000f3a10000",
            "order",
            "00Dx0000000001ZEAW",
            "/event/Order__e",
            "0f3c-1",
            1,
            0,
            date(2026, 11, 1),
        )
    ]
    assert lake.rows("Order__e", "CreatedDate, CreatedById, Number__c, Amount__c, Due__c") == [
        (datetime(2026, 11, 1, 0, 0, 0, 1000, tzinfo=UTC), "005A", "N1", 0.25, date(2026, 11, 1))
    ]


def test_a_change_event_lands_with_names_in_place_of_bitmaps(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A change event lands with its header and name as structs, and 64-bit numbers whole."""
    header = {
        "entityName": "Account",
        "recordIds": ["001A", "001B"],
        "changeType": "UPDATE",
        "transactionKey": "00033c92",
        "sequenceNumber": 1,
        "commitTimestamp": 1_685_217_197_000,
        "commitNumber": 1_756_817_292_878_872_579,
        "nulledFields": ["1-0x01"],
        "diffFields": [],
        "changedFields": ["0x14", "1-0x02"],
    }
    body = {"LastModifiedDate": 1_685_217_197_000, "NumberOfEmployees": 3, "IsActive": None}
    events = [
        staging.event(
            "account", ChangeEventHeader={**header, "sequenceNumber": number}, Name=name, **body
        )
        for number, name in enumerate(("Acme", {"FirstName": None, "LastName": "Lovelace"}), 1)
    ]

    land_in(spark, lake, staging.write(events))

    at = datetime(2023, 5, 27, 19, 53, 17, tzinfo=UTC)
    (text, person) = lake.rows(
        "AccountChangeEvent",
        "ChangeEventHeader, Name, LastModifiedDate, NumberOfEmployees, IsActive",
    )
    assert text[0] == {
        **header,
        "commitTimestamp": at,
        "nulledFields": ["Name.FirstName"],
        "changedFields": ["LastModifiedDate", "IsActive", "Name.LastName"],
    }
    assert text[1:] == ({"FirstName": None, "LastName": None, "Name": "Acme"}, at, 3, None)
    assert person[1] == {"FirstName": None, "LastName": "Lovelace", "Name": None}
    assert lake.rows("AccountChangeEvent", "event_date") == [(date(2023, 5, 27),)] * 2


def test_a_bad_event_goes_to_quarantine_and_the_others_land(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A bad event goes to quarantine with its bytes and the reason, and the receipt counts it."""
    manifest = staging.write([staging.order(0), ("order", b"spoilt"), staging.order(2)], per_part=2)

    receipt = land_in(spark, lake, manifest)

    assert lake.ordinals("Order__e") == [0, 2]
    assert "_quarantine/event_date=2026-11-02/0f3c-1-00000.parquet" in lake.files()
    quarantined = lake.rows(
        "_quarantine", "event_id, event_type, schema_id, raw_payload, quarantine_reason"
    )
    assert quarantined[0][:4] == ("id-1", "Order__e", "order", b"spoilt")
    assert "ends before" in quarantined[0][4]
    assert (receipt.tables, receipt.quarantined) == ({f"{lake.root}/Order__e": 2}, 1)


@pytest.mark.parametrize(
    ("limit", "said"), [(None, "which is all of them"), (1, "more than max_quarantined=1")]
)
def test_too_many_bad_events_land_nothing(
    spark: Any, staging: Staging, lake: Lake, limit: int | None, said: str
) -> None:
    """The error has the counts, the first reason and the remedy; no file or receipt is left."""
    good = [] if limit is None else [staging.order(1)]
    manifest = staging.write([("order", b""), ("order", b"x"), *good])

    with pytest.raises(
        NotLandedError, match=rf"2 of \d events.*{said}.*first reason: the payload ends before"
    ):
        land_in(spark, lake, manifest, max_quarantined=limit)

    assert lake.files() == []
    assert not (staging.batch / layout.RECEIPT).exists()


def test_a_field_that_changed_in_kind_gets_a_column_of_its_own(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """Values of a field in two kinds stay in one table, within a batch and between two."""
    other = staging.event("order3", CreatedDate=0, CreatedById="005A", Number__c=1.5)
    land_in(spark, lake, staging.write([staging.order(0), other, staging.order(2)]))

    land_in(spark, lake, staging.write([other], batch_number=2))

    assert lake.rows("Order__e", "Number__c, Number__c__double") == [
        ("N0", None),
        (None, 1.5),
        ("N2", None),
        (None, 1.5),
    ]


def test_a_batch_is_planned_anew_when_another_records_columns_meanwhile(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """Two landings that bring a new field in two kinds make a text and a number column."""
    first = staging.write([staging.order(0)])
    number = staging.event("order3", CreatedDate=0, CreatedById="005A", Number__c=1.5)
    second = staging.write([number], batch_number=2)
    order = LandingOptions(manifest_url=first, table=str(lake.root))

    land_watched(spark, order, at(steps.LANDING_COMPARE, lambda: land_in(spark, lake, second)))

    types = sorted((lake.root / "_types/Order__e").iterdir())
    columns = [json.loads(path.read_text())["columns"] for path in types]
    assert [[one["name"] for one in found if one["field"] == "Number__c"] for found in columns] == [
        ["Number__c"],
        ["Number__c", "Number__c__string"],
    ]
    assert lake.rows("Order__e", "batch_id, Number__c, Number__c__string") == [
        ("0f3c-1", None, "N0"),
        ("0f3c-2", 1.5, None),
    ]


def test_ledger_and_receipt_say_what_changed_in_the_tables_columns(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """Ledger and receipt list a batch's changes of columns, also when it is landed again."""
    land_in(spark, lake, staging.write([staging.order(0)]))
    newer = staging.event("order2", CreatedDate=0, CreatedById="005A", Number__c="new", Size__c=7)
    manifest = staging.write([newer], batch_number=2)

    for _ in range(2):
        receipt = land_in(spark, lake, manifest)

        said = lake.landed("0f3c-2").drift
        assert [one["column"] for one in said if one["what"] == "added"] == ["Size__c"]
        assert receipt.drift == [*said]


def test_every_schema_is_kept_once(spark: Any, staging: Staging, lake: Lake) -> None:
    """A schema is in the ledger's row of the batch that brought it first, at each landing."""
    import duckdb

    newer = staging.event("order2", CreatedDate=0, CreatedById="005A", Number__c="new", Size__c=7)
    for batch_number, events in ((1, [staging.order(0)]), (2, [staging.order(1), newer])):
        manifest = staging.write(events, batch_number=batch_number)
        land_in(spark, lake, manifest)
        land_in(spark, lake, manifest)

    with duckdb.connect() as connection:
        found = connection.read_parquet(f"{lake.root}/_batches/*.parquet")
        schemas = found.select("unnest(schemas, recursive := true), batch_id")
        rows = schemas.order("schema_id").select("schema_id", "event_type", "batch_id")
        assert rows.fetchall() == [
            ("order", "Order__e", "0f3c-1"),
            ("order2", "Order__e", "0f3c-2"),
        ]


def test_an_empty_batch_lands_as_nothing(spark: Any, staging: Staging, lake: Lake) -> None:
    """An empty batch lands without a row, and gets its receipt."""
    receipt = land_in(spark, lake, staging.write([]))

    assert lake.files() == ["_batches/0f3c-1.parquet"]
    assert (receipt.events, receipt.tables) == (0, {})


def test_landing_again_makes_the_same_files(spark: Any, staging: Staging, lake: Lake) -> None:
    """Landed files are equal byte by byte, also if a staged file has many row groups."""
    events = [*(staging.order(n, day=n % 3) for n in range(3000)), ("order", b"spoilt")]
    manifest = staging.write(events, per_part=1500, row_group_size=100)
    land_in(spark, lake, manifest)
    tables = [path for path in lake.files() if not path.startswith("_batches/")]
    first = {path: (lake.root / path).read_bytes() for path in tables}

    land_in(spark, lake, manifest)

    assert {path: (lake.root / path).read_bytes() for path in tables} == first
    assert lake.files() == [*tables[:-1], "_batches/0f3c-1.parquet", tables[-1]]
    assert len(tables) == 7


def test_a_batch_that_became_another_replaces_what_it_landed_before(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """Files of tables, dates and parts that it no longer has are gone; other batches stay."""
    alert = staging.event("alert", CreatedDate=0, CreatedById="005A", At__c=1)
    land_in(spark, lake, staging.write([staging.order(7)], batch_number=11))
    land_in(
        spark,
        lake,
        staging.write(
            [alert, *(staging.order(n, day=n) for n in range(4)), ("order", b"")], per_part=2
        ),
    )

    land_in(spark, lake, staging.write([staging.order(n, day=1) for n in range(3)]))

    assert lake.files() == [
        "Order__e/event_date=2026-11-01/0f3c-11-00000.parquet",
        "Order__e/event_date=2026-11-02/0f3c-1-00000.parquet",
        "_batches/0f3c-1.parquet",
        "_batches/0f3c-11.parquet",
    ]
    assert lake.landed("0f3c-1").rows == {"Order__e": 3}


@pytest.mark.parametrize("payload_bytes", [1, 2**30])
def test_a_staged_file_of_many_dates_lands_as_one_file_for_each(
    spark: Any, staging: Staging, lake: Lake, payload_bytes: int
) -> None:
    """A staged file of 14 dates lands as one file per date, in order, by the driver or by tasks."""
    dates, events = 14, 70
    rows = [staging.order(n, day=n * 3 % dates) for n in range(events)]
    manifest = staging.write(rows, bytes=payload_bytes)

    land_in(spark, lake, manifest)

    files = [path for path in lake.files() if path.startswith("Order__e/")]
    found = [pq.read_table(lake.root / path, partitioning=None) for path in files]
    ordinals = [table["batch_ordinal"].to_pylist() for table in found]
    assert len(files) == dates
    assert ordinals == [sorted(some) for some in ordinals]
    assert sorted(itertools.chain(*ordinals)) == list(range(events))


def test_the_raw_payload_lands_on_request(spark: Any, staging: Staging, lake: Lake) -> None:
    """The raw payload lands on request, as a column beside the decoded ones."""
    event = staging.order(1)

    land_in(spark, lake, staging.write([event]), keep_payload=True)

    assert lake.rows("Order__e", "raw_payload") == [(event[1],)]
