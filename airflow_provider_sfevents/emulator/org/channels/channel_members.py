"""Settings of channels: labels, and the enriched fields and filters of members. Pure.

Membership itself is on the bus: a channel is a topic that names other topics.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_ENRICHED = 10
"""Most enriched fields of a member (Change Data Capture Developer Guide)."""
CUSTOM = "__chn"
"""Suffix of custom channel names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMember:
    """Settings of a channel for one event or object.

    :param topic: topic of the member, or the name of its event or object.
    :param enriched_fields: fields of an object that its updates and deletions on this channel carry
        even if unchanged; a compound by its own name.
    :param filter: condition that events must meet, as in SOQL after WHERE; empty for every event.
    :param name: full name of the member's record in the Tooling API; derived from the other names
        if empty.
    """

    topic: str
    enriched_fields: tuple[str, ...] = ()
    filter: str = ""
    name: str = ""


@dataclass(slots=True)
class Channels:
    """Labels and member settings of an org's channels.

    A writer holds a lock. Published values are replaced, never changed, so readers need no lock.
    """

    _labels: dict[str, str] = field(default_factory=dict)
    _members: dict[str, dict[str, ChannelMember]] = field(default_factory=dict)
    _by_topic: dict[str, dict[str, ChannelMember]] = field(default_factory=dict)

    def label(self, channel: str) -> str:
        return self._labels.get(channel) or short_name(channel).removesuffix(CUSTOM)

    def members(self, channel: str) -> Mapping[str, ChannelMember]:
        """Settings by the member's topic; members without settings may be missing."""
        return self._members.get(channel, {})

    def member(self, channel: str, topic: str) -> ChannelMember:
        """Settings of one member, with its name."""
        found = self.members(channel).get(topic) or ChannelMember(topic=topic)
        return found if found.name else named(found, channel)

    def of_topic(self, topic: str) -> Mapping[str, ChannelMember]:
        """Settings of all channels for a topic, by channel."""
        return self._by_topic.get(topic, {})

    def to_json(self) -> dict[str, Any]:
        """Note with all settings."""
        members = {
            channel: [asdict(one) for one in settings.values()]
            for channel, settings in self._members.items()
        }
        return {"labels": self._labels, "members": members}

    def restore(self, fact: Mapping[str, Any]) -> None:
        """Apply a note."""
        self._labels |= fact.get("labels", {})
        for channel, members in fact.get("members", {}).items():
            made = [_restored(one) for one in members]
            self._members[channel] = {one.topic: one for one in made}
        by_topic: dict[str, dict[str, ChannelMember]] = {}
        for channel, settings in self._members.items():
            for topic, one in settings.items():
                by_topic.setdefault(topic, {})[channel] = one
        self._by_topic = by_topic


def _restored(value: Mapping[str, Any]) -> ChannelMember:
    return ChannelMember(**{**value, "enriched_fields": tuple(value["enriched_fields"])})


def named(member: ChannelMember, channel: str) -> ChannelMember:
    """Copy of a member with the usual record name: the channel's and the event's."""
    parts = (short_name(channel).removesuffix(CUSTOM), short_name(member.topic).replace("__", "_"))
    return replace(member, name="_".join(parts))


def short_name(topic: str) -> str:
    """Last part of a topic name: `Sales__chn` of `/data/Sales__chn`."""
    return topic.rpartition("/")[2]


def channel_id(channel: str) -> str:
    """Record id of a channel, derived from its name."""
    return _id("0YL", channel)


def member_id(channel: str, topic: str) -> str:
    """Record id of a member, derived from its names."""
    return _id("0v8", f"{channel} {topic}")


def _id(prefix: str, name: str) -> str:
    return salesforce_ids.record_id(f"{prefix}gL0000", zlib.crc32(name.encode()))
