"""Records that make topics of the Streaming API: defaults, checks and topics of both objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus.streaming_events import KINDS
from airflow_provider_sfevents.emulator.org.streaming import generic_channels, push_topics
from airflow_provider_sfevents.emulator.org.streaming.generic_channels import STREAMING_CHANNEL
from airflow_provider_sfevents.emulator.org.streaming.push_topics import PUSH_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.emulator.org.database import Database
    from airflow_provider_sfevents.emulator.org.records.record_edits import Record

OBJECTS = (PUSH_TOPIC, STREAMING_CHANNEL)


def with_defaults(entity: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values of a new record, with the defaults of its object."""
    return {**push_topics.DEFAULTS, **given} if entity == PUSH_TOPIC else given


def check(record: Record, database: Database) -> None:
    """Check a record of either object; other objects have no rules here.

    :raises RecordRefusedError: the org would refuse it.
    """
    if record.entity not in OBJECTS or record.deleted_at is not None:
        return
    others = [one for one in database.records(record.entity) if one.id != record.id]
    if record.entity == PUSH_TOPIC:
        push_topics.check(record, others, database.sobject)
    else:
        generic_channels.check(record, others, database.bus.knobs.generic_channels)


def offer_topics(database: Database) -> None:
    """Define the topics of all such records, and remove those of deleted ones.

    A topic loses its events when its record is deleted or renamed.
    """
    bus = database.bus
    kept = [one for entity in OBJECTS for one in database.records(entity) if one.deleted_at is None]
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
