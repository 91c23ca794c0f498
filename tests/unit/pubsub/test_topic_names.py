"""The API that delivers a topic, and for how long Salesforce keeps its events."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, TopicError
from airflow_provider_sfevents.pubsub.rest.org_limits import allowance_of
from airflow_provider_sfevents.pubsub.topic_names import (
    TransportName,
    check_pubsub_topic,
    check_transport,
    least_retention,
    retention,
    transport_for,
)


@pytest.mark.parametrize("chosen", list(TransportName))
@pytest.mark.parametrize("topic", ["/topic/Orders", "/topic/Orders?City=Rome", "/u/Notices"])
def test_push_topics_and_generic_events_use_the_streaming_api(
    topic: str, chosen: TransportName
) -> None:
    """They exist nowhere else, whatever is chosen."""
    assert transport_for(topic, chosen) is TransportName.STREAMING


@pytest.mark.parametrize("chosen", list(TransportName))
@pytest.mark.parametrize("topic", ["/event/Order__e", "/data/ChangeEvents"])
def test_events_and_changes_use_the_chosen_transport(topic: str, chosen: TransportName) -> None:
    """Both transports have them."""
    assert transport_for(topic, chosen) is chosen


@pytest.mark.parametrize(
    ("topic", "chosen", "says"),
    [
        ("/topic/Orders", "pubsub", "does not have /topic/Orders"),
        ("/event/Order__e", "smtp", "'smtp' is not known; give 'pubsub' or 'streaming'"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(topic: str, chosen: str, says: str) -> None:
    """A user's choice is one of the two APIs, and has the topic."""
    with pytest.raises(ConfigurationError, match=says):
        check_transport(topic, chosen)
    assert check_transport(topic, None) == ""


def test_the_pubsub_api_has_no_push_topics() -> None:
    """Calls of the Pub/Sub API refuse other topics, with the reason."""
    assert check_pubsub_topic("/event/Order__e") == "/event/Order__e"
    with pytest.raises(TopicError, match="exists only over the Streaming API"):
        check_pubsub_topic("/u/Notices")


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("/topic/Orders", "DailyDurableStreamingApiEvents"),
        ("/u/Notices", "DailyDurableGenericStreamingApiEvents"),
        ("/data/ChangeEvents", "DailyDeliveredPlatformEvents"),
    ],
)
def test_each_kind_of_topic_has_its_allowance(topic: str, name: str) -> None:
    """PushTopics and generic events are counted apart from platform and change events."""
    assert allowance_of(topic) == name


@pytest.mark.parametrize(
    ("topic", "hours", "least"),
    [
        ("/topic/Orders?City=Rome", 24, 24),
        ("/u/Notices", 24, 24),
        ("/event/Order__e", 72, 24),
        ("/event/Orders__chn", 72, 24),
        ("/event/BatchApexErrorEvent", 72, 72),
        ("/data/ChangeEvents", 72, 72),
    ],
)
def test_retention(topic: str, hours: int, least: int) -> None:
    """PushTopics and generic events are kept for a day, the others for three.

    A platform event may be a standard-volume one, which the Streaming API keeps for a day.
    """
    assert retention(topic) == timedelta(hours=hours)
    assert least_retention(topic) == timedelta(hours=least)
