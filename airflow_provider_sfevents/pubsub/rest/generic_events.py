"""Generic events, which a user pushes to a channel as text.

Source: Streaming API Developer Guide, "Generate Events Using REST".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import TopicError

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls


async def push_text(rest: RestCalls, topic: str, text: str) -> None:
    """Push a text to all subscribers of a generic channel.

    :param topic: such as `/u/Notices`.
    :raises TopicError: there is no such channel, or the user may not see it.
    :raises SfEventsError: the org refuses the event.
    """
    doing = f"Publishing to {topic}"
    channel = await channel_id(rest, topic, doing)
    body: dict[str, Any] = {"pushEvents": [{"payload": text, "userIds": []}]}
    await rest.post(f"/sobjects/StreamingChannel/{channel}/push", doing, body)


async def channel_id(rest: RestCalls, topic: str, doing: str) -> str:
    """Return the id of a generic channel's record.

    :raises TopicError: there is no such channel, or the user may not see it.
    """
    found = await records_named(rest, "SELECT Id FROM StreamingChannel", topic, doing)
    if not found:
        raise TopicError(
            f"The generic channel {topic} does not exist, or the user may not read it. Check its "
            "name, or create it as a Streaming Channel."
        )
    return str(found[0]["Id"])


async def records_named(
    rest: RestCalls, select: str, name: str, doing: str
) -> list[dict[str, Any]]:
    """Query the records that have a name.

    :param select: the query up to its object.
    """
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    found, _ = await rest.get("/query", doing, {"q": f"{select} WHERE Name = '{quoted}'"})
    return list(found.get("records", []))
