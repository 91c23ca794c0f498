"""Setup records over the Tooling API: list, create, change and delete.

A change names the fields of `Metadata` to change; the others stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.http.rest import setup_records
from airflow_provider_sfevents.emulator.org import channel_edits
from airflow_provider_sfevents.emulator.org.channels.channel_members import (
    CUSTOM,
    ChannelMember,
    channel_id,
    member_id,
    short_name,
)
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, not_found

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry
    from airflow_provider_sfevents.emulator.org.database import Database
    from airflow_provider_sfevents.emulator.org.records.record_edits import Record

_MANAGED = {
    "label": "label",
    "topicName": "topic",
    "defaultReplay": "default_replay",
    "errorRecoveryReplay": "error_recovery_replay",
    "state": "state",
    "version": "version",
}
_KEYS = {
    setup_records.MANAGED: frozenset(_MANAGED),
    setup_records.CHANNEL: frozenset({"channelType", "label"}),
    setup_records.MEMBER: frozenset(
        {"eventChannel", "selectedEntity", "enrichedFields", "filterExpression"}
    ),
}
_NEEDED = {
    setup_records.MANAGED: ("label", "topicName"),
    setup_records.CHANNEL: ("channelType", "label"),
    setup_records.MEMBER: ("eventChannel", "selectedEntity"),
}


class SetupEdits:
    """Reads and changes one org's setup. Safe to use from any thread."""

    def __init__(self, database: Database, managed: ManagedRegistry) -> None:
        self._database = database
        self._managed = managed

    def records(self, entity: str) -> list[Record]:
        """Every record of one of the objects in `setup_records.OBJECTS`."""
        if entity == setup_records.MANAGED:
            return [setup_records.managed_record(one) for one in self._managed.all()]
        if entity == setup_records.CHANNEL:
            label = self._database.channels.label
            own = (one.name for one in self._channels() if one.name.endswith(CUSTOM))
            return [setup_records.channel_record(name, label(name)) for name in own]
        return [setup_records.member_record(channel, one) for channel, one in self._members()]

    def create(self, entity: str, fields: Mapping[str, Any], version: str) -> str:
        """Create a record and return its id.

        :raises RecordRefusedError: fields are missing, unknown or invalid; ManagedRefusedError
            likewise.
        """
        name, metadata = _read(entity, fields)
        missing = [key for key in _NEEDED[entity] if not metadata.get(key)]
        if not name or missing:
            raise RecordRefusedError(
                "REQUIRED_FIELD_MISSING",
                f"Required fields are missing: [{', '.join(missing or ['FullName'])}]",
                tuple(missing or ["FullName"]),
            )
        if entity == setup_records.MANAGED:
            values = {"version": version, **_managed_values(metadata)}
            return self._managed.create(name, values.pop("topic"), **values).id
        with self._database.lock:
            if entity == setup_records.CHANNEL:
                return self._create_channel(name, metadata)
            return self._create_member(name, metadata)

    def update(self, entity: str, record_id: str, fields: Mapping[str, Any]) -> None:
        """Change an existing record.

        :raises RecordRefusedError: fields are unknown, invalid or fixed; ManagedRefusedError
            likewise.
        """
        name, metadata = _read(entity, fields)
        if entity == setup_records.MANAGED:
            self._update_managed(record_id, name, metadata)
            return
        with self._database.lock:
            if entity == setup_records.CHANNEL:
                self._update_channel(record_id, metadata)
            else:
                self._update_member(record_id, metadata)

    def delete(self, entity: str, record_id: str) -> None:
        """Delete an existing record; a channel is deleted with its members."""
        if entity == setup_records.MANAGED:
            self._managed.delete(record_id)
            return
        with self._database.lock:
            if entity == setup_records.CHANNEL:
                channel_edits.remove(self._database, self._channel_by_id(record_id).name)
                return
            channel, member = self._member_by_id(record_id)
            channel_edits.remove_member(self._database, channel, member.topic)

    # --- managed subscriptions --------------------------------------------------------------------

    def _update_managed(self, record_id: str, name: str, metadata: Mapping[str, Any]) -> None:
        values = _managed_values(metadata)
        now = self._managed.find(record_id)
        if now and values.get("topic") == now.topic:
            del values["topic"]
        if now and name and name != now.developer_name:
            values["developer_name"] = name
        self._managed.update(record_id, **values)

    # --- channels ---------------------------------------------------------------------------------

    def _create_channel(self, name: str, metadata: Mapping[str, Any]) -> str:
        kind = str(metadata["channelType"])
        if kind not in {"data", "event"}:
            raise _refused(f"channelType {kind!r} is not one of data, event")
        if any(short_name(one.name).lower() == name.lower() for one in self._channels()):
            raise _taken(name)
        channel = f"/{kind}/{name}"
        channel_edits.put(self._database, channel, [], label=str(metadata["label"]))
        return channel_id(channel)

    def _update_channel(self, record_id: str, metadata: Mapping[str, Any]) -> None:
        channel = self._channel_by_id(record_id)
        kind = channel.name.split("/")[1]
        if metadata.get("channelType", kind) != kind:
            raise _refused("the channelType of a channel is fixed")
        if label := metadata.get("label"):
            self._database.keep({"channels": {"labels": {channel.name: str(label)}}})

    def _channels(self) -> list[BusTopic]:
        return [one for one in self._database.bus.topics if one.kind == "channel"]

    def _channel_by_id(self, record_id: str) -> BusTopic:
        for channel in self._channels():
            if channel_id(channel.name) == record_id:
                return channel
        raise not_found()

    # --- members ----------------------------------------------------------------------------------

    def _create_member(self, name: str, metadata: Mapping[str, Any]) -> str:
        channel = self._channel(str(metadata["eventChannel"]))
        entity = str(metadata["selectedEntity"])
        for known, member in self._members():
            if member.name.lower() == name.lower():
                raise _taken(name)
            if known == channel and entity in {member.topic, short_name(member.topic)}:
                raise _refused(f"{channel} has {entity} as a member already")
        self._begin_change_events(entity)
        asked = _with(ChannelMember(topic=entity, name=name), metadata)
        made = channel_edits.put_member(self._database, channel, asked)
        return member_id(channel, made.topic)

    def _update_member(self, record_id: str, metadata: Mapping[str, Any]) -> None:
        channel, member = self._member_by_id(record_id)
        fixed = {"eventChannel": channel, "selectedEntity": member.topic}
        for key, topic in fixed.items():
            if metadata.get(key, topic) not in {topic, short_name(topic)}:
                raise _refused(f"the {key} of a channel's member is fixed")
        channel_edits.put_member(self._database, channel, _with(member, metadata))

    def _members(self) -> Iterator[tuple[str, ChannelMember]]:
        """Every member of every channel, with the name of the channel."""
        for channel in self._channels():
            for topic in channel.members:
                yield channel.name, self._database.channels.member(channel.name, topic)

    def _member_by_id(self, record_id: str) -> tuple[str, ChannelMember]:
        for channel, member in self._members():
            if member_id(channel, member.topic) == record_id:
                return channel, member
        raise not_found()

    def _channel(self, name: str) -> str:
        """Channel by its short or full name or its id.

        The standard channel is created with its first member.
        """
        if name == short_name(channel_edits.ALL_CHANGES):
            if self._database.bus.topic(channel_edits.ALL_CHANGES) is None:
                channel_edits.put(self._database, channel_edits.ALL_CHANGES, [])
            return channel_edits.ALL_CHANGES
        for channel in self._channels():
            if name in {channel.name, short_name(channel.name), channel_id(channel.name)}:
                return channel.name
        raise _refused(f"there is no channel {name!r}")

    def _begin_change_events(self, entity: str) -> None:
        """Create the topic of an unused object: selecting an object starts its change events."""
        for name in self._database.names:
            made = self._database.sobject(name)
            schema = made.schema(snapshot=self._database.bus.knobs.snapshot_symbol)
            unknown = self._database.bus.topic(f"/data/{schema['name']}") is None
            if schema["name"] == entity and unknown and made.tracked:
                self._database.put(made, selected=False)


