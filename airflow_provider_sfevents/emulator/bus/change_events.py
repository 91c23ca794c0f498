"""Content of a change event: header, bitmaps and body.

Source: Change Data Capture Developer Guide, "Change Event Message Structure" and "Change Event
Fields"; live logs where they differ.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus import field_bitmaps
from airflow_provider_sfevents.emulator.bus.avro_schemas import CHANGE_TYPES
from airflow_provider_sfevents.emulator.bus.payload_codec import milliseconds
from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from datetime import datetime

Schema = dict[str, Any]

DEFAULT_ORIGIN = "com/salesforce/api/rest/64.0;client=sfevents-emulator"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeMessage:
    """One change of an entity's records.

    :param fields: values by field; for a compound a dict of the members that changed. None means:
        set to null.
    :param diff_fields: names of the given fields whose value is a unified diff.
    :param changed_fields: replaces the names that follow from `fields`.
    :param commit_number: commit number of the transaction; derived from the time if not given.
    :param committed_at: aware; sent as whole seconds, as in live orgs.
    """

    entity: str
    change_type: str
    record_ids: tuple[str, ...]
    user_id: str
    committed_at: datetime
    fields: Mapping[str, Any] = field(default_factory=dict)
    diff_fields: tuple[str, ...] = ()
    changed_fields: tuple[str, ...] | None = None
    transaction_key: str = field(default_factory=lambda: str(uuid.uuid4()))
    sequence_number: int = 1
    commit_number: int | None = None
    origin: str = DEFAULT_ORIGIN


def to_record(change: ChangeMessage, schema: Schema) -> dict[str, Any]:
    """Field values of the change event's payload.

    :raises EmulatorError: unknown change type, or fields for a change type that carries none.
    """
    _check(change)
    body = {**_stamps(change, schema), **change.fields}
    header = {
        "entityName": change.entity,
        "recordIds": list(change.record_ids),
        "changeType": change.change_type,
        "changeOrigin": change.origin,
        "transactionKey": change.transaction_key,
        "sequenceNumber": change.sequence_number,
        "commitTimestamp": _commit_milliseconds(change),
        # Newer orgs use commit numbers of about nanoseconds, which a double cannot hold.
        "commitNumber": change.commit_number
        or _commit_milliseconds(change) * 1_000_000 + change.sequence_number,
        "commitUser": change.user_id,
        **_bitmaps(change, body, schema),
    }
    return {"ChangeEventHeader": header, **body}


def _check(change: ChangeMessage) -> None:
    known = (*CHANGE_TYPES, "SNAPSHOT")
    if change.change_type not in known:
        raise EmulatorError(f"change type {change.change_type!r} is not one of {', '.join(known)}")
    if change.fields and (change.change_type == "DELETE" or change.change_type.startswith("GAP_")):
        raise EmulatorError(
            f"a {change.change_type} carries no fields; leave {', '.join(change.fields)} out"
        )
    if not change.record_ids:
        raise EmulatorError(f"a change of {change.entity} needs the id of at least one record")


def _stamps(change: ChangeMessage, schema: Schema) -> dict[str, Any]:
    """System fields that Salesforce fills in.

    A wildcard record id stands for records that keep their own system fields.
    """
    if any(record_id.endswith("*") for record_id in change.record_ids):
        return {}
    at = _commit_milliseconds(change)
    modified: dict[str, Any] = {"LastModifiedDate": at}
    made = {
        **modified,
        "CreatedDate": at,
        "CreatedById": change.user_id,
        "LastModifiedById": change.user_id,
    }
    stamps = {"CREATE": made, "UNDELETE": made, "UPDATE": modified}
    there = {field["name"] for field in schema["fields"]}
    return {
        name: value for name, value in stamps.get(change.change_type, {}).items() if name in there
    }


def _bitmaps(
    change: ChangeMessage, body: Mapping[str, Any], schema: Schema
) -> dict[str, list[str]]:
    """The three bitmaps of a header; only an update has any."""
    if change.change_type != "UPDATE":
        return {"nulledFields": [], "diffFields": [], "changedFields": []}
    changed = tuple(_names(body)) if change.changed_fields is None else change.changed_fields
    nulled = _names(body, only_null=True)
    return {
        "nulledFields": _encode(schema, nulled),
        "diffFields": _encode(schema, change.diff_fields),
        "changedFields": _encode(schema, changed),
    }


def _encode(schema: Schema, names: Iterable[str]) -> list[str]:
    try:
        return field_bitmaps.encode(schema, names)
    except ValueError as error:
        raise EmulatorError(f"{schema['name']}: {error}") from error


def _names(body: Mapping[str, Any], *, only_null: bool = False) -> list[str]:
    """Names of changed fields; each member of a compound separately."""
    flat: dict[str, Any] = {}
    for name, value in body.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{member}": of for member, of in value.items()}
        else:
            flat[name] = value
    return [name for name, value in flat.items() if value is None or not only_null]


def _commit_milliseconds(change: ChangeMessage) -> int:
    return milliseconds(change.committed_at.replace(microsecond=0))
