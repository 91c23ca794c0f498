"""Schemas of topics that exist only over the Streaming API, made from the org's own descriptions.

A PushTopic's events have the fields of its query and no schema. It is made of the query and the
object's description: field types by name, each nullable, because a deletion carries the Id alone. A
generic event is text. A schema's id is a fingerprint, so that another query gives another schema.
Source: Streaming API Developer Guide, "PushTopic Queries", "Generic Streaming".
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import TopicError
from airflow_provider_sfevents.pubsub.rest.generic_events import channel_id, records_named
from airflow_provider_sfevents.pubsub.topic_names import TopicKind, kind_of
from airflow_provider_sfevents.staging.manifest import CHANGE_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls

_QUERY = re.compile(
    r"\s*SELECT\s+(?P<fields>.+?)\s+FROM\s+(?P<object>\w+)", re.IGNORECASE | re.DOTALL
)
_FORM = "SELECT Id, Name FROM Account, with or without a condition."
_AVRO = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "double": "double",
    "currency": "double",
    "percent": "double",
    "date": "long",
    "datetime": "long",
    "time": "long",
}
_DOCS = {"date": "Data:DateOnly", "datetime": "Data:DateTime", "time": "Data:TimeOnly"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchema:
    """Schema of a topic's events.

    :param schema_id: fingerprint of the schema.
    :param text: Avro as JSON.
    :param fields: names of a PushTopic's fields.
    """

    schema_id: str
    text: str
    fields: frozenset[str] = frozenset()


async def read_schema(rest: RestCalls, topic: str) -> TopicSchema:
    """Make the schema of a PushTopic or a generic channel.

    :raises TopicError: the org has no such topic, or it is not active.
    :raises SfEventsError: the org cannot be asked.
    """
    name = topic.partition("?")[0]
    if kind_of(name) is TopicKind.GENERIC:
        await channel_id(rest, name, f"Looking up the generic channel {name}")
        return generic_schema(name)
    doing = f"Looking up the PushTopic {name}"
    own = name.removeprefix("/topic/")
    rows = await records_named(rest, "SELECT Query, IsActive FROM PushTopic", own, doing)
    if not rows or not rows[0]["IsActive"]:
        state = "is not active" if rows else "does not exist, or the user may not read it"
        raise TopicError(
            f"The PushTopic {name} {state}. Check its name, its field IsActive and the user's "
            "permission to read PushTopics, or create it."
        )
    query = str(rows[0]["Query"])
    selected = _QUERY.match(query)
    if selected is None:
        raise TopicError(
            f"The query of the PushTopic {name} cannot be read: {query[:200]!r}. Give it the form "
            + _FORM
        )
    described, _ = await rest.get(f"/sobjects/{selected['object']}/describe", doing)
    kinds = {str(one["name"]): str(one["type"]) for one in described["fields"]}
    return push_schema(name, selected["fields"].split(","), kinds)


def push_schema(name: str, selected: Iterable[str], kinds: Mapping[str, str]) -> TopicSchema:
    """Make the schema of a PushTopic.

    :param selected: names of the fields in its query, in any case, with or without spaces around.
    :param kinds: types of the object's fields, as its description names them.
    """
    names = [one.strip() for one in selected]
    spelled = {one.casefold(): one for one in kinds}
    fields: list[dict[str, Any]] = [{"name": CHANGE_TYPE, "type": ["null", "string"]}]
    for one in dict.fromkeys(spelled.get(name.casefold(), name) for name in names):
        kind = kinds.get(one, "")
        field = {"name": one, "type": ["null", _AVRO.get(kind, "string")], "default": None}
        fields.append({**field, "doc": _DOCS[kind]} if kind in _DOCS else field)
    return _schema(name, fields)


def generic_schema(name: str) -> TopicSchema:
    """Make the schema of a generic channel."""
    return _schema(name, [{"name": "payload", "type": ["null", "string"]}])


def _schema(topic: str, fields: list[dict[str, Any]]) -> TopicSchema:
    name = re.sub(r"\W+", "_", topic.split("/", 2)[2])
    text = json.dumps({"type": "record", "name": name, "fields": fields}, separators=(",", ":"))
    return TopicSchema(
        schema_id=f"{topic.split('/', 2)[1]}-{hashlib.sha256(text.encode()).hexdigest()[:20]}",
        text=text,
        fields=frozenset(one["name"] for one in fields) - {CHANGE_TYPE},
    )