def _read(entity: str, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Full name and metadata of a request.

    :raises RecordRefusedError: unknown field.
    """
    metadata = fields.get("Metadata") or {}
    unknown = [key for key in fields if key not in {"FullName", "Metadata"}]
    if not isinstance(metadata, dict):
        raise RecordRefusedError("JSON_PARSER_ERROR", "Metadata is not a JSON object")
    unknown += [key for key in metadata if key not in {*_KEYS[entity], "urls"}]
    if unknown:
        raise RecordRefusedError(
            "INVALID_FIELD", f"No such column '{unknown[0]}' on sobject of type {entity}"
        )
    return str(fields.get("FullName") or ""), metadata


def _managed_values(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {_MANAGED[key]: str(of) for key, of in metadata.items() if key in _MANAGED and of}


def _with(member: ChannelMember, metadata: Mapping[str, Any]) -> ChannelMember:
    """Copy of a member with the given settings; null removes a setting."""
    if "enrichedFields" in metadata:
        fields = metadata["enrichedFields"] or []
        if not isinstance(fields, list):
            raise _refused("enrichedFields is not a list")
        names = tuple(str(one.get("name")) if isinstance(one, dict) else str(one) for one in fields)
        member = replace(member, enriched_fields=names)
    if "filterExpression" in metadata:
        member = replace(member, filter=str(metadata["filterExpression"] or ""))
    return member


def _refused(why: str) -> RecordRefusedError:
    return RecordRefusedError("INVALID_INPUT", why)


def _taken(name: str) -> RecordRefusedError:
    return RecordRefusedError(
        "DUPLICATE_DEVELOPER_NAME", f"The name {name} is already used by another record."
    )
