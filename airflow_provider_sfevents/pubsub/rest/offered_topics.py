"""Topics that an org offers, from the lists of its REST API. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.pubsub.topic_names import (
    ALL_CHANGES,
    STANDARD_CHANNEL,
    TopicKind,
    channel_name,
    channel_of,
    kind_of,
    topic_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChannelMember:
    """An event type on a channel.

    :param channel: its name, such as `ChangeEvents` or `Sales__chn`.
    :param event: such as `AccountChangeEvent` or `Order__e`.
    :param enriched: fields that come with every change, changed or not.
    :param filter: a condition in SOQL that selects events; empty: all.
    """

    channel: str
    event: str
    enriched: tuple[str, ...] = ()
    filter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTopic:
    """A topic that the org offers.

    :param members: event types of a channel; empty for topics of one type, and if they could not be
        read.
    :param selected: of change events: whether the org sends them (Setup, Change Data Capture);
        None: not of change events, or not known.
    """

    topic: str
    kind: TopicKind
    label: str = ""
    members: tuple[str, ...] = ()
    selected: bool | None = None

    @property
    def is_channel(self) -> bool:
        return channel_of(self.topic) is not None


def offered(
    objects: Iterable[Mapping[str, Any]],
    channels: Iterable[Mapping[str, Any]],
    members: Sequence[EventChannelMember] | None,
    *,
    unselected: bool = False,
) -> list[OfferedTopic]:
    """All topics, by kind and name.

    :param objects: as describe global lists them.
    :param channels: rows of PlatformEventChannel.
    :param members: of all channels; None: they could not be read.
    :param unselected: include objects whose change events the org does not send.
    """
    of_channel: dict[str, list[str]] = {STANDARD_CHANNEL: []}
    for member in members or ():
        of_channel.setdefault(member.channel, []).append(member.event)
    selected = None if members is None else frozenset(of_channel[STANDARD_CHANNEL])
    found = [
        topic
        for one in objects
        if (topic := _of_object(one, selected)) is not None
        and (unselected or topic.selected is not False)
    ]
    found += [_of_channel(one, of_channel) for one in channels]
    found.append(
        OfferedTopic(
            topic=ALL_CHANGES,
            kind=TopicKind.CHANGE_CHANNEL,
            label="All selected objects",
            members=tuple(sorted(of_channel[STANDARD_CHANNEL])),
        )
    )
    order = list(TopicKind)
    return sorted(found, key=lambda one: (order.index(one.kind), one.topic))


def legacy(
    push_topics: Iterable[Mapping[str, Any]], generic: Iterable[Mapping[str, Any]]
) -> list[OfferedTopic]:
    """Topics that exist only over the Streaming API, by kind and name.

    :param push_topics: rows of PushTopic with Name and Description.
    :param generic: rows of StreamingChannel.
    """
    named = [(f"/topic/{one['Name']}", one) for one in push_topics]
    named += [(str(one["Name"]), one) for one in generic]
    return sorted(
        (
            OfferedTopic(topic=topic, kind=kind_of(topic), label=str(one.get("Description") or ""))
            for topic, one in named
        ),
        key=lambda one: (one.kind is TopicKind.GENERIC, one.topic),
    )


def _of_object(one: Mapping[str, Any], selected: frozenset[str] | None) -> OfferedTopic | None:
    name = str(one.get("name", ""))
    if not _is_event(name, one):
        return None
    topic = topic_of(name)
    kind = kind_of(topic)
    of_changes = kind is TopicKind.CHANGES and selected is not None
    return OfferedTopic(
        topic=topic,
        kind=kind,
        label=str(one.get("label") or ""),
        selected=name in selected if of_changes and selected is not None else None,
    )


def _is_event(name: str, one: Mapping[str, Any]) -> bool:
    """True if an object of the org is an event.

    `Event`, the calendar's, and stored events can be queried.
    """
    if name.endswith("__e"):
        return True
    return name.endswith(("Event", "EventStream")) and not one.get("queryable", True)


def _of_channel(row: Mapping[str, Any], of_channel: Mapping[str, Sequence[str]]) -> OfferedTopic:
    name = channel_name(row)
    of_changes = row.get("ChannelType") == "data"
    return OfferedTopic(
        topic=f"/{'data' if of_changes else 'event'}/{name}",
        kind=TopicKind.CHANGE_CHANNEL if of_changes else TopicKind.EVENT_CHANNEL,
        label=str(row.get("MasterLabel") or ""),
        members=tuple(sorted(of_channel.get(name, ()))),
    )
