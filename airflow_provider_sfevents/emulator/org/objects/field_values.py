"""One field's value: as a client writes it, as a record holds it, as JSON and CSV show it.

A record holds what a change event would: text, numbers, booleans, and times as milliseconds. An empty text is no value,
as on the platform.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.avro_types import avro_type
from airflow_provider_sfevents.emulator.bus.payload_codec import to_wire
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
_LARGEST_INT = 2**31 - 1


def read(value: Any, field: Field) -> Any:
    """Value as a record holds it; None for no value.

    :param value: as JSON has it, or a `datetime`, `date`, `time` or `Decimal`.
    :raises RecordRefusedError: when it is none of the field's type.
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
    """Value as REST shows it; times in the formats of the REST API guide."""
    if held is None or kind not in _TEMPORAL:
        return held
    return _moment(held, kind, zone="+0000")


def as_csv(held: Any, kind: str) -> str:
    """Value as a bulk result shows it; nothing for no value."""
    match held:
        case None:
            return ""
        case bool():
            return str(held).lower()
    return _moment(held, kind, zone="Z") if kind in _TEMPORAL else str(held)


def as_iso(held: Any, kind: str) -> Any:
    """Value as the emulator's own verbs show it: times in ISO-8601."""
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
    if not isinstance(held, _TYPES[avro]) or isinstance(held, bool) != (avro == "boolean"):
        return False
    return avro != "int" or abs(int(str(held))) <= _LARGEST_INT


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
