"""Avro codec of payloads: readable field values in, bytes out, and back."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from airflow_provider_sfevents.emulator.bus import field_bitmaps
from airflow_provider_sfevents.emulator.errors import EmulatorError

Schema = dict[str, Any]
Kind = str | dict[str, str]
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Codec:
    """Encodes and decodes payloads of one schema."""

    def __init__(self, schema: Schema) -> None:
        from fastavro import parse_schema

        self.schema = schema
        self._parsed = parse_schema(schema)
        self._kinds: dict[str, Kind] = {field["name"]: _kind(field) for field in schema["fields"]}
        for at, record in field_bitmaps.compounds(schema).items():
            self._kinds[schema["fields"][at]["name"]] = {
                member["name"]: _kind(member) for member in record["fields"]
            }
        self._names = frozenset(field["name"] for field in schema["fields"])

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Encode a payload; a missing field is null.

        :raises EmulatorError: the schema has no such field, or a value does not fit.
        """
        from fastavro import schemaless_writer

        if not self._names.issuperset(values):
            wrong = min(set(values) - self._names)
            raise EmulatorError(
                f"{self.schema['name']} has no field {wrong!r}; it has "
                f"{', '.join(sorted(self._names))}"
            )
        record = {name: self._fitted(name, value) for name, value in values.items()}
        out = io.BytesIO()
        try:
            schemaless_writer(out, self._parsed, record)
        except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
            raise EmulatorError(
                f"an event of {self.schema['name']} does not fit its schema: {error}"
            ) from error
        return out.getvalue()

    def _fitted(self, name: str, value: Any) -> Any:
        try:
            return _to_avro(value, self._kinds[name])
        except EmulatorError as error:
            raise EmulatorError(f"{name}: {error}") from error

    def decode(self, payload: bytes) -> dict[str, Any]:
        """Decode a payload; times as ISO-8601.

        :raises EmulatorError: the bytes do not fit this schema.
        """
        record = self.record(payload)
        return {name: _from_avro(value, self._kinds[name]) for name, value in record.items()}

    def record(self, payload: bytes) -> dict[str, Any]:
        """Decode a payload; values as on the wire.

        :raises EmulatorError: the bytes do not fit this schema.
        """
        from fastavro import schemaless_reader

        source = io.BytesIO(payload)
        try:
            record = schemaless_reader(source, self._parsed, None)
        except Exception as error:
            # fastavro raises many types: EOFError, IndexError, UnicodeDecodeError ...
            raise EmulatorError(f"not a payload of {self.schema['name']}: {error!r}") from error
        if source.read(1) or not isinstance(record, dict):
            raise EmulatorError(f"not a payload of {self.schema['name']}: bytes are left over")
        return record


@lru_cache(maxsize=256)
def codec_for(schema_json: str) -> Codec:
    """Cached codec of a schema's JSON text."""
    return Codec(json.loads(schema_json))


def milliseconds(moment: datetime) -> int:
    """Milliseconds since the epoch, as in payloads; a time without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def to_wire(value: Any, kind: str) -> Any:
    """Convert a value to its form in a payload; text is parsed by the kind.

    :param kind: an Avro type, or `DateTime`, `DateOnly`, `TimeOnly`, `Birthday`.
    :raises EmulatorError: the text is not of this kind.
    """
    return _plain(_read(value, kind) if isinstance(value, str) else value)


def _kind(field: Schema) -> str:
    """Kind of a field's values: a temporal type from the `doc` hint, otherwise the Avro type."""
    hint = str(field.get("doc", "")).split(":")[1:2]
    if hint and hint[0] in _TEMPORAL:
        return hint[0]
    avro = field["type"][1] if isinstance(field["type"], list) else field["type"]
    return avro if isinstance(avro, str) else ""


def _to_avro(value: Any, kind: Kind) -> Any:
    """Convert a value to fastavro's input; text is parsed by the field's type."""
    if isinstance(kind, str):
        return to_wire(value, kind)
    # A compound. The Name of a person account is a record, that of a business account is text.
    if not isinstance(value, Mapping):
        return value
    if unknown := set(value).difference(kind):
        raise EmulatorError(f"no member {min(unknown)!r}; the compound has {', '.join(kind)}")
    return {name: _to_avro(of, kind[name]) for name, of in value.items()}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return milliseconds(value)
        case date():
            return (value - _EPOCH.date()) // _MILLISECOND
        case time():
            return (datetime.combine(_EPOCH, value.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
        case Decimal():
            return float(value)
    return value


def _read(text: str, kind: str) -> Any:
    reader = _READERS.get(kind, str)
    try:
        return reader(text)
    except (ValueError, KeyError) as error:
        raise EmulatorError(
            f"{text!r} is not of type {kind}{_ISO if kind in _TEMPORAL else ''}"
        ) from error


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_ISO = "; write it as ISO-8601"
_TEMPORAL: dict[str, Callable[[str], Any]] = {
    "DateTime": datetime.fromisoformat,
    "DateOnly": date.fromisoformat,
    "Birthday": date.fromisoformat,
    "TimeOnly": time.fromisoformat,
}
_READERS: dict[str, Callable[[str], Any]] = {
    **_TEMPORAL,
    "int": int,
    "double": _finite,
    "boolean": lambda text: {"true": True, "false": False}[text.lower()],
}


def _from_avro(value: Any, kind: Kind) -> Any:
    if value is None or not isinstance(kind, str) or kind not in _TEMPORAL:
        return value
    try:
        moment = _EPOCH + value * _MILLISECOND
    except OverflowError:  # beyond the year 9999, which Python has no date for
        return value
    if kind == "DateTime":
        return moment.isoformat(timespec="milliseconds")
    return moment.time().isoformat() if kind == "TimeOnly" else moment.date().isoformat()
