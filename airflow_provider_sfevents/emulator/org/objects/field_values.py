"""Conversions of field values between clients, records, JSON and CSV.

A record holds values as change events do: text, numbers, booleans, and times as milliseconds. Empty
text is no value, as on the platform.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.avro_types import avro_type
from airflow_provider_sfevents.emulator.bus.payload_codec import milliseconds, to_wire
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import Field

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATES = {"DateOnly", "Birthday"}
_TEMPORAL = {"DateTime", "TimeOnly", *_DATES}
_IDS = {"EntityId", "Lookup"}
_NUMBERS = {"Double", "Currency", "Percent"}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "double": (int, float),
    "int": (int,),
    "long": (int,),
    "boolean": (bool,),
}
_BOUNDS: dict[str, tuple[float, float]] = {
    "int": (-(2**31), 2**31 - 1),
    "long": (
        milliseconds(datetime.min),  # noqa: DTZ901 - taken as UTC
        milliseconds(datetime.max),  # noqa: DTZ901
    ),
    "double": (-sys.float_info.max, sys.float_info.max),
}
"""Least and largest value by Avro type; every time is in Python's calendar."""


def read(value: Any, field: Field) -> Any:
    """Parse a value to its form in a record; None for no value.

    :param value: JSON value, or a `datetime`, `date`, `time` or `Decimal`.
    :raises RecordRefusedError: the value does not fit the field's type.
    """
    if value is None or value == "":
        return None
    avro = avro_type(field.kind)
    try:
        held = to_wire(value, field.kind if field.kind in _TEMPORAL else avro)
    except EmulatorError as error:
        raise _unfit(value, field) from error
    if not _fits(held, avro):
        raise _unfit(value, field)
    if field.kind in _IDS:
        return _long_id(held, field)
    return float(held) if avro == "double" else held


def as_json(held: Any, kind: str) -> Any:
    """Value in REST's JSON; times in the formats of the REST API guide."""
    if held is None or kind not in _TEMPORAL:
        return held
    return _moment(held, kind, zone="+0000")


def as_csv(held: Any, kind: str) -> str:
    """Value in a bulk result; empty for no value."""
    match held:
        case None:
            return ""
        case bool():
            return str(held).lower()
    return _moment(held, kind, zone="Z") if kind in _TEMPORAL else str(held)


def as_iso(held: Any, kind: str) -> Any:
    """Value for the emulator's verbs: times as ISO-8601."""
    if held is None or kind not in _TEMPORAL:
        return held
    at = _EPOCH + timedelta(milliseconds=held)
    if kind == "DateTime":
        return at.isoformat(timespec="milliseconds")
    return at.time().isoformat() if kind == "TimeOnly" else at.date().isoformat()


def is_number(kind: str) -> bool:
    return kind in _NUMBERS or kind == "Integer"


def is_temporal(kind: str) -> bool:
    return kind in _TEMPORAL


def is_date(kind: str) -> bool:
    return kind in _DATES


def _fits(held: Any, avro: str) -> bool:
    is_typed = isinstance(held, _TYPES[avro]) and isinstance(held, bool) == (avro == "boolean")
    least, most = _BOUNDS.get(avro, (held, held))
    return is_typed and bool(least <= held <= most)


def _moment(held: int, kind: str, *, zone: str) -> str:
    at = _EPOCH + timedelta(milliseconds=held)
    if kind == "DateTime":
        return at.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone
    if kind == "TimeOnly":
        return at.time().isoformat(timespec="milliseconds") + "Z"
    return at.date().isoformat()


def _long_id(text: str, field: Field) -> str:
    if not salesforce_ids.is_id(text):
        raise RecordRefusedError(
            "MALFORMED_ID", f"{field.name}: id value of incorrect type: {text}", (field.name,)
        )
    return salesforce_ids.long_id(text[:15])


def _unfit(value: Any, field: Field) -> RecordRefusedError:
    return RecordRefusedError(
        "JSON_PARSER_ERROR",
        f"{field.name}: cannot read {value!r} as a value of type {field.kind}",
        (field.name,),
    )
