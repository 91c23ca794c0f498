"""Fields of the events that a topic carries.

They come from its schema, and for a channel from the schemas of its members.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.rest.event_channels import read_members
from airflow_provider_sfevents.pubsub.rest.offered_topics import EventChannelMember
from airflow_provider_sfevents.pubsub.topic_names import (
    TopicKind,
    channel_of,
    is_exempt,
    kind_of,
    topic_of,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDescription:
    """A field of an event.

    :param type: in Avro's words, such as `double`, `list of string`, `Address {Street, City}`.
    :param salesforce_type: as the schema notes it, such as `Currency`; empty if it does not.
    :param nullable: whether an event may leave it empty.
    """

    name: str
    type: str
    salesforce_type: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDescription:
    """An event type that a topic carries.

    :param fields: of the newest schema; an event is decoded with its own.
    :param enriched: on a channel: fields that come with every change, changed or not.
    :param filter: on a channel: a condition in SOQL that selects events; empty: all.
    :param problem: the reason if the fields are not known; otherwise empty.
    """

    name: str
    schema_id: str = ""
    fields: tuple[FieldDescription, ...] = ()
    enriched: tuple[str, ...] = ()
    filter: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    """A topic, the user's permissions on it, and its event types.

    :param counted: whether deliveries count against the org's daily allowance.
    :param events: one, or those of a channel.
    :param problem: the reason if a channel's event types are not known; otherwise empty.
    """

    topic: str
    kind: TopicKind
    can_publish: bool
    can_subscribe: bool
    counted: bool
    events: tuple[EventDescription, ...]
    problem: str = ""


async def describe_topic(client: PubSubClient, rest: RestCalls, topic: str) -> DescribedTopic:
    """Read a topic and the schemas of all its event types; costs no delivery.

    :raises TopicError: there is no such topic, or this user may not see it.
    """
    info = await client.get_topic(topic)
    channel, problem = channel_of(topic), ""
    events: list[EventDescription] = []
    if channel is None:
        events.append(
            await _event(client, EventChannelMember(channel="", event=topic.rpartition("/")[2]))
        )
    else:
        try:
            events += [await _event(client, one) for one in await read_members(rest, channel)]
        except ConfigurationError as error:
            problem = (
                f"{error} To read the members of a channel the user needs the permission View "
                "Setup and Configuration."
            )
    return DescribedTopic(
        topic=info.name,
        kind=kind_of(topic),
        can_publish=info.can_publish,
        can_subscribe=info.can_subscribe,
        counted=not is_exempt(topic),
        events=tuple(events),
        problem=problem,
    )


def fields_of(schema: str) -> tuple[FieldDescription, ...]:
    """Fields of a schema, in its order.

    :param schema: Avro as JSON.
    """
    return tuple(_field(one) for one in json.loads(schema)["fields"])


async def _event(client: PubSubClient, member: EventChannelMember) -> EventDescription:
    try:
        schema_id = (await client.get_topic(topic_of(member.event))).schema_id
        fields = fields_of(await client.get_schema(schema_id))
    except ConfigurationError as error:
        return EventDescription(
            name=member.event,
            enriched=member.enriched,
            filter=member.filter,
            problem=str(error),
        )
    return EventDescription(
        name=member.event,
        schema_id=schema_id,
        fields=fields,
        enriched=member.enriched,
        filter=member.filter,
    )


def _field(one: dict[str, Any]) -> FieldDescription:
    avro = one["type"]
    branches = avro if isinstance(avro, list) else [avro]
    # Colons separate a role, the type and often the field's id.
    noted = str(one.get("doc", "")).split(":")
    return FieldDescription(
        name=str(one["name"]),
        type=" or ".join(_words(branch) for branch in branches if branch != "null"),
        salesforce_type=noted[1] if len(noted) > 1 else "",
        nullable="null" in branches,
    )


def _words(avro: Any) -> str:
    """One branch of an Avro type, in words."""
    if not isinstance(avro, dict):
        return str(avro).rpartition(".")[2]
    if avro["type"] == "array":
        return f"list of {_words(avro['items'])}"
    if avro["type"] == "enum":
        return f"one of {', '.join(avro['symbols'])}"
    if avro["type"] == "record":
        return f"{avro['name']} {{{', '.join(one['name'] for one in avro['fields'])}}}"
    return str(avro["type"])
