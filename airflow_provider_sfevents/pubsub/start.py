"""Where a subscription starts: the text forms, and what the first request says."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_sfevents.exceptions import ConfigurationError, TopicError
from airflow_provider_sfevents.proto.pubsub_api_pb2 import FetchRequest, ReplayPreset

EARLIEST = "earliest"
LATEST = "latest"

# Live ids have 10 bytes; nothing is promised, but nothing near this either.
_MAX_REPLAY_ID_BYTES = 128
_HEX = re.compile(r"(?:[0-9a-f]{2})+")
_TOPIC = re.compile(r"/(?:event|data)/[A-Za-z][A-Za-z0-9_]*")


def check_start(start: str) -> str:
    """:raises ConfigurationError: unless it is `earliest`, `latest` or a replay id in lower-case hex."""
    if start in {EARLIEST, LATEST}:
        return start
    if not _HEX.fullmatch(start) or len(start) > 2 * _MAX_REPLAY_ID_BYTES:
        raise ConfigurationError(
            f"The start {start[:80]!r} is no replay id. Give 'earliest', 'latest', or a replay id as an even number of lower-case hex "
            "digits, as positions and manifests show it."
        )
    return start


def check_topic(topic: Any) -> str:
    """:param topic: as a template may have rendered it. :raises TopicError: for a name that cannot be one of the Pub/Sub API."""
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        raise TopicError(
            f"The topic {topic!r} is no topic of the Pub/Sub API. Give its full name, such as /event/Order__e, "
            "/data/AccountChangeEvent, /data/ChangeEvents or /event/Orders__chn."
        )
    return topic


def first_request(topic: str, start: str, events: int) -> FetchRequest:
    """The only request that says where to start; the service reads that in no other."""
    if start == EARLIEST:
        return FetchRequest(
            topic_name=topic, replay_preset=ReplayPreset.EARLIEST, num_requested=events
        )
    if start == LATEST:
        return FetchRequest(
            topic_name=topic, replay_preset=ReplayPreset.LATEST, num_requested=events
        )
    return FetchRequest(
        topic_name=topic,
        replay_preset=ReplayPreset.CUSTOM,
        replay_id=bytes.fromhex(start),
        num_requested=events,
    )


def further_request(topic: str, events: int) -> FetchRequest:
    return FetchRequest(topic_name=topic, num_requested=events)
