"""Undecodable events go to quarantine, and the events beside them land."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import NotLandedError
from airflow_provider_sfevents.spark import event_types, read_undecodable
from airflow_provider_sfevents.staging import layout
from tests.spark.event_schemas import SCHEMAS
from tests.spark.lakes import land_in

if TYPE_CHECKING:
    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

REASON = "There is no schema 'new' in this org.\n(rpc-id 1)"


def newer(staging: Staging, number: str) -> tuple[str, bytes]:
    """Make an event of a schema that the service does not return."""
    payload = staging.event(
        "order2", CreatedDate=0, CreatedById="005A", Number__c=number, Size__c=7
    )
    return "new", payload[1]


def know(staging: Staging) -> None:
    """Stage the schema that was unknown before."""
    schema = staging.batch / layout.schema_name("new")
    schema.write_text(json.dumps(SCHEMAS["order2"]))


@pytest.fixture
def unknown(staging: Staging) -> str:
    manifest = staging.write([staging.order(0), newer(staging, "a"), staging.order(2)])
    (staging.batch / layout.unknown_schema_name("new")).write_text(REASON)
    return manifest


def test_events_of_a_schema_that_is_not_known_go_to_quarantine(
    spark: Any, staging: Staging, lake: Lake, unknown: str
) -> None:
    """Events of an unknown schema go to quarantine with all that decoding needs later."""
    receipt = land_in(spark, lake, unknown)

    assert lake.ordinals("Order__e") == [0, 2]
    columns = "event_id, replay_id, schema_id, event_type, raw_payload, quarantine_reason"
    assert lake.rows("_quarantine", columns) == [
        (
            "id-1",
            "000000000000f3a10001",
            "new",
            "",
            newer(staging, "a")[1],
            "There is no schema 'new' in this org. (rpc-id 1)",
        )
    ]
    assert (receipt.tables, receipt.quarantined) == ({f"{lake.root}/Order__e": 2}, 1)


@pytest.mark.full
def test_landing_again_with_the_schema_takes_events_out_of_quarantine(
    spark: Any, staging: Staging, lake: Lake, unknown: str
) -> None:
    """Landing a batch again with its schema takes the events out of quarantine."""
    land_in(spark, lake, unknown)
    know(staging)

    receipt = land_in(spark, lake, unknown)

    assert receipt.quarantined == 0
    assert lake.rows("Order__e", "batch_ordinal, Number__c, Size__c") == [
        (0, "N0", None),
        (1, "a", 7),
        (2, "N2", None),
    ]
    assert not [path for path in lake.files() if path.startswith("_quarantine")]


def test_a_copy_of_an_event_in_quarantine_lands_where_it_decodes_first(
    spark: Any, staging: Staging, lake: Lake, unknown: str
) -> None:
    """An event leaves quarantine if the batch that put it there is landed again."""
    land_in(spark, lake, unknown)
    first = staging.batch
    again = staging.write([newer(staging, "a")], ids=["id-1"], batch_number=2)
    know(staging)
    land_in(spark, lake, again)
    staging.batch = first
    know(staging)

    receipt = land_in(spark, lake, unknown)

    assert (receipt.quarantined, receipt.duplicates) == (0, 1)
    assert lake.rows("Order__e", "event_id, batch_id") == [
        ("id-0", "0f3c-1"),
        ("id-2", "0f3c-1"),
        ("id-1", "0f3c-2"),
    ]
    assert not [path for path in lake.files() if path.startswith("_quarantine")]


def test_a_batch_whose_schemas_are_all_unknown_stays_staged(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """A batch of unknown schemas stays staged, unless the limit lets all of it into quarantine."""
    manifest = staging.write([newer(staging, "a"), newer(staging, "b")])
    (staging.batch / layout.unknown_schema_name("new")).write_text(REASON)

    with pytest.raises(
        NotLandedError, match=r"2 of 2 events.*There is no schema 'new' in this org"
    ):
        land_in(spark, lake, manifest)
    assert lake.files() == []
    assert not (staging.batch / layout.RECEIPT).exists()

    receipt = land_in(spark, lake, manifest, max_quarantined=2)

    assert (receipt.tables, receipt.quarantined) == ({}, 2)


def test_a_job_of_ones_own_finds_them_too(spark: Any, unknown: str) -> None:
    """A user's own job finds events of unknown schemas among those that cannot be decoded."""
    assert event_types(spark, unknown) == ["Order__e"]
    assert [row.schema_id for row in read_undecodable(spark, unknown).collect()] == ["new"]


def test_each_kind_of_poison_is_put_aside_with_its_reason(
    spark: Any, staging: Staging, lake: Lake
) -> None:
    """Events with bad lengths, enum symbols or text go to quarantine; the rest lands."""
    good = staging.event(
        "account",
        ChangeEventHeader={
            "entityName": "Account",
            "recordIds": [],
            "changeType": "CREATE",
            "transactionKey": "t",
            "sequenceNumber": 1,
            "commitTimestamp": 1_685_217_197_000,
            "commitNumber": 1,
            "nulledFields": [],
            "diffFields": [],
            "changedFields": [],
        },
    )[1]
    symbol = good.index(b"Account") + len(b"Account") + 1
    poison = {
        "ends before": good[:-1],
        "left over": good + b"\x00",
        "enum symbol": good[:symbol] + b"\x12" + good[symbol + 1 :],
        "not UTF-8": good.replace(b"Account", b"Acc\xff\xff\xff\xff"),
    }

    receipt = land_in(
        spark,
        lake,
        staging.write([("account", payload) for payload in (good, *poison.values())]),
        max_quarantined=4,
    )

    assert lake.ordinals("AccountChangeEvent") == [0]
    found = lake.rows("_quarantine", "raw_payload, quarantine_reason, event_type")
    assert [row[0] for row in found] == list(poison.values())
    for (_, reason, event_type), said in zip(found, poison, strict=True):
        assert said in reason
        assert event_type == "AccountChangeEvent"
    assert receipt.quarantined == 4
