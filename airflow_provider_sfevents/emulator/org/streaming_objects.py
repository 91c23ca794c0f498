"""Records that make topics of the Streaming API: defaults, checks and topics of both objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus.streaming_events import KINDS
from airflow_provider_sfevents.emulator.org.streaming import generic_channels, push_topics
from airflow_provider_sfevents.emulator.org.streaming.generic_channels import STREAMING_CHANNEL
from airflow_provider_sfevents.emulator.org.streaming.push_topics import PUSH_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.org.records.record_edits import Record
    from airflow_provider_sfevents.emulator.org.streaming.push_topics import FindObject

OBJECTS = (PUSH_TOPIC, STREAMING_CHANNEL)


def with_defaults(entity: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values of a new record, with the defaults of its object."""
    return {**push_topics.DEFAULTS, **given} if entity == PUSH_TOPIC else given


def check(
    record: Record, records: Sequence[Record], find: FindObject, most_channels: int | None
) -> None:
    """Check a record of either object.

    :param records: of the same object.
    :param most_channels: generic channels that the org may have; None: no limit.
    :raises RecordRefusedError: the org would refuse it.
    """
    if record.deleted_at is not None:
        return
    others = [one for one in records if one.id != record.id]
    if record.entity == PUSH_TOPIC:
        push_topics.check(record, others, find)
    else:
        generic_channels.check(record, others, most_channels)


def offer_topics(bus: Bus, records: Sequence[Record]) -> None:
    """Define the topics of all such records, and remove those of deleted ones.

    A topic loses its events when its record is deleted or renamed.

    :param records: of both objects.
    """
    kept = [one for one in records if one.deleted_at is None]
    topics = [
        push_topics.topic(one) if one.entity == PUSH_TOPIC else generic_channels.topic(one)
        for one in kept
    ]
    names = {topic.name for topic in topics}
    for known in bus.topics:
        if known.kind in KINDS and known.name not in names:
            bus.define(replace(known, removed=True))
    for topic in topics:
        if bus.topic(topic.name) != topic:
            bus.define(topic)
