"""Create, change and remove channels and their members.

Each change is checked, then stored in the database and applied to the bus. The test's verbs and the
Tooling API both use these functions.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.api_names import is_api_name
from airflow_provider_sfevents.emulator.bus.topic import BusTopic
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org.channels.channel_members import (
    CUSTOM,
    MOST_ENRICHED,
    ChannelMember,
    named,
)
from airflow_provider_sfevents.emulator.org.channels.channel_selection import compiled
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.emulator.org.database import Database

ALL_CHANGES = "/data/ChangeEvents"
_NAME = re.compile(rf"/(?:data|event)/(\w+{CUSTOM})")


def put(
    database: Database, channel: str, members: Iterable[ChannelMember], *, label: str = ""
) -> BusTopic:
    """Create a channel, or replace its members.

    :param members: all members of the channel.
    :raises RecordRefusedError: a member is not possible, or the channel name is invalid.
    """
    match = _NAME.fullmatch(channel)
    if channel != ALL_CHANGES and not (match and is_api_name(match[1])):
        raise _refused(
            f"channel {channel!r} is not one of /data/X{CUSTOM}, /event/X{CUSTOM}, {ALL_CHANGES}"
        )
    with database.lock:
        made = [_checked(database, channel, one) for one in members]
        topics = tuple(dict.fromkeys(one.topic for one in made))
        topic = BusTopic(name=channel, kind="channel", members=topics)
        settings = [asdict(one) for one in made if one.enriched_fields or one.filter or one.name]
        labels = {channel: label} if label else {}
        fact = {"channels": {"members": {channel: settings}, "labels": labels}}
        database.keep(fact, topics=[topic])
    return topic


def put_member(database: Database, channel: str, member: ChannelMember) -> ChannelMember:
    """Add a member to a channel, or replace its settings."""
    with database.lock:
        found = _channel(database, channel)
        made = _checked(database, channel, member)
        put(
            database,
            channel,
            [one for one in _members(database, found) if one.topic != made.topic] + [made],
        )
    return made if made.name else named(made, channel)


def remove_member(database: Database, channel: str, topic: str) -> None:
    with database.lock:
        found = _channel(database, channel)
        put(database, channel, [one for one in _members(database, found) if one.topic != topic])


def remove(database: Database, channel: str) -> None:
    """Remove a channel and its members; subscribers receive no further events."""
    with database.lock:
        found = _channel(database, channel)
        gone = replace(found, members=(), removed=True)
        database.keep({"channels": {"members": {channel: []}}}, topics=[gone])


def enrich(database: Database, channel: str, fields: dict[str, tuple[str, ...]]) -> None:
    """Set the enriched fields of members, by object; their filters stay."""
    with database.lock:
        found = _channel(database, channel)
        entities = {one.name: one.record for one in database.bus.topics}
        members = [
            replace(one, enriched_fields=fields.get(entities[one.topic], one.enriched_fields))
            for one in _members(database, found)
        ]
        for entity, names in fields.items():
            _check_fields(database, channel, entity, names)
        put(database, channel, members)


def _members(database: Database, channel: BusTopic) -> list[ChannelMember]:
    known = database.channels.members(channel.name)
    return [known.get(topic) or ChannelMember(topic=topic) for topic in channel.members]


def _channel(database: Database, name: str) -> BusTopic:
    found = database.bus.topic(name)
    if found is None or found.kind != "channel":
        raise EmulatorError(f"{name!r} is not a channel; define it with define_channel()")
    return found


def _checked(database: Database, channel: str, member: ChannelMember) -> ChannelMember:
    """Copy of a member with its topic's full name, checked."""
    topic = _topic(database, member.topic)
    if (topic.kind == "change") != channel.startswith("/data/"):
        raise _refused(
            f"{channel} cannot carry {topic.name}: the one is for events, the other is not"
        )
    if topic.streaming_only:
        raise _refused(
            f"{channel} cannot carry {topic.name}: channels are for high-volume events, and it is "
            "of standard volume"
        )
    if member.enriched_fields:
        if topic.kind != "change":
            raise _refused(
                f"{channel}: {topic.name} has no fields to enrich with; change events have"
            )
        _check_fields(database, channel, topic.record, member.enriched_fields)
    if member.filter:
        compiled(member.filter, database.bus.schema(topic.schema_id) or "")
    return replace(member, topic=topic.name)


def _topic(database: Database, name: str) -> BusTopic:
    """Topic by its own name, or by the name of its event, object or change events."""
    for topic in database.bus.topics:
        if topic.schema_id and name in {
            topic.name,
            topic.record,
            topic.name.rpartition("/")[2],
        }:
            return topic
    known = ", ".join(one.name for one in database.bus.topics if one.schema_id) or "none"
    raise _refused(f"{name!r} is not defined in this org; defined: {known}")


def _check_fields(database: Database, channel: str, entity: str, names: tuple[str, ...]) -> None:
    declared = {one.name for one in database.sobject(entity).declared}
    if wrong := set(names) - declared:
        raise _refused(f"{channel}: {entity} has no field {min(wrong)!r} to enrich with")
    if len(names) > MOST_ENRICHED:
        raise _refused(
            f"{channel}: {len(names)} fields of {entity}; a channel adds at most {MOST_ENRICHED}"
        )


def _refused(why: str) -> RecordRefusedError:
    return RecordRefusedError("INVALID_INPUT", why)
