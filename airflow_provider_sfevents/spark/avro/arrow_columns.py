"""Convert decoded records to Arrow columns, a whole column at a time. No I/O, no Spark.

Building a column from a list costs a fraction of building rows. A value that a column cannot hold
(a time in the year 58,000) fails the whole column; only then is each record tried alone.
"""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType, Kind

_INSTANT = pa.timestamp("us", tz="UTC")
_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": _INSTANT,
    "time": pa.string(),
    "json": pa.string(),
}

# Years 1 to 9999 in milliseconds: the range of Python, pandas and most SQL engines.
FIRST_INSTANT_MS = -62_135_596_800_000
LAST_INSTANT_MS = 253_402_300_799_999
DAY_MS = 86_400_000


def arrow_type(kind: FieldType) -> pa.DataType:
    if kind.kind == "struct":
        return pa.struct([(name, arrow_type(member)) for name, member in kind.members])
    if kind.item is not None:
        item = arrow_type(kind.item)
        return pa.list_(item) if kind.kind == "array" else pa.map_(pa.string(), item)
    if kind.kind == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW[kind.kind]


def build_columns(
    records: Sequence[dict[str, Any]], columns: Sequence[Column]
) -> tuple[list[pa.Array], list[int], dict[int, str]]:
    """Return an array per column, the indexes of records that fit, and reasons of the others."""
    try:
        return [_column(records, column) for column in columns], list(range(len(records))), {}
    except (ValueError, TypeError, OverflowError):  # pyarrow's errors are of these kinds
        reasons = {
            index: reason
            for index, record in enumerate(records)
            if (reason := _misfit(record, columns))
        }
    fitting = [index for index in range(len(records)) if index not in reasons]
    kept = [records[index] for index in fitting]
    return [_column(kept, column) for column in columns], fitting, reasons


def _misfit(record: dict[str, Any], columns: Sequence[Column]) -> str:
    for column in columns:
        try:
            _column([record], column)
        except (ValueError, TypeError, OverflowError) as error:
            reason = f"field {column.field} does not fit its column of type {column.type.sql()}"
            return f"{reason}: {error}"[:500]
    return ""


def _column(records: Sequence[dict[str, Any]], column: Column) -> pa.Array:
    return _array([record.get(column.field) for record in records], column.type)


def _array(values: list[Any], kind: FieldType) -> pa.Array:
    build = _BUILDERS.get(kind.kind)
    return pa.array(values, arrow_type(kind)) if build is None else build(values, kind)


def instants(millis: pa.Array) -> pa.Array:
    """Timestamps of milliseconds since 1970.

    The numbers must be within `FIRST_INSTANT_MS` and `LAST_INSTANT_MS`.
    """
    return millis.cast(pa.timestamp("ms", tz="UTC")).cast(_INSTANT)


def clock_texts(millis: pa.Array) -> pa.Array:
    """`HH:mm:ss.SSS` of milliseconds since midnight, which must be less than a day."""
    return millis.cast(pa.int32()).cast(pa.time32("ms")).cast(pa.string())


def fitting_decimal(number: float | Decimal, kind: FieldType) -> Decimal:
    """Round a number to a decimal's scale, half to even.

    A double counts as its shortest text, not as the binary fraction behind it.

    :raises ValueError: it has more digits than the decimal, or is not finite.
    """
    digits = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    unit = Decimal(1).scaleb(-kind.scale)
    context = Context(prec=kind.precision, rounding=ROUND_HALF_EVEN, traps=[])
    rounded = digits.quantize(unit, context=context)
    if not rounded.is_finite():
        raise ValueError(f"{number!r} is no finite number that {kind.sql()} can hold")
    return rounded


def _instants(values: list[int | None], _kind: FieldType) -> pa.Array:
    millis = pa.array(values, pa.int64())
    bounds = pc.min_max(millis)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if first is not None and not FIRST_INSTANT_MS <= first <= last <= LAST_INSTANT_MS:
        beyond = first if first < FIRST_INSTANT_MS else last
        raise ValueError(f"{beyond} ms since 1970 is not in the years 1 to 9999")
    return instants(millis)


def _dates(values: list[int | None], kind: FieldType) -> pa.Array:
    return _instants(values, kind).cast(pa.date32())


def _times(values: list[int | None], _kind: FieldType) -> pa.Array:
    for value in values:
        if value is not None and not 0 <= value < DAY_MS:
            raise ValueError(f"{value} ms is not a time of day")
    return clock_texts(pa.array(values, pa.int64()))


def _decimals(values: list[float | None], kind: FieldType) -> pa.Array:
    found = [None if value is None else fitting_decimal(value, kind) for value in values]
    return pa.array(found, arrow_type(kind))


def _texts_of_json(values: list[Any], _kind: FieldType) -> pa.Array:
    texts = [None if value is None else json.dumps(value, default=repr) for value in values]
    return pa.array(texts, pa.string())


def _structs(values: list[Any], kind: FieldType) -> pa.Array:
    if kind.text_member:
        values = [
            {kind.text_member: value} if isinstance(value, str) else value for value in values
        ]
    members = [
        _array([None if value is None else value.get(name) for value in values], member)
        for name, member in kind.members
    ]
    fields = [pa.field(name, arrow_type(member)) for name, member in kind.members]
    return pa.StructArray.from_arrays(
        members, fields=fields, mask=pa.array([value is None for value in values], pa.bool_())
    )


def _nested(values: list[Any], kind: FieldType) -> pa.Array:
    """Arrays and maps: all items are one column, which is cut by offsets."""
    assert kind.item is not None  # noqa: S101 - for the type checker
    offsets: list[int | None] = []
    keys: list[str] = []
    items: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(items))
        keys += value if isinstance(value, dict) else ()
        items += value.values() if isinstance(value, dict) else value or ()
    offsets.append(len(items))
    inner = _array(items, kind.item)
    at = pa.array(offsets, pa.int32())
    return (
        pa.ListArray.from_arrays(at, inner)
        if kind.kind == "array"
        else pa.MapArray.from_arrays(at, pa.array(keys, pa.string()), inner)
    )


# Kinds that are converted; Arrow takes the values of all others as fastavro returns them.
_BUILDERS: dict[Kind, Callable[[list[Any], FieldType], pa.Array]] = {
    "timestamp": _instants,
    "date": _dates,
    "time": _times,
    "decimal": _decimals,
    "json": _texts_of_json,
    "struct": _structs,
    "array": _nested,
    "map": _nested,
}
