"""Avro schemas of events, and their ids.

Sources: schemas returned by live orgs (key order, `doc` hints), the Pub/Sub API guide for the id.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes

Schema = dict[str, Any]

NAMESPACE = "com.sforce.eventbus"
CHANGE_TYPES = (
    "CREATE",
    "UPDATE",
    "DELETE",
    "UNDELETE",
    "GAP_CREATE",
    "GAP_UPDATE",
    "GAP_DELETE",
    "GAP_UNDELETE",
    "GAP_OVERFLOW",
)
# The first two fields of every platform event; never null.
CREATED = (
    {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
    {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
)


def schema_id(schema: Schema) -> str:
    """Id of a schema: base64url of the MD5 of its parsing canonical form, 22 characters.

    `doc` and `default` do not count, so the same fields in two orgs have the same id.
    """
    from fastavro.schema import to_parsing_canonical_form

    digest = hashlib.md5(to_parsing_canonical_form(schema).encode(), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def to_json(schema: Schema) -> str:
    """JSON text as GetSchema sends it: no spaces, keys in their original order."""
    return json.dumps(schema, separators=(",", ":"))


def platform_event_schema(name: str, fields: Mapping[str, str], types: FieldTypes) -> Schema:
    """Build the schema of a platform event; every field but the first two is nullable."""
    created = {field["name"] for field in CREATED}
    own = [types.field(field, kind) for field, kind in fields.items() if field not in created]
    return _record(name, [dict(field) for field in CREATED] + own)


def change_event_name(entity: str) -> str:
    """Name of an entity's change events: `AccountChangeEvent`, `Employee__ChangeEvent`."""
    return (
        f"{entity.removesuffix('c')}ChangeEvent"
        if entity.endswith("__c")
        else f"{entity}ChangeEvent"
    )


def change_event_schema(
    entity: str,
    fields: Mapping[str, str],
    types: FieldTypes,
    *,
    snapshot: bool,
    numbers: Mapping[str, int] | None = None,
) -> Schema:
    """Build the schema of an entity's change events.

    The header comes first, then the entity's fields, all of which are nullable.

    :param numbers: numbers of custom fields, by name; counted if not given.
    """
    known = numbers or {}
    own = [types.field(name, kind, known.get(name)) for name, kind in fields.items()]
    return _record(change_event_name(entity), [_header(snapshot=snapshot), *own])


def evolved(
    schema: Schema, add: Mapping[str, str], remove: Iterable[str], types: FieldTypes
) -> Schema:
    """Next version of a schema: fields removed, new fields appended.

    :raises EmulatorError: a field to remove does not exist, or a field to add exists.
    """
    gone = set(remove)
    here = [field["name"] for field in schema["fields"]]
    if missing := gone.difference(here):
        raise EmulatorError(
            f"{schema['name']} has no field {min(missing)!r} to remove; it has {', '.join(here)}"
        )
    if double := set(add).intersection(here).difference(gone):
        raise EmulatorError(f"{schema['name']} has a field {min(double)!r} already")
    kept = [field for field in schema["fields"] if field["name"] not in gone]
    return _record(schema["name"], kept + [types.field(name, kind) for name, kind in add.items()])


def _record(name: str, fields: list[Schema]) -> Schema:
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}


def _header(*, snapshot: bool) -> Schema:
    symbols = [*CHANGE_TYPES, "SNAPSHOT"] if snapshot else list(CHANGE_TYPES)
    strings = {"type": "array", "items": "string"}
    members: list[tuple[str, Any]] = [
        ("entityName", "string"),
        ("recordIds", strings),
        # The empty namespace is what live orgs send.
        ("changeType", {"type": "enum", "name": "ChangeType", "namespace": "", "symbols": symbols}),
        ("changeOrigin", "string"),
        ("transactionKey", "string"),
        ("sequenceNumber", "int"),
        ("commitTimestamp", "long"),
        ("commitNumber", "long"),
        ("commitUser", "string"),
        ("nulledFields", strings),
        ("diffFields", strings),
        ("changedFields", strings),
    ]
    return {
        "name": "ChangeEventHeader",
        "type": {
            "type": "record",
            "name": "ChangeEventHeader",
            "fields": [{"name": name, "type": kind} for name, kind in members],
        },
        "doc": "Data:ComplexValueType",
    }
