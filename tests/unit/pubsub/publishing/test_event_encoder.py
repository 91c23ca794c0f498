"""Records to payloads and requests."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.publishing.event_encoder import (
    SHOWN,
    EventEncoder,
    GivenRecord,
    OutgoingEvent,
    check,
    checked,
    events,
    numbered,
    requests,
)
from airflow_provider_sfevents.pubsub.publishing.event_ids import derived_ids, ids_of, run_namespace

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order__e",
        "fields": [
            {"name": "CreatedDate", "type": "long"},
            {"name": "CreatedById", "type": "string"},
            *(
                {"name": name, "type": ["null", kind], "default": None}
                for name, kind in (
                    ("Text__c", "string"), ("Number__c", "double"), ("Moment__c", "long"),
                    ("Flag__c", "boolean"),
                )
            ),
        ],
    }
)  # fmt: skip


TOPIC = "/event/Order__e"


def encoder(**more: Any) -> EventEncoder:
    known: dict[str, Any] = {"now": NOW, "user_id": "005gL000000XYZaQAO"}
    return EventEncoder(SCHEMA, topic=TOPIC, schema_id="S", **{**known, **more})


def decoded(event: OutgoingEvent) -> Any:
    parsed = fastavro.parse_schema(json.loads(SCHEMA))
    return fastavro.schemaless_reader(BytesIO(event.payload), parsed, None)


def published(*records: Any) -> list[Any]:
    return [decoded(event) for event in checked(encoder(), numbered(records))]


def test_creation_time_and_user_are_filled_in() -> None:
    """A record without creation time and user gets the current time and the session's user."""
    assert published({"Text__c": "a"}) == [
        {
            "CreatedDate": int(NOW.timestamp() * 1000),
            "CreatedById": "005gL000000XYZaQAO",
            "Text__c": "a",
            "Number__c": None,
            "Moment__c": None,
            "Flag__c": None,
        }
    ]


def test_creation_time_and_user_may_be_given() -> None:
    """A record's own creation time and user are kept."""
    own = published({"CreatedDate": 5, "CreatedById": "005x"})[0]
    assert (own["CreatedDate"], own["CreatedById"]) == (5, "005x")


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("Moment__c", datetime(1970, 1, 2, 0, 0, 0, 1000, tzinfo=UTC), 86_400_001),
        ("Moment__c", date(1970, 1, 3), 2 * 86_400_000),
        ("Moment__c", time(0, 1, 2, 3000), 62_003),
        ("Number__c", Decimal("12.5"), 12.5),
        ("Number__c", 12, 12.0),
        ("Flag__c", True, True),
        ("Text__c", None, None),
    ],
)
def test_values_as_python_has_them(field: str, value: Any, stored: Any) -> None:
    """Times become milliseconds and decimals doubles, as the schema asks."""
    assert published({field: value})[0][field] == stored


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"Texd__c": "a"}, "record 2: 'Texd__c' is no field of the event; is it Text__c?"),
        ({"Number__c": "twelve"}, "record 2: Number__c is 'twelve'; it must be a number"),
        ({"Text__c": "x" * 1_000_001}, "record 2: has 1,000,0"),
        (["a"], "record 2: is ['a']; it must be fields with values"),
    ],
    ids=["unknown field", "wrong type", "too large", "no record"],
)
def test_a_record_that_does_not_fit(record: Any, said: str) -> None:
    """The error of an unfit record names its number, field, value and the topic's fields."""
    with pytest.raises(ConfigurationError) as raised:
        published({"Text__c": "fine"}, record)
    message = str(raised.value)
    assert said in message
    assert f"1 of 2 records cannot be published to {TOPIC}" in message
    assert "Fields of the event: CreatedDate, CreatedById, Text__c" in message


def test_everything_wrong_is_said_at_once() -> None:
    """One error names the mistakes of all records, up to a number, and counts the others."""
    wrong = [{"Number__c": number, "Flag__c": "no", "Extra": 1} for number in range(30)]
    given = [{"Text__c": "fine"}, *wrong]
    with pytest.raises(ConfigurationError) as raised:
        check(encoder(), numbered(given))
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("30 of 31 records")
    assert sum(line.startswith("record ") for line in lines) == SHOWN
    assert lines[1] == "record 2: 'Extra' is no field of the event"
    assert lines[2] == "record 2: Flag__c is 'no'; it must be true or false"
    assert f"and {60 - SHOWN} more mistakes." in lines


