"""The call log counts deliveries by topic, by stream and by day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.state.call_log import (
    MOST_CALLS,
    MOST_ENDED,
    MOST_REQUESTS,
    CallLog,
    RecordedCall,
    RecordedFetch,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.state.call_log import RecordedSubscription

HOUR = 3600.0


def _subscribed(records: CallLog, topic: str) -> RecordedSubscription:
    return records.subscribed(
        topic=topic,
        org_id="00D",
        client="key",
        username="u",
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_deliveries_by_topic_and_stream() -> None:
    """Events count for their stream, topic and org; keepalives count as none."""
    records = CallLog()
    one, two = _subscribed(records, "/event/A__e"), _subscribed(records, "/event/B__e")
    records.delivered(one, 5, 0.0)
    records.delivered(two, 3, 0.0)
    records.delivered(two, 0, 0.0)
    assert records.deliveries("00D") == 8
    assert records.deliveries("00D", "/event/B__e") == 3
    assert records.deliveries("other") == 0
    assert [
        (seen.delivered, seen.responses, seen.keepalives) for seen in records.subscriptions()
    ] == [
        (5, 1, 0),
        (3, 2, 1),
    ]


def test_deliveries_in_a_day_roll() -> None:
    """The allocation covers the last 24 hours, not the calendar day."""
    records = CallLog()
    one = _subscribed(records, "/event/A__e")
    for hour in (0, 0, 10, 20):
        records.delivered(one, 5, hour * HOUR)
    assert [records.delivered_in_a_day("00D", hour * HOUR) for hour in (20, 23.9, 24.1, 35)] == [
        20,
        20,
        10,
        5,
    ]


def test_a_stream_is_waited_for_until_it_has_its_place() -> None:
    """The wait for a stream ends once the stream has its start on the bus."""
    records = CallLog()
    one = _subscribed(records, "/event/A__e")
    assert not records.wait_open_streams(1, 0)
    records.began(one)
    assert records.wait_open_streams(1, 0)


def test_the_first_end_counts() -> None:
    """A stream's first status stays, despite the clean-up after it."""
    records = CallLog()
    one = _subscribed(records, "/event/A__e")
    records.ended(one, "INTERNAL")
    records.ended(one, "CANCELLED")
    assert (records.subscriptions()[0].ended, records.open_streams()) == ("INTERNAL", 0)


def test_weeks_of_streams_are_not_kept() -> None:
    """Open and the newest ended streams are kept; numbers and counts are complete."""
    records = CallLog()
    first = _subscribed(records, "/event/A__e")
    records.delivered(first, 5, 0.0)
    for _ in range(2 * MOST_ENDED + 10):
        one = _subscribed(records, "/event/B__e")
        records.delivered(one, 1, 0.0)
        records.ended(one, "OK")
    kept = records.subscriptions()
    assert MOST_ENDED <= len(kept) - 1 < 2 * MOST_ENDED
    assert [one.number for one in kept if one.open] == [first.number] == [1]
    assert kept[-1].number == 2 * MOST_ENDED + 11
    assert (records.open_streams(), records.deliveries("00D")) == (1, 2 * MOST_ENDED + 15)


def test_weeks_of_deliveries_are_not_kept() -> None:
    """Deliveries older than a day are dropped, also when no allocation asks for them."""
    records = CallLog()
    one = _subscribed(records, "/event/A__e")
    for hour in range(24 * 21):
        records.delivered(one, 1, hour * HOUR)
    assert (len(records._recent["00D"]), records.deliveries("00D")) == (24, 24 * 21)


def test_weeks_of_calls_are_not_kept() -> None:
    """Only the newest calls, and the newest requests of a stream, are kept."""
    records = CallLog()
    stream = _subscribed(records, "/event/A__e")
    for number in range(MOST_REQUESTS + 3):
        fetch = RecordedFetch(topic="", replay_preset="", replay_id=b"", num_requested=number)
        records.asked(stream, fetch, 0)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(MOST_CALLS + 3):
        records.call(RecordedCall(rpc="rest", at=at, metadata=(), subject=str(number)))
    [seen] = records.subscriptions()
    assert [one.num_requested for one in seen.requests] == [*range(3, MOST_REQUESTS + 3)]
    calls = records.calls()
    assert (len(calls), calls[0].subject, calls[-1].subject) == (
        MOST_CALLS,
        "3",
        str(MOST_CALLS + 2),
    )
