"""Channels of an org and their members, by queries of the Tooling API.

The user needs the permission View Setup and Configuration.
https://developer.salesforce.com/docs/atlas.en-us.api_tooling.meta/api_tooling/tooling_api_objects_platformeventchannelmember.htm
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.auth.session import long_id
from airflow_provider_sfevents.pubsub.rest.offered_topics import (
    EventChannelMember,
    OfferedTopic,
    legacy,
    offered,
)
from airflow_provider_sfevents.pubsub.topic_names import STANDARD_CHANNEL, channel_name

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls

_CHANNELS = (
    "SELECT Id, DeveloperName, MasterLabel, ChannelType, NamespacePrefix FROM PlatformEventChannel"
)
_PUSH_TOPICS = "SELECT Name, Description FROM PushTopic WHERE IsActive = true"
_GENERIC = "SELECT Name, Description FROM StreamingChannel"
_MEMBERS = "SELECT Id, EventChannel, SelectedEntity FROM PlatformEventChannelMember"


async def list_topics(
    rest: RestCalls, *, unselected: bool = False
) -> tuple[list[OfferedTopic], str]:
    """Topics that the org offers to this user; and the reason if channels are left out.

    Without the permission to read the setup, channels are left out.

    :param unselected: include objects whose change events the org does not send.
    :raises SfEventsError: the org does not answer.
    """
    described, _ = await rest.get("/sobjects", "Listing the org's objects")
    channels: list[dict[str, Any]] = []
    members: list[EventChannelMember] | None = None
    problem = ""
    try:
        channels = await _rows(rest, _CHANNELS, "Listing the org's channels")
        members = await _members(rest, channels)
    except ConfigurationError as error:
        problem = (
            f"Channels and the objects with change events are not known: {error} To read them "
            "the user needs the permission View Setup and Configuration."
        )
    found = offered(described["sobjects"], channels, members, unselected=unselected)
    found += legacy(await _plain_rows(rest, _PUSH_TOPICS), await _plain_rows(rest, _GENERIC))
    return found, problem


async def _plain_rows(rest: RestCalls, soql: str) -> list[dict[str, Any]]:
    """Rows of a query; none if the org does not have the object, or the user may not read it."""
    try:
        found, _ = await rest.get("/query", "Listing the org's topics", {"q": soql})
    except ConfigurationError:
        return []
    return list(found.get("records", []))


async def read_members(rest: RestCalls, channel: str) -> list[EventChannelMember]:
    """Event types on a channel, each with its filter and enriched fields.

    :param channel: its name, such as `ChangeEvents` or `Sales__chn`.
    :raises ConfigurationError: the user may not read the setup.
    """
    doing = f"Reading the members of channel {channel}"
    names = _names(await _rows(rest, _CHANNELS, doing))
    rows = await _rows(rest, _MEMBERS, doing)
    found = [
        await _whole(rest, row, doing)
        for row in rows
        if names.get(long_id(str(row["EventChannel"])), channel) == channel
    ]
    return sorted((one for one in found if one.channel == channel), key=lambda member: member.event)


async def read_selection(rest: RestCalls) -> frozenset[str]:
    """Change events that the org sends: of the objects selected in Setup, Change Data Capture.

    :return: names such as `AccountChangeEvent`.
    :raises ConfigurationError: the user may not read the setup.
    """
    channels = await _rows(rest, _CHANNELS, "Listing the org's channels")
    members = await _members(rest, channels)
    return frozenset(one.event for one in members if one.channel == STANDARD_CHANNEL)


async def _members(rest: RestCalls, channels: list[dict[str, Any]]) -> list[EventChannelMember]:
    """Members of all channels, without their details."""
    doing = "Reading the members of the org's channels"
    names = _names(channels)
    found = []
    for row in await _rows(rest, _MEMBERS, doing):
        channel = names.get(long_id(str(row["EventChannel"])))
        event = str(row["SelectedEntity"])
        if channel is None or not event.endswith(("Event", "__e", "EventStream")):
            found.append(await _whole(rest, row, doing))  # an unknown id: read the whole record
        else:
            found.append(EventChannelMember(channel=channel, event=event))
    return found


def _names(channels: list[dict[str, Any]]) -> dict[str, str]:
    """Names of the channels by id and by name: a member may have either."""
    return {STANDARD_CHANNEL: STANDARD_CHANNEL} | {
        key: channel_name(row)
        for row in channels
        for key in (long_id(str(row["Id"])), channel_name(row))
    }


async def _whole(rest: RestCalls, row: dict[str, Any], doing: str) -> EventChannelMember:
    """A member's record; the API returns metadata for one record at a time only."""
    record, _ = await rest.get(f"/tooling/sobjects/PlatformEventChannelMember/{row['Id']}", doing)
    said = record["Metadata"]
    return EventChannelMember(
        channel=said["eventChannel"],
        event=said["selectedEntity"],
        enriched=tuple(one["name"] for one in said.get("enrichedFields") or ()),
        filter=said.get("filterExpression") or "",
    )


async def _rows(rest: RestCalls, query: str, doing: str) -> list[dict[str, Any]]:
    page, _ = await rest.get("/tooling/query", doing, {"q": query})
    rows = list(page["records"])
    while not page.get("done", True):
        page, _ = await rest.get(page["nextRecordsUrl"], doing)
        rows += page["records"]
    return rows
