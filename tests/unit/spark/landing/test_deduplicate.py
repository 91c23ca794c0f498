"""Comparison of events with those that have landed, and the one of several that stays."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_sfevents.spark.landing.deduplicate import (
    Source,
    dates_around,
    repetitions,
    sources,
    suspects,
)
from airflow_provider_sfevents.spark.schema.event_columns import SchemaPlan, plan_batch

STRINGS = {"type": "array", "items": "string"}


def plan(name: str, fields: dict[str, Any], unknown: dict[str, str] | None = None) -> SchemaPlan:
    avro = {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": kind} for key, kind in fields.items()],
    }
    return plan_batch({"s": json.dumps(avro)}, dict, unknown)


def header(**members: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "ChangeEventHeader",
        "fields": [{"name": key, "type": kind} for key, kind in members.items()],
    }


MEMBERS = {
    "entityName": "string",
    "transactionKey": "string",
    "sequenceNumber": "int",
    "changeType": "string",
    "recordIds": STRINGS,
}
WHOLE = header(**MEMBERS)


def test_events_are_compared_with_those_of_their_table_around_their_date() -> None:
    """Events are compared with one day on either side: a retry may publish after midnight."""
    found = sources(plan("Order__e", {"CreatedDate": "long"}), "Order__e", "/event/Order__e")

    assert found == (Source(table="Order__e", natural=False, days=1),)


def test_events_without_a_time_are_compared_over_as_long_as_the_bus_keeps_them() -> None:
    """An event dated by its receipt is compared over all days that the bus keeps events."""
    found = sources(plan("Order__e", {"Number__c": "string"}), "Order__e", "/event/Order__e")

    assert found == (Source(table="Order__e", natural=False, days=4),)


@pytest.mark.parametrize(
    ("of", "natural"),
    [
        (WHOLE, True),
        (header(entityName="string", recordIds=STRINGS), False),
        (header(**MEMBERS | {"sequenceNumber": "string"}), False),
    ],
    ids=["whole", "members missing", "of another type"],
)
def test_change_events_have_an_identity_beside_their_id(of: dict[str, Any], natural: bool) -> None:
    """A change event has one if its header has all the members that make one up."""
    name = "AccountChangeEvent"

    found = sources(plan(name, {"ChangeEventHeader": of}), name, f"/data/{name}")

    assert found == (Source(table=name, natural=natural, days=1),)


def test_what_does_not_decode_is_compared_with_quarantine_and_with_the_tables() -> None:
    """Sources are the tables of the batch's event types, and of the topic without a schema."""
    channel = plan("Order__e", {"CreatedDate": "long"}, {"u": "no such schema"})

    found = sources(channel, "_quarantine", "/event/Alert__e")

    assert found == (
        Source(table="_quarantine", natural=False, days=4),
        Source(table="Alert__e", natural=False, days=4),
        Source(table="Order__e", natural=False, days=4),
    )


def test_dates_around_are_partitions_of_the_calendar() -> None:
    """Dates around a date cross months and years, each once, within the calendar."""
    assert dates_around(["2026-12-31", "2027-01-01"], 1) == [
        "2026-12-30",
        "2026-12-31",
        "2027-01-01",
        "2027-01-02",
    ]
    assert dates_around(["0001-01-01"], 1) == ["0001-01-01", "0001-01-02"]
    assert dates_around(["9999-12-31"], 1) == ["9999-12-30", "9999-12-31"]


def test_of_events_of_one_identity_the_first_stays_unless_it_is_known() -> None:
    """Of events with one identity the lowest ordinal stays, unless the identity is known."""
    rows = [(3, "a"), (1, "b"), (0, "c"), (2, "a"), (4, "b"), (5, "d")]

    assert repetitions(rows, set()) == {3: "a", 4: "b"}
    assert repetitions(rows, {"a", "d", "z"}) == {2: "a", 3: "a", 4: "b", 5: "d"}
    assert repetitions([], {"a"}) == {}


def test_an_event_of_two_identities_is_known_by_either() -> None:
    """An event with two identities is a repetition if either is known."""
    rows = [(0, "id 1"), (0, "change 1"), (1, "id 2"), (1, "change 1"), (2, "id 2"), (3, "id 3")]

    assert repetitions(rows, set()).keys() == {1, 2}
    assert repetitions(rows, {"id 1"}).keys() == {0, 1, 2}


def test_of_many_events_only_those_in_doubt_are_looked_at() -> None:
    """Only events whose identity is known or occurs several times are selected."""
    rows = pa.table(
        {"identity": ["a", "b", "c", "a"], "batch_ordinal": pa.array([3, 1, 0, 2], pa.int64())}
    )

    assert sorted(suspects(rows, set())) == [(2, "a"), (3, "a")]
    assert sorted(suspects(rows, {"b", "z"})) == [(1, "b"), (2, "a"), (3, "a")]
    assert list(suspects(rows.slice(0, 3), {"z"})) == []
