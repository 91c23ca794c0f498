"""Replay points and their text forms, the first request, and names of topics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError, TopicError
from airflow_provider_sfevents.proto.pubsub_api_pb2 import FetchRequest
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import (
    first_request,
    further_request,
)
from airflow_provider_sfevents.pubsub.topic_names import check_topic
from airflow_provider_sfevents.replay_point import (
    EARLIEST,
    LATEST,
    ReplayPoint,
    is_replay_id,
    replay_id_hex,
)

TOPIC = "/event/Order__e"


@pytest.mark.parametrize(
    ("start", "request_"),
    [
        ("latest", FetchRequest(topic_name=TOPIC, replay_preset="LATEST", num_requested=7)),
        ("earliest", FetchRequest(topic_name=TOPIC, replay_preset="EARLIEST", num_requested=7)),
        (
            "00ff",
            FetchRequest(
                topic_name=TOPIC, replay_preset="CUSTOM", replay_id=b"\0\xff", num_requested=7
            ),
        ),
    ],
)
def test_the_first_request(start: str, request_: FetchRequest) -> None:
    """Each text form becomes its preset; a replay id becomes the same bytes again."""
    assert first_request(TOPIC, ReplayPoint.from_text(start), 7) == request_


def test_a_further_request() -> None:
    """A later request names the topic and a number, and no start."""
    assert further_request(TOPIC, 3) == FetchRequest(topic_name=TOPIC, num_requested=3)


@pytest.mark.parametrize(
    "start",
    ["", " ", "abc", "0x00ff", "00FF", "00 ff", "-1", "-2", "LATEST", "zz", "00" * 500, "00ff\n"],
)
def test_a_start_that_is_none(start: str) -> None:
    """Blank and malformed ids are refused before any request, with the allowed forms."""
    with pytest.raises(ConfigurationError, match="earliest"):
        ReplayPoint.from_text(start)


@pytest.mark.parametrize("digits", [16, 20])
def test_a_start_that_a_person_gives(digits: int) -> None:
    """A user may give a preset, or a replay id of a length that Salesforce's ids have had."""
    assert ReplayPoint.given("0" * digits) == ReplayPoint("0" * digits)
    assert ReplayPoint.given("latest") == LATEST


@pytest.mark.parametrize(("start", "has"), [("ff", "1 byte,"), ("00" * 9, "9 bytes,")])
def test_a_replay_id_of_an_impossible_length(start: str, has: str) -> None:
    """A replay id of another length is refused from a user and accepted from Salesforce."""
    assert ReplayPoint.from_text(start).to_text() == start
    with pytest.raises(ConfigurationError, match=f"it has {has} and theirs have 8 or 10"):
        ReplayPoint.given(start)


@pytest.mark.parametrize(
    "topic",
    [
        "/event/Order__e",
        "/data/ChangeEvents",
        "/data/AccountChangeEvent",
        "/event/Orders__chn",
        "/event/LoginEventStream",
        "/topic/Orders",
        "/topic/Orders?City=Rome",
        "/u/Notices",
        "/u/notices/urgent",
    ],
)
def test_topics(topic: str) -> None:
    """Platform events, change events, channels of either, PushTopics and generic channels are."""
    assert check_topic(topic) == topic


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "Order__e",
        "event/Order__e",
        "/topic/",
        "/topic/A B",
        "/topic/Orders/x",
        "/u/",
        "/event/",
        "/event/A B",
        "/event/X__e\n",
        None,
        7,
    ],
)
def test_names_that_are_no_topics(topic: Any) -> None:
    """Names that are no topics are refused with the allowed forms."""
    with pytest.raises(TopicError, match="/event/Order__e"):
        check_topic(topic)


@pytest.mark.parametrize(
    ("given", "kept"), [(b"\x00\xff", "00ff"), ("00ff", "00ff"), ("00FF", "00ff")]
)
def test_replay_ids_are_bytes_or_hex(given: bytes | str, kept: str) -> None:
    """A replay id is the same as bytes and as hex."""
    assert replay_id_hex(given) == kept


@pytest.mark.parametrize("given", [b"", "", "f", "0x00", "latest", "00" * 129, b"0" * 129, 7, None])
def test_what_is_no_replay_id(given: Any) -> None:
    """The error of a wrong replay id names the value and the accepted forms."""
    with pytest.raises(ConfigurationError, match=r"is no replay id\. Give the bytes of a delivery"):
        replay_id_hex(given)


@given(st.binary(min_size=1, max_size=128))
def test_a_replay_point_after_an_event_keeps_its_bytes_as_text(replay_id: bytes) -> None:
    """Any replay id of the service has a text form that reads back as the same replay point."""
    point = ReplayPoint.after(replay_id)
    assert ReplayPoint.from_text(point.to_text()) == point
    assert point.is_replay_id


def test_a_time_is_a_replay_point() -> None:
    """A time has a text form, is no replay id, and cannot be given by a user."""
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    point = ReplayPoint.since(at)
    assert point.to_text() == "since:2026-01-02T03:04:05+00:00"
    assert ReplayPoint.from_text(point.to_text()).not_before == at
    assert not point.is_replay_id
    assert LATEST.not_before is None
    with pytest.raises(ConfigurationError, match="no replay id"):
        ReplayPoint.given(point.to_text())
    for text in ("since:", "since:soon", "since:2026-01-02T03:04:05"):
        with pytest.raises(ConfigurationError, match="no replay id"):
            ReplayPoint.from_text(text)


def test_a_preset_is_no_replay_id() -> None:
    """`earliest` and `latest` are replay points, and not replay ids."""
    assert not EARLIEST.is_replay_id
    assert not is_replay_id(LATEST.to_text())
