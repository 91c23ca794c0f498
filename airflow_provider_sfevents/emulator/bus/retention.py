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
        return shortest_seconds(knobs)
    return knobs.retention_hours * HOUR


def shortest_seconds(knobs: Knobs) -> float:
    """Seconds for which every event is kept, whatever its topic."""
    return min(knobs.retention_hours, knobs.streaming_retention_hours) * HOUR


def longest_seconds(knobs: Knobs) -> float:
    """Seconds after which no event is kept, whatever its topic."""
    return (knobs.retention_hours + knobs.purge_late_hours) * HOUR


def purge(
    issued: Iterable[IssuedPositions],
    logs: Iterable[tuple[BusTopic | None, TopicLog]],
    knobs: Knobs,
    now: float,
) -> float:
    """Remove what has expired from the issued positions and from the topics' logs.

    :returns: time at which the next entry can expire, also one that comes from now on.
    """
    late = knobs.purge_late_hours * HOUR
    aging: list[tuple[IssuedPositions | TopicLog, float]]
    aging = [(one, kept_seconds(None, knobs)) for one in issued]
    aging += [(log, kept_seconds(topic, knobs) + late) for topic, log in logs]
    due = [now + shortest_seconds(knobs)]
    for log, age in aging:
        log.drop_before(now - age)
        if log.oldest is not None:
            due.append(log.oldest + age)
    return min(due)
