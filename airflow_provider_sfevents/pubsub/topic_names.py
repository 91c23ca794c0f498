"""Names of topics: their check, the kind that a name shows, and the topic of an event type. Pure.

A name shows its kind: `…__e` a platform event, `…ChangeEvent` change events, `…__chn` a channel,
`…EventStream` a stream of real-time event monitoring, and an object named `…Event` that cannot be
queried a standard platform event.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import TopicError

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL_CHANGES = "/data/ChangeEvents"
STANDARD_CHANNEL = "ChangeEvents"
_TOPIC = re.compile(r"/(?:event|data)/[A-Za-z][A-Za-z0-9_]*")


class TopicKind(StrEnum):
    """Kind of the events that a topic carries."""

    PLATFORM_EVENT = "platform event"
    STANDARD_EVENT = "standard event"
    MONITORING = "monitoring stream"
    CHANGES = "change events"
    EVENT_CHANNEL = "channel of platform events"
    CHANGE_CHANNEL = "channel of change events"


def check_topic(topic: Any) -> str:
    """Check the name of a topic.

    :param topic: as a template may have rendered it.
    :raises TopicError: for a name that cannot be one of the Pub/Sub API.
    """
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise TopicError(
            f"The topic {topic!r} is no topic of the Pub/Sub API. Give its full name, such as "
            "/event/Order__e, /data/AccountChangeEvent, /data/ChangeEvents or "
            "/event/Orders__chn."
        )
    return topic


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
