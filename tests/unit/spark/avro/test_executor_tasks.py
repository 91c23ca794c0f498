"""The executors' tasks, without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.avro.executor_tasks import (
    LEADING_NAMES,
    Task,
    judged,
)
from airflow_provider_sfevents.spark.schema.event_columns import plan_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECEIVED = datetime(2026, 11, 3, 1, 2, 3, tzinfo=UTC)


def staged(*events: tuple[str, bytes], first: int = 0) -> pa.RecordBatch:
    """Rows of (schema id, payload), as Spark passes them."""
    ordinals = range(first, first + len(events))
    return pa.RecordBatch.from_pydict(
        {
            "ordinal": pa.array(ordinals, pa.int64()),
            "event_id": [f"id-{ordinal}" for ordinal in ordinals],
            "replay_id": [bytes([ordinal]) for ordinal in ordinals],
            "schema_id": [schema_id for schema_id, _ in events],
            "received_at": pa.array([RECEIVED] * len(events), pa.timestamp("us", tz="UTC")),
            "payload": [payload for _, payload in events],
        }
    )


def task(schemas: dict[str, str], **more: Any) -> Task:
    plan = plan_batch(schemas, dict)
    return Task(
        types=plan.types,
        refused=plan.refused,
        names=plan.names,
        first_ordinals=more.pop("first_ordinals", (0,)),
        **more,
    )


def decoded(of: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decoded rows of all schemas."""
    return (good for batch in judged(of, batches) for good, _ in batch.values() if good)


def undecodable(of: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows that `decoded` leaves out."""
    return (bad for batch in judged(of, batches) for _, bad in batch.values() if bad)


def rows(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_decoded_row_carries_envelope_and_payload(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """A row has the event's time and date, and its values have their columns' types."""
    found = rows(
        decoded(
            task({"o": order_schema}),
            iter([staged(("o", order(Number__c="N", Due__c=0, At__c=1)))]),
        )
    )

    at = datetime(2026, 11, 1, tzinfo=UTC)
    assert found == [
        {
            "event_id": "id-0",
            "event_time": at,
            "received_at": RECEIVED,
            "replay_id": b"\x00",
            "schema_id": "o",
            "batch_ordinal": 0,
            "event_date": date(2026, 11, 1),
            "staged_split": 0,
            "CreatedDate": at,
            "Number__c": "N",
            "Due__c": date(1970, 1, 1),
            "At__c": "00:00:00.001",
        }
    ]


def test_a_change_events_time_is_its_commit(
    account_schema: str, account: Callable[..., bytes]
) -> None:
    """The time of a change event is its commit time, not LastModifiedDate."""
    found = rows(decoded(task({"a": account_schema}), iter([staged(("a", account(modified=0)))])))

    assert found[0]["event_time"] == datetime(2023, 5, 27, 19, 53, 17, tzinfo=UTC)
    assert found[0]["ChangeEventHeader"]["commitTimestamp"] == found[0]["event_time"]


def test_an_event_without_a_readable_time_has_the_date_it_was_received(
    account_schema: str, account: Callable[..., bytes]
) -> None:
    """An event without a readable time has the date of its receipt."""
    far = account(commitTimestamp=2**62)

    found = rows(undecodable(task({"a": account_schema}), iter([staged(("a", far))])))

    assert found[0]["event_time"] is None
    assert found[0]["event_date"] == date(2026, 11, 3)
    assert found[0]["raw_payload"] == far
    assert "ChangeEventHeader does not fit" in found[0]["quarantine_reason"]


def test_every_event_is_either_decoded_or_put_aside(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """Each row is either decoded or undecodable with a reason."""
    batch = staged(("o", order()), ("o", b"spoilt"), ("o", order(At__c=-1)), ("o", order()))
    of = task({"o": order_schema})

    good = rows(decoded(of, iter([batch])))
    bad = rows(undecodable(of, iter([batch])))

    assert [row["batch_ordinal"] for row in good] == [0, 3]
    assert [row["batch_ordinal"] for row in bad] == [1, 2]
    assert [row["event_type"] for row in bad] == ["Order__e", "Order__e"]
    assert all(row["quarantine_reason"] for row in bad)


def test_schemas_of_one_type_land_in_the_same_columns(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """Rows of two schemas share columns; a field that one lacks is null."""
    older = order_schema.replace("Number__c", "Label__c")

    found = rows(
        decoded(
            task({"new": order_schema, "old": older}),
            iter([staged(("new", order(Number__c="N")), ("old", order()))]),
        )
    )

    assert {row["batch_ordinal"]: (row["Number__c"], row["Label__c"]) for row in found} == {
        0: ("N", None),
        1: (None, None),
    }


def test_events_of_a_refused_schema_are_put_aside_whole(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """All events of a refused schema are undecodable, with the schema's reason."""
    of = Task(
        types=(), refused={"o": "contradiction"}, names={"o": "Order__e"}, first_ordinals=(0,)
    )

    found = rows(undecodable(of, iter([staged(("o", order()))])))

    assert [row["quarantine_reason"] for row in found] == ["contradiction"]


def test_the_split_of_a_row_follows_from_its_ordinal(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """The split of a row follows from its ordinal, in any order of rows."""
    of = task({"o": order_schema}, first_ordinals=(0, 3, 5))

    found = rows(
        decoded(of, iter([staged(*[("o", order())] * 3, first=2), staged(("o", order()), first=5)]))
    )

    assert [(row["batch_ordinal"], row["staged_split"]) for row in found] == [
        (2, 0),
        (3, 1),
        (4, 1),
        (5, 2),
    ]


def test_the_raw_payload_is_kept_on_request(order_schema: str, order: Callable[..., bytes]) -> None:
    """With `keep_payload` the raw payload is the last column."""
    batches = list(
        decoded(task({"o": order_schema}, keep_payload=True), iter([staged(("o", order()))]))
    )

    assert batches[0].schema.names[-1] == "raw_payload"
    assert batches[0].column("raw_payload").to_pylist() == [order()]


def test_an_event_of_a_schema_that_is_not_the_batchs_stops_the_job(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """A schema that the manifest does not name fails the job."""
    with pytest.raises(StagingError, match="names schema 'other', and the manifest does not"):
        list(decoded(task({"o": order_schema}), iter([staged(("other", order()))])))


def test_a_batch_without_a_good_row_yields_nothing(order_schema: str) -> None:
    """Without a decodable row there is no Arrow batch, so that no empty file is written."""
    assert list(decoded(task({"o": order_schema}), iter([staged(("o", b"spoilt"))]))) == []


def test_the_columns_that_lead_are_those_the_job_declares() -> None:
    """The leading columns have the declared names and types."""
    assert LEADING_NAMES[0] == "event_id"
    assert LEADING_NAMES[-2:] == ("event_date", "staged_split")


def test_events_that_are_left_out_are_in_neither(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """Events that are left out, by ordinal, are neither decoded nor undecodable."""
    batches = [staged(("o", order()), ("o", b"")), staged(("o", b""), ("o", order()), first=2)]
    of = task({"o": order_schema}, left_out=frozenset({1, 3}))

    assert [row["batch_ordinal"] for row in rows(decoded(of, iter(batches)))] == [0]
    assert [row["batch_ordinal"] for row in rows(undecodable(of, iter(batches)))] == [2]