def test_where_a_record_is_from_is_said() -> None:
    """A mistake names the file and line of its record."""
    given = GivenRecord(number=7, record={"Number__c": True}, where="b.jsonl, line 3")
    with pytest.raises(
        ConfigurationError, match=r"record 7 \(b.jsonl, line 3\): Number__c is True"
    ):
        check(encoder(), [given])


def test_a_long_value_is_abridged() -> None:
    """A message shows only the beginning of a long value."""
    with pytest.raises(ConfigurationError) as raised:
        published({"Number__c": "secret" * 1000})
    assert len(str(raised.value)) < 500


def test_a_check_counts() -> None:
    """A check without mistakes returns the number of records."""
    assert check(encoder(), numbered([{"Text__c": "a"}] * 3)) == 3


def test_what_has_changed_since_it_was_checked_is_not_sent() -> None:
    """Events before a record that changed since the check come out, then an error names it."""
    made = events(encoder(), numbered([{"Text__c": "a"}, {"Number__c": "a"}, {"Text__c": "b"}]))
    assert decoded(next(made))["Text__c"] == "a"
    with pytest.raises(ConfigurationError, match="record 2: Number__c"):
        next(made)


def test_an_event_keeps_its_id_from_try_to_try() -> None:
    """A derived id follows from run, number and content, not from time, user or process."""
    records = [{"Text__c": "a"}, {"Text__c": "a"}, {"Text__c": "b", "Number__c": 1}]

    def ids(*parts: object, given: Any = records, **more: Any) -> list[str]:
        identify = derived_ids(run_namespace(*parts))
        return [one.id for one in checked(encoder(identify=identify, **more), numbered(given))]

    first = ids("dag", "run", "task", -1)
    assert first[2] == "2d6481c6-e805-5363-b152-7c4a6e96c1d0"
    assert len(set(first)) == 3
    later = NOW.replace(year=2027)
    assert ids("dag", "run", "task", -1, now=later, user_id="005000000000001AAA") == first
    changed = ids("dag", "run", "task", -1, given=[*records[:2], {"Text__c": "c"}])
    assert (changed[:2], changed[2] == first[2]) == (first[:2], False)
    assert set(ids("dag", "run", "task", 0)).isdisjoint(first)


def test_a_record_may_name_its_own_id() -> None:
    """A record's id comes from a field of the event, which stays, or from an extra field."""
    own = encoder(id_field="Text__c")
    [event] = checked(own, numbered([{"Text__c": "one"}]))
    assert (event.id, decoded(event)["Text__c"]) == ("one", "one")
    [event] = checked(encoder(id_field="key"), numbered([{"key": "two", "Text__c": "a"}]))
    assert (event.id, decoded(event)["Text__c"]) == ("two", "a")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([{"Kye": "a"}], "record 1: key is missing, but it is to be the event's id; is it Kye?"),
        ([{"key": None}], "record 1: key is None; it must be text, since it is the event's id"),
        ([{"key": 7}], "key is 7"),
        ([{"key": " "}], "key is ' '"),
        ([{"key": "a"}, {"key": "b"}, {"key": "a"}], "record 3: key is 'a', as that of record 1"),
    ],
    ids=["missing", "null", "a number", "blank", "twice"],
)
def test_an_id_that_cannot_be_one(records: list[Any], said: str) -> None:
    """An id that is missing, no text, blank, or used twice is refused."""
    with pytest.raises(ConfigurationError) as raised:
        check(encoder(id_field="key"), numbered(records))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("ids", "said"),
    [(["a"], "1 ids for 2 events"), (["a", "a"], "more than once, such as 'a'"), (["a", ""], "''")],
)
def test_ids_that_do_not_do(ids: list[str], said: str) -> None:
    """Given ids must be one for each record, each of them unique."""
    with pytest.raises(ConfigurationError, match=said):
        ids_of(ids, [{}, {}])


def outgoing(*sizes: int) -> list[OutgoingEvent]:
    return [
        OutgoingEvent(number=number, id=str(number), payload=b"x" * size)
        for number, size in enumerate(sizes, 1)
    ]


def test_requests_hold_at_most_200_events() -> None:
    """Requests hold at most 200 events, in order, none left out."""
    made = outgoing(*[10] * 450)
    batches = list(requests(made))
    assert [len(batch) for batch in batches] == [200, 200, 50]
    assert [event for batch in batches for event in batch] == made


def test_requests_stay_below_3_megabytes() -> None:
    """Requests stay below 3 MB, even if they then hold few events."""
    batches = list(requests(outgoing(*[900_000] * 7)))
    assert [len(batch) for batch in batches] == [3, 3, 1]
