"""Retention of a bus: the age up to which a topic's events are kept, and their removal. Pure.

Rules, from the Streaming API guide, "Message Durability", and the event message durability page:
high-volume platform events and change events are kept for 72 hours; PushTopic, generic and
standard-volume events are kept for 24 hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.emulator.bus.replay_log import IssuedPositions, TopicLog
    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.knobs import Knobs

HOUR = 3600.0


def kept_seconds(topic: BusTopic | None, knobs: Knobs) -> float:
    """Seconds for which a topic's events are kept; the bus's longest retention without a topic."""
    if topic and topic.streaming_only:
        return min(knobs.retention_hours, knobs.streaming_retention_hours) * HOUR
    return knobs.retention_hours * HOUR


def drop_expired(
    aging: Iterable[tuple[IssuedPositions | TopicLog, float]], now: float, otherwise: float
) -> float:
    """Remove expired entries of logs, each given with its age in seconds.

    :returns: time at which the next entry expires; `otherwise` if all logs are empty.
    """
    due = []
    for log, age in aging:
        log.drop_before(now - age)
        if log.oldest is not None:
            due.append(log.oldest + age)
    return min(due, default=otherwise)
