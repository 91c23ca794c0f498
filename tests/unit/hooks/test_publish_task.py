"""Counts and messages of a publishing task."""

from __future__ import annotations

import json

import pytest

from airflow_provider_sfevents.exceptions import EventsRefusedError
from airflow_provider_sfevents.hooks.publish_task import SHOWN, Tally
from airflow_provider_sfevents.pubsub.publishing.event_encoder import PublishResult
from airflow_provider_sfevents.staging.publish_ledger import Accepted

TOPIC = "/event/Order__e"


def results(*numbers: int, error: str = "") -> list[PublishResult]:
    return [
        PublishResult(
            event_id=f"e{number}",
            replay_id=b"" if error else number.to_bytes(4, "big"),
            error=error,
            number=number,
        )
        for number in numbers
    ]


def test_first_and_last_are_those_of_the_records() -> None:
    """The replay ids are those of the first and last record over all tries, in any order."""
    tally = Tally(records=5)
    assert tally.note(results(4, 2)) == [
        Accepted(record=4, id="e4", replay_id="00000004"),
        Accepted(record=2, id="e2", replay_id="00000002"),
    ]
    tally.had(Accepted(record=5, id="e5", replay_id="00000005"))
    tally.note(results(3, 1))
    assert tally.result(TOPIC, "file:///ledger") == {
        "topic": TOPIC,
        "records": 5,
        "published": 4,
        "before": 1,
        "repeated": 0,
        "failed": 0,
        "first_replay_id": "00000001",
        "last_replay_id": "00000005",
        "ledger": "file:///ledger",
    }


def test_a_result_does_not_grow_with_the_events() -> None:
    """The size of the XCom result does not depend on the number of events."""
    tally = Tally(records=10_000)
    tally.note(results(*range(1, 10_001)))
    assert len(json.dumps(tally.result(TOPIC, "file:///ledger"))) < 300


def test_many_refusals_are_told_in_short() -> None:
    """Of many refusals the first are named with a shortened reason, the rest is counted."""
    tally = Tally(records=1_010)
    tally.note(results(*range(1, 11)))
    tally.note(results(*range(11, 1_011), error="because " * 1_000))
    with pytest.raises(EventsRefusedError) as raised:
        tally.refuse(TOPIC)
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("1000 of 1010 events refused")
    assert "the other 10 are published" in lines[0]
    assert lines[1].startswith("record 11 (event id e11): because ")
    assert lines[-1] == f"and {1_000 - SHOWN} more."
    assert len(str(raised.value)) < 5_000


def test_nothing_refused_is_nothing_to_tell() -> None:
    """Without refused events no error is raised."""
    tally = Tally(records=1)
    tally.note(results(1))
    tally.refuse(TOPIC)
