"""Names of topics: their check, the API that has them, the kind that a name shows. Pure.

A name shows its kind: `…__e` a platform event, `…ChangeEvent` change events, `…__chn` a channel,
`…EventStream` a stream of real-time event monitoring, and an object named `…Event` that cannot be
queried a standard platform event.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError, TopicError

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_CHANGES = "/data/ChangeEvents"
STANDARD_CHANNEL = "ChangeEvents"
_ROOTS = ("/event/", "/data/")
_TOPIC = re.compile(r"/(?:event|data)/[A-Za-z][A-Za-z0-9_]*")
_LEGACY_ROOTS = ("/topic/", "/u/")
_LEGACY = re.compile(r"/topic/[A-Za-z][A-Za-z0-9_]*(?:\?[^\s/]+)?|/u(?:/[A-Za-z0-9_]+)+")


class TransportName(StrEnum):
    """Salesforce's two APIs for events."""

    PUBSUB = "pubsub"
    STREAMING = "streaming"


class TopicKind(StrEnum):
    """Kind of the events that a topic carries."""

    PLATFORM_EVENT = "platform event"
    STANDARD_EVENT = "standard event"
    MONITORING = "monitoring stream"
    CHANGES = "change events"
    EVENT_CHANNEL = "channel of platform events"
    CHANGE_CHANNEL = "channel of change events"
    PUSH_TOPIC = "PushTopic"
    GENERIC = "generic channel"


def check_topic(topic: Any) -> str:
    """Check the name of a topic of either API.

    :param topic: as a template may have rendered it.
    :raises TopicError: for a name that cannot be a topic's.
    """
    if isinstance(topic, str) and (_TOPIC.fullmatch(topic) or _LEGACY.fullmatch(topic)):
        return topic
    raise TopicError(
        f"The topic {topic!r} is no topic of Salesforce. Give its full name, such as "
        "/event/Order__e, /data/AccountChangeEvent, /data/ChangeEvents, /event/Orders__chn, "
        "/topic/Orders (a PushTopic) or /u/Notices (a generic channel)."
    )


def has_root(topic: str) -> bool:
    """Return whether a name begins like that of a topic of either API."""
    return topic.startswith((*_ROOTS, *_LEGACY_ROOTS))


def check_pubsub_topic(topic: Any) -> str:
    """Check the name of a topic of the Pub/Sub API.

    :raises TopicError: for a name that cannot be one.
    """
    if transport_for(check_topic(topic)) is not TransportName.PUBSUB:
        raise TopicError(
            f"The topic {topic} exists only over the Streaming API: the Pub/Sub API has no "
            "PushTopics and no generic events. Give a topic below /event/ or /data/."
        )
    return str(topic)


def transport_for(topic: str, chosen: str = "") -> TransportName:
    """Return the API that delivers a topic.

    PushTopics and generic events exist only over the Streaming API (Streaming API Developer Guide).

    :param chosen: for topics that both APIs have; empty: the Pub/Sub API.
    """
    if topic.startswith(_LEGACY_ROOTS):
        return TransportName.STREAMING
    return TransportName(chosen or TransportName.PUBSUB)


def check_transport(topic: str, chosen: str | None) -> str:
    """Check the API that a user has chosen for a topic; empty: none was chosen.

    :raises ConfigurationError: there is no such API, or it does not have the topic.
    """
    if not chosen:
        return ""
    if chosen not in list(TransportName):
        names = " or ".join(repr(name.value) for name in TransportName)
        raise ConfigurationError(f"transport={chosen!r} is not known; give {names}.")
    if transport_for(topic, chosen) != chosen:
        raise ConfigurationError(
            f"transport={chosen!r} does not have {topic}: PushTopics and generic events exist only "
            "over the Streaming API. Leave `transport` out."
        )
    return chosen


def retention(topic: str) -> timedelta:
    """Return the time for which Salesforce keeps a topic's events.

    24 hours for PushTopics and generic events, 72 hours for the others (Streaming API Developer
    Guide, "Message Durability"; Pub/Sub API, event message durability).
    """
    return timedelta(hours=24 if topic.startswith(_LEGACY_ROOTS) else 72)


def setup_page(instance_url: str, topic: str) -> str:
    """Return the URL of the page of the org's Setup on which a topic's events are made."""
    pages = {"data": "CdcObjectEnablement", "event": "EventObjects"}
    page = pages.get(topic.strip("/").partition("/")[0], "SetupOneHome")
    return f"{instance_url.rstrip('/')}/lightning/setup/{page}/home"


def least_retention(topic: str) -> timedelta:
    """Return the time for which the Streaming API keeps a topic's events for sure.

    It keeps standard-volume platform events for 24 hours, and a name does not show them.
    """
    if kind_of(topic) in {TopicKind.PLATFORM_EVENT, TopicKind.EVENT_CHANNEL}:
        return timedelta(hours=24)
    return retention(topic)


def topic_of(event: str) -> str:
    """Topic of one event type, by its name."""
    return f"/{'data' if event.endswith('ChangeEvent') else 'event'}/{event}"


def channel_name(row: Mapping[str, Any]) -> str:
    """Name of a channel in topics, from its row: `Sales__chn`, with its package's prefix if any."""
    prefix = row.get("NamespacePrefix")
    return f"{f'{prefix}__' if prefix else ''}{row['DeveloperName']}__chn"


def channel_of(topic: str) -> str | None:
    """Name of the channel behind a topic; None for a topic of one event type."""
    name = topic.rpartition("/")[2]
    return name if topic == ALL_CHANGES or name.endswith("__chn") else None


def kind_of(topic: str) -> TopicKind:
    """Kind of a topic, by its name alone."""
    if topic.startswith(_LEGACY_ROOTS):
        return TopicKind.PUSH_TOPIC if topic.startswith("/topic/") else TopicKind.GENERIC
    of_changes = topic.startswith("/data/")
    if channel_of(topic) is not None:
        return TopicKind.CHANGE_CHANNEL if of_changes else TopicKind.EVENT_CHANNEL
    if of_changes:
        return TopicKind.CHANGES
    if topic.endswith("__e"):
        return TopicKind.PLATFORM_EVENT
    return TopicKind.MONITORING if topic.endswith("EventStream") else TopicKind.STANDARD_EVENT


def is_exempt(topic: str) -> bool:
    """Return whether the topic's deliveries are not counted against the daily allowance.

    Streams of real-time event monitoring are exempt; their name shows them.
    """
    return topic.startswith("/event/") and topic.endswith("EventStream") and "__" not in topic
