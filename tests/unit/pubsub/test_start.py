"""Where to start, and which names can be topics."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, TopicError
from airflow_provider_sfevents.proto.pubsub_api_pb2 import FetchRequest
from airflow_provider_sfevents.pubsub.start import (
    check_start,
    check_topic,
    first_request,
    further_request,
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
    assert first_request(TOPIC, check_start(start), 7) == request_


def test_a_further_request() -> None:
    """Topic and number, nothing about where to start."""
    assert further_request(TOPIC, 3) == FetchRequest(topic_name=TOPIC, num_requested=3)


@pytest.mark.parametrize(
    "start",
    ["", " ", "abc", "0x00ff", "00FF", "00 ff", "-1", "-2", "LATEST", "zz", "00" * 500, "00ff\n"],
)
def test_a_start_that_is_none(start: str) -> None:
    """Blank and malformed ids are refused before anything is asked, naming what is allowed."""
    with pytest.raises(ConfigurationError, match="earliest"):
        check_start(start)


@pytest.mark.parametrize(
    "topic",
    ["/event/Order__e", "/data/ChangeEvents", "/data/AccountChangeEvent", "/event/Orders__chn", "/event/LoginEventStream"],
)  # fmt: skip
def test_topics(topic: str) -> None:
    """Platform events, change events, and channels of either."""
    assert check_topic(topic) == topic


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "Order__e",
        "event/Order__e",
        "/topic/Orders",
        "/u/x",
        "/event/",
        "/event/A B",
        "/event/X__e\n",
        None,
        7,
    ],
)
def test_names_that_are_no_topics(topic: Any) -> None:
    """Refused with the forms there are; PushTopics and generic channels belong to another API."""
    with pytest.raises(TopicError, match="/event/Order__e"):
        check_topic(topic)
