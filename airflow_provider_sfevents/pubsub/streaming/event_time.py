"""Creation time of an event, read from the front of its payload by its own schema.

Platform events have it in `CreatedDate`, change events in `ChangeEventHeader.commitTimestamp`, both
in milliseconds since the epoch. Only the fields up to that one are decoded: a schema cut off behind
it reads the payload's beginning. It is not read if these fields could make more of a payload than
it has bytes (`payload_bounds`).

Publishers set `CreatedDate` themselves, the service does not check it, and Salesforce's own samples
send seconds. So a value that is no time of this century as milliseconds is read as seconds, and is
unreadable if it is none as seconds either.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

from airflow_provider_sfevents.staging.payload_bounds import is_bounded

EventTime = Callable[[bytes], datetime | None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CENTURY_MS = (946_684_800_000, 4_102_444_800_000)  # 2000-01-01 up to 2100-01-01


def event_time_reader(schema_json: str) -> EventTime:
    """A function from payload to creation time (None: unreadable) for events of this schema."""
    found = _front(schema_json)
    if found is None or not is_bounded(found[0]):
        return _no_time
    front, path = found

    def read(payload: bytes) -> datetime | None:
        import fastavro

        try:
            value: Any = fastavro.schemaless_reader(BytesIO(payload), front, None)
        except (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError):
            return None  # not written with this schema, or cut off
        for name in path:
            value = value[name]
        return as_time(value)

    return read


def as_time(value: object) -> datetime | None:
    """Time of milliseconds since the epoch, or of seconds.

    None if neither is within this century.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    for milliseconds in (value, value * 1000):
        if _CENTURY_MS[0] <= milliseconds < _CENTURY_MS[1]:
            return _EPOCH + timedelta(milliseconds=milliseconds)
    return None


def _no_time(payload: bytes) -> None:  # noqa: ARG001 - the signature of an EventTime
    return None


def _front(schema_json: str) -> tuple[Any, tuple[str, ...]] | None:
    """The schema up to the field that holds the time, and the path to it."""
    import fastavro

    try:
        schema = json.loads(schema_json)
        names = [field["name"] for field in schema["fields"]]
        if names[:1] == ["ChangeEventHeader"]:
            header = schema["fields"][0]
            front = _up_to(header["type"], "commitTimestamp")
            cut = {**schema, "fields": [{**header, "type": front}]}
            return fastavro.parse_schema(cut), ("ChangeEventHeader", "commitTimestamp")
        return fastavro.parse_schema(_up_to(schema, "CreatedDate")), ("CreatedDate",)
    except (
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
        fastavro.schema.SchemaParseException,
    ):
        return None


def _up_to(record: dict[str, Any], name: str) -> dict[str, Any]:
    """The record's schema up to this field.

    :raises ValueError: the record has no such field.
    """
    names = [field["name"] for field in record["fields"]]
    return {**record, "fields": record["fields"][: names.index(name) + 1]}
