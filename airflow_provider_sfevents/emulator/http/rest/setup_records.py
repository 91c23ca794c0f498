"""Setup records of the Tooling API: managed subscriptions, channels and their members. Pure.

Fields and id prefixes: Tooling API guide, "ManagedEventSubscription", "PlatformEventChannel",
"PlatformEventChannelMember". `EventChannel` and `SelectedEntity` are given by name; the form in
live orgs is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.org.channels.channel_members import (
    CUSTOM,
    channel_id,
    member_id,
    short_name,
)
from airflow_provider_sfevents.emulator.org.objects.object_definitions import DeclaredField, SObject
from airflow_provider_sfevents.emulator.org.records.record_edits import Record

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedConfig
    from airflow_provider_sfevents.emulator.org.channels.channel_members import ChannelMember

MANAGED = "ManagedEventSubscription"
CHANNEL = "PlatformEventChannel"
MEMBER = "PlatformEventChannelMember"
UNBOUNDED = ("FullName", "Metadata")
"""Fields that a query can select for a single record only."""
# This type cannot be used in a condition, as on the platform.
_METADATA = DeclaredField(name="Metadata", kind="StringPlusClob")


def _object(name: str, prefix: str, *fields: str) -> SObject:
    named = ("DeveloperName", "MasterLabel", "Language", "NamespacePrefix", "FullName", *fields)
    declared = (*(DeclaredField(name=one, kind="Text") for one in named), _METADATA)
    return SObject(name=name, prefix=prefix, declared=declared)


OBJECTS = {
    one.name: one
    for one in (
        _object(
            MANAGED, "18x", "TopicName", "DefaultReplay", "ErrorRecoveryReplay", "State", "Version"
        ),
        _object(CHANNEL, "0YL", "ChannelType"),
        _object(MEMBER, "0v8", "EventChannel", "SelectedEntity", "FilterExpression"),
    )
}
NOT_KEPT = ("IsDeleted", "SystemModstamp")
"""System fields that setup records do not have."""
SINCE = {MANAGED: 60.0}
"""First API version of an object; the others are older than any served version."""


def managed_record(config: ManagedConfig) -> Record:
    metadata = {
        "label": config.label,
        "topicName": config.topic,
        "defaultReplay": config.default_replay,
        "errorRecoveryReplay": config.error_recovery_replay,
        "state": config.state,
        "version": float(config.version),
    }
    fields = {
        "TopicName": config.topic,
        "DefaultReplay": config.default_replay,
        "ErrorRecoveryReplay": config.error_recovery_replay,
        "State": config.state,
        "Version": config.version,
    }
    return _record(MANAGED, config.id, config.developer_name, config.label, metadata, fields)


def channel_record(channel: str, label: str) -> Record:
    kind = channel.split("/")[1]
    metadata = {"channelType": kind, "label": label}
    fields = {
        "DeveloperName": short_name(channel).removesuffix(CUSTOM),
        "ChannelType": kind,
    }
    return _record(CHANNEL, channel_id(channel), short_name(channel), label, metadata, fields)


def member_record(channel: str, member: ChannelMember) -> Record:
    """Record of a channel's member.

    :param member: member with its name.
    """
    enriched = [{"name": name} for name in member.enriched_fields]
    metadata = {
        "eventChannel": short_name(channel),
        "selectedEntity": short_name(member.topic),
        "enrichedFields": enriched,
        "filterExpression": member.filter or None,
    }
    fields = {
        "EventChannel": short_name(channel),
        "SelectedEntity": short_name(member.topic),
        "FilterExpression": member.filter or None,
    }
    record_id = member_id(channel, member.topic)
    return _record(MEMBER, record_id, member.name, member.name, metadata, fields)


def _record(
    entity: str,
    record_id: str,
    name: str,
    label: str,
    metadata: dict[str, Any],
    fields: dict[str, Any],
) -> Record:
    values = {
        "Id": record_id,
        "DeveloperName": name,
        "MasterLabel": label,
        "Language": "en_US",
        "FullName": name,
        "Metadata": metadata,
        **fields,
    }
    return Record(id=record_id, entity=entity, values=values, deleted_at=None)
