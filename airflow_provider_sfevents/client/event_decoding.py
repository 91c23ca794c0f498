"""Decode a payload of the Pub/Sub API to the JSON form that the Streaming API has.

1. Times are ISO-8601 text: date-times with milliseconds and `Z`, dates as `YYYY-MM-DD`. The type
   stands in the field's `doc` (`CreatedDate:DateTime`).
2. Fields of a change event that did not change are left out; emptied ones are None. A diff is an
   object with `diff`. The lists of the header have field names in place of bitmaps.

Sources: Platform Events and Change Data Capture Developer Guides, examples of event messages.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.change_bitmaps import field_names
from airflow_provider_sfevents.staging.payload_bounds import is_bounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.change_bitmaps import Layout

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEADER = "ChangeEventHeader"
_BITMAPS = ("changedFields", "nulledFields", "diffFields")
_DAY_MS = 86_400_000


class MessagePayloadDecoder:
    """Decoder of payloads of one schema.

    :param schema_json: the event's own schema.
    :raises ValueError: it is no Avro schema, or one with which few bytes can fill the memory.
    """

    def __init__(self, schema_json: str) -> None:
        import fastavro
        from fastavro.schema import SchemaParseException, UnknownType

        raw = _without_logical_types(json.loads(schema_json))
        try:
            self._schema = fastavro.parse_schema(raw)
        except (SchemaParseException, UnknownType) as error:
            raise ValueError(f"it is no Avro schema: {error}") from error
        if not is_bounded(self._schema):
            raise ValueError("a payload of this schema could fill the memory")
        self._read = fastavro.schemaless_reader
        self._layout = _layout(raw)
        self._types = {
            field["name"]: str(field.get("doc", "")).split(":")[1:2] for field in raw["fields"]
        }
        self.event_name = str(raw["name"]).rpartition(".")[2]

    def decode(self, payload: bytes) -> dict[str, Any]:
        """Return the fields.

        :raises ValueError: the payload does not fit the schema.
        """
        stream = BytesIO(payload)
        try:
            record: dict[str, Any] = self._read(stream, self._schema, None)
        except (EOFError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        if stream.read(1):
            raise ValueError("the payload has bytes beyond its schema")
        fields = {name: _in_json(value, self._types[name]) for name, value in record.items()}
        return self._change(fields) if _HEADER in fields else fields

    def _change(self, fields: dict[str, Any]) -> dict[str, Any]:
        header = dict(fields.pop(_HEADER))
        for name in _BITMAPS:
            header[name] = field_names(header.get(name) or [], self._layout)
        kept = _changed(fields, header["nulledFields"])
        diffs = set(header["diffFields"])
        shown = {name: {"diff": value} if name in diffs else value for name, value in kept.items()}
        return {_HEADER: header, **shown}


def _changed(body: Mapping[str, Any], nulled: Sequence[str]) -> dict[str, Any]:
    """Return fields that have a value or were emptied; likewise the members of a compound."""
    kept: dict[str, Any] = {}
    for name, value in body.items():
        if isinstance(value, dict):
            inner = [one.partition(".")[2] for one in nulled if one.startswith(f"{name}.")]
            if members := _changed(value, inner):
                kept[name] = members
        elif value is not None or name in nulled:
            kept[name] = value
    return kept


def _in_json(value: Any, type_: Sequence[str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    match type_:
        case ["DateTime"]:
            return _moment(value)
        case ["DateOnly" | "Birthday"]:
            return _day(value)
        case ["TimeOnly"] if 0 <= value < _DAY_MS:
            return f"{_time(value).isoformat(timespec='milliseconds')}Z"
        case _:
            return value


def _moment(milliseconds: int) -> str | int:
    try:
        found = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _day(milliseconds: int) -> str | int:
    try:
        return (date(1970, 1, 1) + timedelta(milliseconds=milliseconds)).isoformat()
    except OverflowError:
        return milliseconds


def _time(milliseconds: int) -> time:
    return (_EPOCH + timedelta(milliseconds=milliseconds)).time()


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _without_logical_types(value)
            for key, value in schema.items()
            if key != "logicalType"
        }
    return [_without_logical_types(one) for one in schema] if isinstance(schema, list) else schema


def _layout(schema: Mapping[str, Any]) -> Layout:
    """Return the fields of a schema in order, each with the members of its record."""
    named: dict[str, tuple[str, ...]] = {}
    return tuple((str(field["name"]), _members(field["type"], named)) for field in schema["fields"])


def _members(avro: Any, named: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the members of a field's record; later fields refer to a record by its name."""
    if isinstance(avro, str):
        return named.get(avro.rpartition(".")[2], ())
    if isinstance(avro, list):
        return next((found for one in avro if (found := _members(one, named))), ())
    if avro.get("type") != "record":
        return ()
    found = tuple(str(field["name"]) for field in avro["fields"])
    named[str(avro["name"]).rpartition(".")[2]] = found
    return found
