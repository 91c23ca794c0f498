"""Decode a message of the Streaming API to the values that its event has in Avro. No I/O, no Spark.

1. Platform events and change events stand in `data.payload`, a PushTopic's record in
   `data.sobject`, a generic event's text in `data.payload`. All are read by the event's own schema.
2. Times are ISO 8601 text where Avro has milliseconds (Platform Events Developer Guide, "Subscribe
   with CometD").
3. A change event names its fields where Avro has bitmaps. It does not say which fields were
   emptied: those are named in `changedFields` and are null or absent. A diff is an object with the
   one member `diff` (Change Data Capture Developer Guide, "Change Event Fields").
4. A message that has a field which its schema does not have, or lacks one that cannot be null, does
   not decode. So nothing of it is left out silently.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_sfevents.spark.avro.arrow_columns import build_columns
from airflow_provider_sfevents.spark.avro.decode import (
    BITMAPS,
    HEADER,
    UndecodableError,
    bitmap_layout,
    parsed,
)
from airflow_provider_sfevents.spark.avro.reference_decoder import (
    Decoded,
    event_time,
    readable_time,
)
from airflow_provider_sfevents.staging.manifest import CHANGE_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_sfevents.spark.schema.field_types import Column

    Convert = Callable[[Any], Any]

_REASON_LENGTH = 500
_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)
_BITS_OF_INT, _BITS_OF_LONG = 32, 64


class JsonMessages:
    """Decoder of messages of one schema; a `PayloadDecoder`.

    :param columns: of the event type in the table.
    :raises ValueError: the text is no Avro schema.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        self._convert = _record(parsed(schema_json), {})
        self._layout = bitmap_layout(schema_json)
        self._columns = columns

    def __call__(self, payloads: Sequence[bytes]) -> Decoded:
        records: dict[int, tuple[dict[str, Any], int | None]] = {}
        reasons: dict[int, str] = {}
        for index, payload in enumerate(payloads):
            try:
                records[index] = self.decode(payload)
            except UndecodableError as undecodable:
                reasons[index] = str(undecodable)
        good = list(records)
        values = [record for record, _ in records.values()]
        arrays, fitting, misfits = build_columns(values, self._columns)
        reasons |= {good[index]: reason for index, reason in misfits.items()}
        rows = [good[index] for index in fitting]
        times = pa.array([records[row][1] for row in rows], pa.int64())
        return Decoded(arrays=arrays, rows=rows, times=times, reasons=reasons)

    def decode(self, payload: bytes) -> tuple[dict[str, Any], int | None]:
        """Return the values of a message's event, and its time in milliseconds if it is readable.

        :param payload: the message as it was received.
        :raises UndecodableError: with the reason.
        """
        try:
            data = _loaded(payload)["data"]
            fields = _fields(data)
            if isinstance(fields.get(HEADER), dict):
                fields = self._as_change(fields)
            record = self._convert(fields)
            return record, _time(data, record)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            said = f"the message does not fit the event's schema ({type(error).__name__}: {error})"
            raise UndecodableError(said[:_REASON_LENGTH]) from error

    def _as_change(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a change event's fields with the header that Avro has."""
        body = {name: _without_diff(value) for name, value in fields.items()}
        header = dict(fields[HEADER])
        changed = header.get("changedFields") or []
        found = {
            "changedFields": changed,
            "nulledFields": [name for name in changed if _is_null(body, name)],
            "diffFields": [name for name, value in body.items() if value is not fields[name]],
        }
        for name in BITMAPS:
            header[name] = self._in_order(found[name])
        return {**body, HEADER: header}

    def _in_order(self, names: Sequence[str]) -> list[str]:
        """Return names of fields in the order of bitmaps: fields first, then members by parent."""
        places = {name: (-1, at) for at, (name, _) in enumerate(self._layout)}
        for at, (parent, members) in enumerate(self._layout):
            places |= {f"{parent}.{member}": (at, inner) for inner, member in enumerate(members)}
        if unknown := [name for name in names if name not in places]:
            raise ValueError(f"the header names field {unknown[0]!r}, the schema has none")
        return sorted(names, key=places.__getitem__)


def header_of(payload: bytes) -> Mapping[str, Any]:
    """Return the header of a change event's message, as it stands there; empty if it has none."""
    try:
        header = _loaded(payload)["data"]["payload"][HEADER]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return header if isinstance(header, dict) else {}


def _loaded(payload: bytes) -> Any:
    return json.loads(payload, parse_constant=_refuse_constant)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event's fields, of any kind of event."""
    if "sobject" in data:
        return {CHANGE_TYPE: data["event"]["type"], **data["sobject"]}
    payload = data["payload"]
    if "schema" in data:
        return dict(payload)
    return {"payload": payload if isinstance(payload, str) else json.dumps(payload)}


def _time(data: Mapping[str, Any], record: dict[str, Any]) -> int | None:
    if "schema" in data:
        return event_time(record)
    try:
        return readable_time(_milliseconds(data["event"]["createdDate"]))
    except (ValueError, KeyError, TypeError):
        return None


def _without_diff(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"diff"} and isinstance(value["diff"], str):
        return value["diff"]
    return value


def _is_null(body: Mapping[str, Any], name: str) -> bool:
    parent, _, member = name.partition(".")
    value = body.get(parent)
    if not member:
        return value is None
    return value is None or (isinstance(value, dict) and value.get(member) is None)


def _converter(avro: Any, named: dict[str, Convert], of_long: Convert) -> Convert:
    """Make the function from a JSON value to the value of an Avro type.

    :param named: the schema's named types that were read before.
    :param of_long: for a long, which stands for a time in some fields.
    """
    if isinstance(avro, list):
        made = [_converter(one, named, of_long) for one in avro if one != "null"]
        return partial(_either, made, "null" in avro)
    if avro == "long":
        return of_long
    if isinstance(avro, str):
        return _PLAIN[avro] if avro in _PLAIN else partial(_call, named, avro)
    return _complex(avro, named, of_long)


def _complex(avro: Mapping[str, Any], named: dict[str, Convert], of_long: Convert) -> Convert:
    match avro["type"]:
        case "record":
            return _record(avro, named)
        case "array":
            return partial(_list, _converter(avro["items"], named, of_long))
        case "map":
            return partial(_map, _converter(avro["values"], named, of_long))
        case "enum":
            named[avro["name"]] = partial(_symbol, avro["name"], frozenset(avro["symbols"]))
        case "fixed":
            named[avro["name"]] = _bytes
        case inner:
            return _converter(inner, named, of_long)
    return named[avro["name"]]


def _record(avro: Mapping[str, Any], named: dict[str, Convert]) -> Convert:
    fields: dict[str, Convert] = {}
    named[avro["name"]] = made = partial(_members, avro["name"].rpartition(".")[2], fields)
    for field in avro["fields"]:
        hint = ((field.get("doc") or "").split(":")[1:2] or [""])[0]
        of_long = _BY_DOC.get(hint, partial(_whole, _BITS_OF_LONG))
        fields[field["name"]] = _converter(field["type"], named, of_long)
    return made


def _call(named: Mapping[str, Convert], name: str, value: Any) -> Any:
    return named[name](value)


def _either(branches: Sequence[Convert], nullable: bool, value: Any) -> Any:
    if value is None and nullable:
        return None
    refused: ValueError | None = None
    for convert in branches:
        try:
            return convert(value)
        except ValueError as error:
            refused = refused or error
    raise refused or ValueError(f"{value!r} is not null")


def _members(name: str, fields: Mapping[str, Convert], value: Any) -> dict[str, Any]:
    _of(dict, f"record {name}", value)
    if unknown := value.keys() - fields.keys():
        raise ValueError(f"{name} has field {min(unknown)!r}, the schema has none")
    found: dict[str, Any] = {}
    for field, convert in fields.items():
        try:
            found[field] = convert(value.get(field))
        except ValueError as error:
            missing = "is missing: " if field not in value else ""
            raise ValueError(f"field {field} {missing}{error}") from error
    return found


def _list(convert: Convert, value: Any) -> list[Any]:
    return [convert(one) for one in _of(list, "list", value)]


def _map(convert: Convert, value: Any) -> dict[str, Any]:
    return {name: convert(one) for name, one in _of(dict, "map", value).items()}


def _symbol(name: str, symbols: frozenset[str], value: Any) -> str:
    if not isinstance(value, str) or value not in symbols:
        raise ValueError(f"{value!r} is no symbol of {name}")
    return value


def _of(kind: type, name: str, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r} is no {name}")
    return value


def _whole(bits: int, value: Any) -> int:
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{value!r} is no whole number of {bits} bits")
    return value


def _number(value: Any) -> float:
    if type(value) not in {int, float}:
        raise ValueError(f"{value!r} is no number")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError("the integer is too large for a double") from error


def _bytes(value: Any) -> bytes:
    return str(_of(str, "text", value)).encode("latin-1")  # as JSON of Avro has bytes


def _null(value: Any) -> None:
    if value is not None:
        raise ValueError(f"{value!r} is not null")


def _milliseconds(value: Any) -> int:
    """Milliseconds since 1970 of a time in ISO 8601, or of the number itself."""
    if type(value) is int:
        return _whole(_BITS_OF_LONG, value)
    at = datetime.fromisoformat(_of(str, "time", value))
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


def _midnight(value: Any) -> int:
    """Milliseconds since 1970 of a date in ISO 8601, or of the number itself."""
    if type(value) is int:
        return _whole(_BITS_OF_LONG, value)
    day = date.fromisoformat(str(_of(str, "date", value))[:10])
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - _EPOCH) // _MILLISECOND


def _clock(value: Any) -> int:
    """Milliseconds since midnight of a time of day in ISO 8601, or of the number itself."""
    if type(value) is int:
        return _whole(_BITS_OF_LONG, value)
    at = time.fromisoformat(_of(str, "time of day", value))
    seconds = (at.hour * 60 + at.minute) * 60 + at.second
    return seconds * 1000 + at.microsecond // 1000


_PLAIN: Mapping[str, Convert] = {
    "null": _null,
    "boolean": partial(_of, bool, "truth value"),
    "int": partial(_whole, _BITS_OF_INT),
    "float": _number,
    "double": _number,
    "string": partial(_of, str, "text"),
    "bytes": _bytes,
}
_BY_DOC: Mapping[str, Convert] = {
    "DateTime": _milliseconds,
    "DateOnly": _midnight,
    "Birthday": _midnight,
    "TimeOnly": _clock,
}
