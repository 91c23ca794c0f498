"""Fields of an object to read: those that its change events carry and the user may see. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_COMPOUND = frozenset({"address", "location"})
"""Read member by member: the Bulk API refuses them whole."""

MOST_QUERY_BYTES = 13_500
"""Longest query in a URI, encoded. The rest is for the path and the headers: Salesforce takes
16,384 bytes of URI and headers (help article 000386264)."""

MOST_IDS = 200
"""Most record ids in a query."""

_UNREADABLE = frozenset({"base64", "anyType", "complexvalue"})
_HEADER = "ChangeEventHeader"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSelection:
    """Fields to read of each record.

    :param fields: by their names over REST; `Id` first.
    :param unseen: fields of the change events that the user cannot read; they stay null in rows
        that are read.
    """

    entity: str
    fields: tuple[str, ...]
    unseen: tuple[str, ...] = ()

    def query(self, ids: Sequence[str] = ()) -> str:
        """SOQL for all records, or for these; without spaces that would lengthen a URI."""
        listed = ",".join(f"'{one}'" for one in ids)
        where = f" WHERE Id IN ({listed})" if ids else ""
        # Field names come from describe, and the ids were checked.
        return f"SELECT {','.join(self.fields)} FROM {self.entity}{where}"  # noqa: S608

    def queries(self, ids: Iterable[str] | None) -> list[str]:
        """SOQL for all records, or for these in several queries; each fits into a URI.

        :raises ConfigurationError: the fields are too many for that.
        """
        if ids is None:
            if _bytes_in_uri(self.query()) > MOST_QUERY_BYTES:
                raise self._too_long()
            return [self.query()]
        every = sorted(set(ids))
        if not every:
            return []
        one = _bytes_in_uri(self.query(every[:1]))
        another = _bytes_in_uri(self.query(every[:1] * 2)) - one
        size = min(MOST_IDS, (MOST_QUERY_BYTES - one) // another + 1)
        if size < 1:
            raise self._too_long()
        return [self.query(every[at : at + size]) for at in range(0, len(every), size)]

    def _too_long(self) -> ConfigurationError:
        return ConfigurationError(
            f"The {len(self.fields)} fields of {self.entity} are too long for a query over REST: "
            "Salesforce takes 16,384 bytes of URI and headers. Read the object as a whole by the "
            "Bulk API: leave record_ids out, and set read_by='bulk'."
        )


def change_topic(entity: str) -> str:
    """Topic of an object's change events; its schema can be read even if no channel selects it."""
    stem = entity.removesuffix("__c")
    return f"/data/{stem}__ChangeEvent" if stem != entity else f"/data/{entity}ChangeEvent"


def select(described: Mapping[str, Any], event_schema: str) -> FieldSelection:
    """Choose the fields.

    :param described: answer of describe; it lists the fields that the user may see.
    :param event_schema: of the object's change events, Avro as JSON.
    :raises ConfigurationError: the object cannot be queried by this user.
    """
    entity = str(described.get("name"))
    if not described.get("queryable", True):
        raise ConfigurationError(
            f"{entity} cannot be read: it is not queryable for the connection's user. Give the "
            "user the permission to read it."
        )
    events = {one["name"]: one["type"] for one in json.loads(event_schema)["fields"]}
    events.pop(_HEADER, None)
    chosen: dict[str, str] = {}
    for one in described["fields"]:
        name, parent = str(one["name"]), one.get("compoundFieldName") or ""
        if one.get("type") in _UNREADABLE | _COMPOUND:
            continue
        if name in events and _may_be_plain(events[name]):
            chosen[name] = name
        elif parent in events and parent != name:
            chosen[name] = parent
    unseen = sorted(events.keys() - set(chosen.values()))
    fields = ("Id", *(name for name in chosen if name != "Id"))
    return FieldSelection(entity=entity, fields=fields, unseen=tuple(unseen))


def _bytes_in_uri(query: str) -> int:
    return len(quote(query, safe=""))


def _may_be_plain(avro: Any) -> bool:
    """True if a field of an event may hold a plain value.

    Otherwise it is a compound, and its members are read.
    """
    branches = avro if isinstance(avro, list) else [avro]
    return any(_is_plain(one) for one in branches if one != "null")


def _is_plain(branch: Any) -> bool:
    return not (isinstance(branch, dict) and branch.get("type") == "record")
