"""Filter expressions of channel members. Pure.

The grammar, from Salesforce's guide to filtering custom channels: a SOQL condition without WHERE;
text with `= != IN NOT IN LIKE`, numbers with `= != < <= > >=`, booleans and times with `= !=`,
lookups and picklists with `= != IN NOT IN`; `AND`, `OR`, brackets, `null`, `LOWER()`; of a compound
only its members, with a dot. Text comparison is case-sensitive, unlike in SOQL, because LOWER()
would be useless otherwise. That is an assumption.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus import field_bitmaps
from airflow_provider_sfevents.emulator.bus.payload_codec import milliseconds, to_wire
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org.objects import field_values
from airflow_provider_sfevents.emulator.org.queries import soql
from airflow_provider_sfevents.emulator.org.queries.soql import (
    CombinedCondition,
    SoqlComparison,
    SoqlLiteral,
)
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError
from airflow_provider_sfevents.emulator.org.records import text_diffs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_sfevents.emulator.org.queries.soql import Condition

Schema = dict[str, Any]
_EQUAL = frozenset({"=", "!="})
_AMONG = _EQUAL | {"IN", "NOT IN"}
_ORDERED = _EQUAL | {"<", "<=", ">", ">="}
_CHOSEN = {"EntityId", "DynamicEnum", "StaticEnum", "MultiEnum"}
_DAYS = re.compile(r"(LAST|NEXT)_N_DAYS:(\d+)")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ChannelFilter:
    """A filter that was checked against its event's schema.

    :param kinds: types of the compared fields, by path.
    """

    condition: Condition
    kinds: Mapping[str, str]

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that it compares, with compounds by their own names.

        The channel adds these fields to updates and deletions.
        """
        return tuple(dict.fromkeys(path.partition(".")[0] for path in self.kinds))

    def lets_through(self, record: Mapping[str, Any], now: datetime) -> bool:
        """True if an event passes.

        :param record: fields of the payload as on the wire.
        :param now: aware time that `TODAY` refers to.
        """
        return self._holds(self.condition, record, now)

    def _holds(self, condition: Condition, record: Mapping[str, Any], now: datetime) -> bool:
        if isinstance(condition, SoqlComparison):
            held = _value(record, condition.field)
            return _compare(condition, held, self.kinds[condition.field], now)
        outcomes = (self._holds(part, record, now) for part in condition.parts)
        return all(outcomes) if condition.how == "AND" else any(outcomes)


def read(text: str, schema: Schema) -> ChannelFilter:
    """Parse a filter and check it against the schema of its events.

    :raises RecordRefusedError: invalid filter, or not applicable to these events.
    """
    kinds = kinds_of(schema)
    condition = _checked(soql.parse_filter(text), schema["name"], kinds)
    return ChannelFilter(condition, {path: kinds[path] for path in _paths(condition)})


def kinds_of(schema: Schema) -> dict[str, str]:
    """Types of the comparable fields, by path: `Phone`, `BillingAddress.City`."""
    inside = field_bitmaps.compounds(schema)
    found: dict[str, str] = {}
    for at, field in enumerate(schema["fields"]):
        members = inside.get(at, {"fields": []})["fields"]
        found |= {f"{field['name']}.{member['name']}": _kind(member) for member in members}
        if at not in inside and field["name"] != "ChangeEventHeader":
            found[field["name"]] = _kind(field)
    return found


def _kind(field: Schema) -> str:
    return next(iter(str(field.get("doc", "")).split(":")[1:2]), "Text")


def _checked(condition: Condition, entity: str, kinds: Mapping[str, str]) -> Condition:
    """Copy of a condition with the schema's spelling of the fields."""
    if isinstance(condition, CombinedCondition):
        if condition.how == "NOT":
            raise _refused("NOT is not supported in a filter; use != or NOT IN")
        parts = tuple(_checked(part, entity, kinds) for part in condition.parts)
        return CombinedCondition(condition.how, parts)
    exact = {path.lower(): path for path in kinds}.get(condition.field.lower())
    if exact is None:
        raise _refused(f"{entity} has no field {condition.field!r} that can be compared")
    kind = kinds[exact]
    if condition.operator not in _operators(exact, kind):
        raise _refused(f"{condition.operator} cannot be used with {exact}, a field of type {kind}")
    if condition.lower and (kind in _CHOSEN or not _is_text(kind)):
        raise _refused(f"LOWER() is for text; {exact} is of type {kind}")
    for one in condition.values:
        _check_value(one, exact, kind)
    return replace(condition, field=exact)


