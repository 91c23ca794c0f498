"""Selection of records by a query: filter, order and columns. Pure.

Rules, from the SOQL guide: text is compared case-insensitively; a field without a value is found by
`= null`, `!=` and `NOT IN` only; ids compare in both lengths; records without a value sort first by
default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.payload_codec import to_wire
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org.objects import field_values
from airflow_provider_sfevents.emulator.org.objects.object_definitions import (
    PERSON_NAMES,
    DeclaredField,
)
from airflow_provider_sfevents.emulator.org.queries.soql import (
    Condition,
    Query,
    SoqlComparison,
    SoqlLiteral,
    SortKey,
)
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError
from airflow_provider_sfevents.emulator.org.records import record_views, text_diffs

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject
    from airflow_provider_sfevents.emulator.org.records.record_edits import Record
    from airflow_provider_sfevents.emulator.org.records.record_views import Column

Test = Callable[["Record"], bool]
_NOT_FILTERED = (*text_diffs.KINDS, "EncryptedText")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda one, two: one < two,
    ">": lambda one, two: one > two,
    "<=": lambda one, two: one <= two,
    ">=": lambda one, two: one >= two,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Result of a query.

    :param columns: selected columns; none for a count.
    """

    sobject: SObject
    columns: tuple[Column, ...]
    records: tuple[Record, ...]


def select(
    query: Query, sobject: SObject, records: Sequence[Record], *, deleted: bool
) -> QueryResult:
    """Run a query.

    :param records: all records of the object.
    :param deleted: include records in the recycle bin.
    :raises RecordRefusedError: unknown field, or a comparison that it does not support.
    """
    columns = _columns(query, sobject)
    test = _test(query.where, sobject) if query.where else None
    kept = [
        one
        for one in records
        if (deleted or one.deleted_at is None) and (test is None or test(one))
    ]
    for key in reversed(query.order):
        kept = _sorted(kept, key, _filterable(sobject, key.field))
    end = None if query.limit is None else query.offset + query.limit
    return QueryResult(sobject=sobject, columns=columns, records=tuple(kept[query.offset : end]))


def _columns(query: Query, sobject: SObject) -> tuple[Column, ...]:
    if query.every:
        return tuple(record_views.every_column(sobject))
    lower = [name.lower() for name in query.fields]
    for name in query.fields:
        if lower.count(name.lower()) > 1:
            raise RecordRefusedError("INVALID_FIELD", f"duplicate field selected: {name}")
    return tuple(_column(sobject, name) for name in query.fields)


def _column(sobject: SObject, name: str) -> Column:
    """Column by its name, with or without the object's name: `Account.Name`."""
    own, _, rest = name.partition(".")
    try:
        return sobject.find(rest if own.lower() == sobject.name.lower() and rest else name)
    except RecordRefusedError as error:
        raise RecordRefusedError(
            "INVALID_FIELD",
            f"\nNo such column '{name}' on entity '{sobject.name}'. If you are attempting to use a "
            "custom field, be sure to "
            "append the '__c' after the custom field name. Please reference your WSDL or the "
            "describe call for the "
            "appropriate names.",
        ) from error


def _filterable(sobject: SObject, name: str) -> Column:
    column = _column(sobject, name)
    is_compound = isinstance(column, DeclaredField) and column.kind not in PERSON_NAMES
    if is_compound or (not isinstance(column, DeclaredField) and column.kind in _NOT_FILTERED):
        raise RecordRefusedError(
            "INVALID_FIELD", f"field '{column.name}' can not be filtered in a query call"
        )
    return column


def _test(condition: Condition, sobject: SObject) -> Test:
    if isinstance(condition, SoqlComparison):
        return _comparison(condition, sobject)
    parts = [_test(part, sobject) for part in condition.parts]
    return partial(_combined, condition.how, parts)


def _combined(how: str, parts: list[Test], record: Record) -> bool:
    outcomes = (part(record) for part in parts)
    match how:
        case "AND":
            return all(outcomes)
        case "OR":
            return any(outcomes)
    return not next(outcomes)


def _comparison(asked: SoqlComparison, sobject: SObject) -> Test:
    column = _filterable(sobject, asked.field)
    kind = record_views.kind_of(column)
    if asked.operator == "LIKE" and _spelt(kind) != "string":
        raise RecordRefusedError("INVALID_FIELD", f"invalid operator on {_spelt(kind)} field")
    wanted = [_operand(one, column.name, kind) for one in asked.values]
    match asked.operator:
        case "=" | "IN":
            return lambda record: _key(record_views.raw(record, column)) in wanted
        case "!=" | "NOT IN":
            return lambda record: _key(record_views.raw(record, column)) not in wanted
        case "LIKE":
            pattern = _like(wanted[0])
            return lambda record: bool(
                pattern.fullmatch(_key(record_views.raw(record, column)) or "")
            )
    compare = _COMPARE[asked.operator]
    [limit] = wanted
    return lambda record: _ordered(compare, _key(record_views.raw(record, column)), limit)


def _ordered(compare: Callable[[Any, Any], bool], held: Any, limit: Any) -> bool:
    return held is not None and limit is not None and compare(held, limit)


def _operand(one: SoqlLiteral, name: str, kind: str) -> Any:
    """Value to compare, of the field's type.

    :raises RecordRefusedError: the query writes it as another type.
    """
    if one.value is None:
        return None
    as_written = {
        "number": field_values.is_number(kind),
        "moment": field_values.is_temporal(kind)
        and field_values.is_date(kind) == ("T" not in str(one.value)),
        "word": kind == "Boolean",
        "text": not field_values.is_number(kind)
        and not field_values.is_temporal(kind)
        and kind != "Boolean",
    }
    if not as_written[one.kind]:
        raise RecordRefusedError(
            "INVALID_FIELD",
            f"value of filter criterion for field '{name}' must be of type {_spelt(kind)} and "
            "should "
            f"{'' if _spelt(kind) == 'string' else 'not '}be enclosed in quotes",
        )
    if one.kind != "moment":
        return _key(_long(one.value) if kind in {"EntityId", "Lookup"} else one.value)
    try:
        return to_wire(one.value, kind)
    except EmulatorError as error:
        raise RecordRefusedError("MALFORMED_QUERY", f"invalid date: {one.value}") from error


def _spelt(kind: str) -> str:
    if field_values.is_temporal(kind):
        return "date" if field_values.is_date(kind) else "dateTime"
    if field_values.is_number(kind):
        return "int" if kind == "Integer" else "double"
    return "boolean" if kind == "Boolean" else "string"


def _long(text: str) -> str:
    return salesforce_ids.long_id(text[:15]) if salesforce_ids.is_id(text) else text


def _key(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _like(pattern: Any) -> re.Pattern[str]:
    """Regular expression of a LIKE pattern: `%` for any text, `_` for one character."""
    signs = {"%": ".*", "_": "."}
    return re.compile("".join(signs.get(c, re.escape(c)) for c in str(pattern)), re.DOTALL)


def _sorted(records: list[Record], key: SortKey, column: Column) -> list[Record]:
    with_value = [one for one in records if record_views.raw(one, column) is not None]
    without = [one for one in records if record_views.raw(one, column) is None]
    with_value.sort(key=lambda one: _key(record_views.raw(one, column)), reverse=key.descending)
    return [*with_value, *without] if key.nulls_last else [*without, *with_value]
