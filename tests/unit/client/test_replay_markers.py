"""Starts of subscriptions from users' values, and markers of messages."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.client.replay_markers import (
    ReplayMarker,
    ReplayOption,
    marker_of,
    start_from,
)
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint

HEX = "00000000000000010000"


@pytest.mark.parametrize("value", [None, -1, "latest", ReplayOption.NEW_EVENTS, LATEST])
def test_new_events_are_the_replay_point_latest(value: object) -> None:
    """-1, `latest` and NEW_EVENTS mean the same, and so does a missing marker."""
    assert start_from(value) == LATEST


@pytest.mark.parametrize("value", [-2, "earliest", ReplayOption.ALL_EVENTS, EARLIEST])
def test_all_events_are_the_replay_point_earliest(value: object) -> None:
    """-2, `earliest` and ALL_EVENTS mean the same."""
    assert start_from(value) == EARLIEST


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), (HEX, HEX), (ReplayMarker("", 55), "37"), (["2026-01-01", HEX], HEX)],
)
def test_a_replay_id_is_a_number_or_hex(value: object, text: str) -> None:
    """A replay id may come as a number, as hex, in a marker, or in the marker's JSON form."""
    assert start_from(value) == ReplayPoint(text)


@pytest.mark.parametrize("value", [-3, "newest", 1.5, {}, ["a", "b", "c"]])
def test_another_value_is_refused(value: object) -> None:
    """A value that is no start is refused and named."""
    with pytest.raises(ConfigurationError, match="no start of a subscription"):
        start_from(value)


@pytest.mark.parametrize(
    ("data", "date"),
    [
        ({"event": {"createdDate": "d1", "replayId": 5}, "sobject": {}}, "d1"),
        ({"event": {"createdDate": "d2", "replayId": 5}, "payload": "text"}, "d2"),
        ({"event": {"replayId": 5}, "payload": {"CreatedDate": "d3"}}, "d3"),
        ({"event": {"replayId": 5}, "payload": {"ChangeEventHeader": {"commitTimestamp": 4}}}, "4"),
        ({"event": {"replayId": 5}, "undecodable": "why"}, ""),
    ],
)
def test_a_marker_has_the_time_and_the_id_of_its_event(data: dict[str, object], date: str) -> None:
    """A marker's date is that of the kind of event; each kind has it elsewhere."""
    assert marker_of({"channel": "/u/x", "data": data}) == ReplayMarker(date, 5)