def _operators(path: str, kind: str) -> frozenset[str]:
    if field_values.is_number(kind):
        return _ORDERED
    if kind in _CHOSEN:
        return _AMONG
    if not _is_text(kind):
        return _EQUAL
    # A long text may be sent as a diff, which cannot be compared.
    is_long = kind in text_diffs.KINDS and "." not in path
    return frozenset() if is_long else _AMONG | {"LIKE"}


def _is_text(kind: str) -> bool:
    return (
        not field_values.is_number(kind)
        and not field_values.is_temporal(kind)
        and kind != "Boolean"
    )


def _check_value(one: SoqlLiteral, path: str, kind: str) -> None:
    if one.value is None:
        return
    fits = {
        "number": field_values.is_number(kind),
        "moment": field_values.is_temporal(kind)
        and field_values.is_date(kind) == ("T" not in str(one.value)),
        "named": field_values.is_temporal(kind) and kind != "TimeOnly",
        "word": kind == "Boolean",
        "text": _is_text(kind),
    }
    if not fits[one.kind]:
        raise _refused(f"{one.value!r} is not a value for {path}, a field of type {kind}")
    if one.kind == "named":
        _days(str(one.value), datetime.now(UTC))
    if one.kind == "moment":
        _moment(str(one.value), kind)


def _paths(condition: Condition) -> Iterator[str]:
    if isinstance(condition, SoqlComparison):
        yield condition.field
    else:
        for part in condition.parts:
            yield from _paths(part)


def _value(record: Mapping[str, Any], path: str) -> Any:
    name, _, member = path.partition(".")
    held = record.get(name)
    if not member:
        return held
    return held.get(member) if isinstance(held, dict) else None


def _compare(asked: SoqlComparison, held: Any, kind: str, now: datetime) -> bool:
    if asked.lower and held is not None:
        held = held.lower()
    equal = any(_equal(one, held, kind, now) for one in asked.values)
    match asked.operator:
        case "=" | "IN":
            return equal
        case "!=" | "NOT IN":
            return not equal
        case "LIKE":
            return held is not None and bool(_like(str(asked.values[0].value)).fullmatch(held))
    limit = asked.values[0].value
    return held is not None and limit is not None and bool(_ORDER[asked.operator](held, limit))


def _equal(one: SoqlLiteral, held: Any, kind: str, now: datetime) -> bool:
    if one.value is None or held is None:
        return one.value is held
    match one.kind:
        case "named":
            first, end = _days(str(one.value), now)
            return bool(first <= held < end)
        case "moment":
            return bool(held == _moment(str(one.value), kind))
    return bool(_id(held) == _id(one.value) if kind == "EntityId" else held == one.value)


_ORDER = {
    "<": lambda one, two: one < two,
    "<=": lambda one, two: one <= two,
    ">": lambda one, two: one > two,
    ">=": lambda one, two: one >= two,
}


def _id(text: Any) -> str:
    return salesforce_ids.long_id(str(text)[:15]) if salesforce_ids.is_id(str(text)) else str(text)


def _like(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("%")), re.DOTALL)


def _moment(text: str, kind: str) -> Any:
    try:
        return to_wire(text, kind)
    except EmulatorError as error:
        raise _refused(f"invalid date: {text}") from error


def _days(name: str, now: datetime) -> tuple[int, int]:
    """Start of the first day and of the day after the last one, in UTC milliseconds."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    starts = {"YESTERDAY": -1, "TODAY": 0, "TOMORROW": 1}
    if name in starts:
        first = today + starts[name] * _DAY
        return milliseconds(first), milliseconds(first + _DAY)
    found = _DAYS.fullmatch(name)
    if found is None:
        raise _refused(f"{name} names no days that the emulator knows")
    try:
        count = int(found[2]) * _DAY
        if found[1] == "LAST":
            return milliseconds(today - count), milliseconds(today + _DAY)
        return milliseconds(today + _DAY), milliseconds(today + _DAY + count)
    except (OverflowError, ValueError) as error:
        raise _refused(f"{name} leaves the calendar") from error


def _refused(why: str) -> RecordRefusedError:
    return RecordRefusedError("INVALID_INPUT", f"The filter expression is not valid: {why}")
