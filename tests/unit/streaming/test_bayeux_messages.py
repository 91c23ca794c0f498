"""Messages of the Bayeux protocol: made, split and read."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST
from airflow_provider_sfevents.streaming import bayeux_messages as messages

EVENT = {"channel": "/topic/A", "data": {"event": {"replayId": 7}, "sobject": {"Id": "1"}}}


@pytest.mark.parametrize(
    ("start", "value"), [(LATEST, -1), (EARLIEST, -2), (messages.point_after(13), 13)]
)
def test_a_start_in_the_replay_extension(start: Any, value: int) -> None:
    """New events are -1, all events -2, and a stored id is its number."""
    assert messages.replay_value(start) == value


def test_the_replay_map_names_the_channel_without_its_filter() -> None:
    """A filtered subscription is refused if the map's key has the filter."""
    made = messages.subscribe("c", "/topic/A?Name=x", 5)
    assert made["subscription"] == "/topic/A?Name=x"
    assert made["ext"] == {"replay": {"/topic/A": 5}}


@settings(deadline=None)
@given(lengths=st.lists(st.integers(0, 300), max_size=40))
def test_requests_are_split_below_the_limit(lengths: list[int]) -> None:
    """No body is above the limit if a message fits, and all messages are sent in order."""
    sent = [{"channel": "x" * length} for length in lengths]
    bodies = messages.split(sent, most_bytes=400)
    assert [one for body in bodies for one in json.loads(body)] == sent
    assert all(len(body) <= 400 for body in bodies)
    assert len(bodies) <= max(1, len(sent))


def test_each_message_keeps_its_own_text() -> None:
    """Numbers keep their digits, and the caller's reader gets the text of events alone."""
    text = ' [ {"channel":"/meta/connect","successful":true} , {"channel":"/u/A","n":1.10}]'
    seen = []

    def loads(own: str) -> Any:
        seen.append(own)
        return json.loads(own, parse_float=Decimal)

    found = messages.read(text, loads)

    assert [own for _, own in found] == [
        '{"channel":"/meta/connect","successful":true}',
        '{"channel":"/u/A","n":1.10}',
    ]
    assert found[1][0]["n"] == Decimal("1.10")
    assert seen == [found[1][1]]


@pytest.mark.parametrize(
    "text", ["", "<html>", "{}", "[", '[{"id": 1}]', '["x"]', "[1]", '[{"channel": 3}]', "null"]
)
def test_another_answer_is_an_error(text: str) -> None:
    """An answer that is no array of messages is an error with its beginning."""
    with pytest.raises(TransportError, match="not of the Streaming API"):
        messages.read(text)


@pytest.mark.parametrize(
    ("named", "channels", "channel"),
    [
        ("/topic/A", ["/topic/A"], "/topic/A"),
        ("/topic/A", ["/topic/A?N=1"], "/topic/A?N=1"),
        ("/topic/A?N=1", ["/topic/A", "/topic/A?N=1"], "/topic/A?N=1"),
        ("/topic/A", ["/topic/A", "/topic/A?N=1"], "/topic/A"),
        ("/topic/B", ["/topic/A"], "/topic/B"),
    ],
)
def test_an_event_belongs_to_its_subscription(
    named: str, channels: list[str], channel: str
) -> None:
    """The event of a filtered channel goes to it, also if the service leaves the filter out."""
    event = messages.event_of({**EVENT, "channel": named}, "{}", channels)
    assert (event.channel, event.replay_id) == (channel, 7)


@pytest.mark.parametrize("data", [None, {}, {"event": None}, {"event": {"replayId": "x"}}])
def test_an_event_without_a_replay_id(data: Any) -> None:
    """An event without a replay id is an event all the same."""
    assert messages.event_of({"channel": "/u/A", "data": data}, "{}", []).replay_id is None
