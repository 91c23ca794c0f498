"""Convert Arrow columns of an accelerator to the columns of a table. No I/O, no Spark.

Everything here works on whole columns. A value that its column cannot hold makes its row
*doubtful*. The reference decoder decodes doubtful rows again, and finds their values or reasons. A
doubtful row may have any values here.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_sfevents.spark.avro.arrow_columns import (
    DAY_MS,
    FIRST_INSTANT_MS,
    LAST_INSTANT_MS,
    arrow_type,
    clock_texts,
    fitting_decimal,
    instants,
)
from airflow_provider_sfevents.spark.avro.decode import BITMAPS, HEADER, parsed
from airflow_provider_sfevents.spark.schema.field_types import record_fields
from airflow_provider_sfevents.staging.payload_bounds import has_items_without_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_sfevents.spark.schema.field_types import Column, Fields, FieldType

_WHOLE = frozenset({"int", "long"})
_NUMBERS = _WHOLE | {"double"}
# Kinds that a column of each kind can be made from, beside its own.
_FROM: Mapping[str, frozenset[str]] = {
    "long": frozenset({"int"}),
    "double": _WHOLE,
    "decimal": _NUMBERS,
}
_AS_IT_IS = frozenset({"boolean", "int", "long", "double", "string", "date", "timestamp", "time"})
_EXACT_IN_DOUBLE = 2**53


def left_to_reference(schema_json: str, columns: Sequence[Column]) -> str:
    """Return why the reference decodes events of a schema; empty if it does not have to.

    :param columns: of the event type, as this schema fills them.
    """
    if has_items_without_bytes(parsed(schema_json)):
        return "a list of the schema has items that take no bytes"
    return unfit(record_fields(json.loads(schema_json)), columns)


def unfit(fields: Fields, columns: Sequence[Column]) -> str:
    """Name the first column that cannot be made here, and the reason; empty if all can.

    :param fields: the schema's own.
    """
    found = dict(fields)
    for column in columns:
        own = found.get(column.field)
        if own is not None and not _fits(own, column.type):
            return (
                f"field {column.field} ({own.sql()}) needs the reference decoder to become "
                f"{column.type.sql()}"
            )
    return ""


def _fits(own: FieldType, wanted: FieldType) -> bool:
    if wanted.kind == "struct":
        if own.kind == "string":
            return bool(wanted.text_member)
        members = dict(own.members)
        return (
            own.kind == "struct"
            and (not own.text_member or own.text_member == wanted.text_member)
            and all(
                _fits(members[name], member) for name, member in wanted.members if name in members
            )
        )
    if wanted.item is not None:
        return own == wanted and wanted.kind == "array" and wanted.item.kind == "string"
    return own.kind in _FROM.get(wanted.kind, ()) or (
        own.kind == wanted.kind and own.kind in _AS_IT_IS
    )


class Conversion:
    """Conversion of one batch of decoded payloads to the table's columns.

    :param names: makes field names of the elements of one bitmap list; may raise ValueError.
    """

    def __init__(
        self, batch: pa.RecordBatch, names: Callable[[tuple[str, ...]], tuple[str, ...]]
    ) -> None:
        self._batch = batch
        self._names = names
        self._rows = batch.num_rows
        self._doubts: list[pa.BooleanArray] = []

    def columns(self, columns: Sequence[Column]) -> list[pa.Array]:
        return [self._column(column) for column in columns]

    def times(self) -> pa.Array:
        """Time of each event, as the reference reads it."""
        header = self._top(HEADER)
        if header is None or not pa.types.is_struct(header.type):
            return _readable(self._top("CreatedDate"), self._rows)
        members = _members(header)
        committed = _readable(members.get("commitTimestamp"), self._rows)
        if not header.null_count:
            return committed
        created = _readable(self._top("CreatedDate"), self._rows)
        return pc.if_else(header.is_valid(), committed, created)

    def doubtful(self) -> pa.BooleanArray | None:
        """Return which rows of the columns made so far are doubtful; None if none is."""
        return reduce(pc.or_, self._doubts) if self._doubts else None

    def _top(self, name: str) -> pa.Array | None:
        at = self._batch.schema.get_field_index(name)
        return self._batch.column(at) if at >= 0 else None

    def _column(self, column: Column) -> pa.Array:
        values = self._top(column.field)
        if values is None:
            return pa.nulls(self._rows, arrow_type(column.type))
        if column.field == HEADER and pa.types.is_struct(values.type):
            members = _members(values)
            named = {
                name: self._named(self._lists(members[name])) for name in BITMAPS if name in members
            }
            return self._struct({**members, **named}, values.is_null(), column.type)
        return self._converted(values, column.type)

    def _converted(self, values: pa.Array, kind: FieldType) -> pa.Array:
        make = self._MAKERS.get(kind.kind, Conversion._plain)
        return make(self, values, kind)

    def _plain(self, values: pa.Array, kind: FieldType) -> pa.Array:
        return values.cast(arrow_type(kind))

    def _timestamps(self, values: pa.Array, _kind: FieldType) -> pa.Array:
        return instants(self._within(values, FIRST_INSTANT_MS, LAST_INSTANT_MS))

    def _dates(self, values: pa.Array, kind: FieldType) -> pa.Array:
        return self._timestamps(values, kind).cast(pa.date32())

    def _clocks(self, values: pa.Array, _kind: FieldType) -> pa.Array:
        return clock_texts(self._within(values, 0, DAY_MS - 1))

    def _doubles(self, values: pa.Array, _kind: FieldType) -> pa.Array:
        if pa.types.is_integer(values.type):
            values = self._within(values, -_EXACT_IN_DOUBLE, _EXACT_IN_DOUBLE)
        return values.cast(pa.float64())

    def _compound(self, values: pa.Array, kind: FieldType) -> pa.Array:
        if pa.types.is_string(values.type):
            return self._struct({kind.text_member: values}, values.is_null(), kind)
        if not pa.types.is_union(values.type):
            return self._struct(_members(values), values.is_null(), kind)
        codes = values.type_codes
        branches = {code: values.field(index) for index, code in enumerate(values.type.type_codes)}
        ((text_code, text),) = _branches(branches, pa.types.is_string)
        ((record_code, record),) = _branches(branches, pa.types.is_struct)
        is_text, is_record = pc.equal(codes, text_code), pc.equal(codes, record_code)
        members = _members_where(record, is_record)
        members[kind.text_member] = pc.if_else(is_text, text, pa.scalar(None, text.type))
        return self._struct(members, pc.invert(pc.or_(is_text, is_record)), kind)

    def _struct(
        self, members: Mapping[str, pa.Array], empty: pa.BooleanArray, kind: FieldType
    ) -> pa.Array:
        made = [
            self._converted(members[name], member)
            if name in members
            else pa.nulls(self._rows, arrow_type(member))
            for name, member in kind.members
        ]
        fields = [pa.field(name, arrow_type(member)) for name, member in kind.members]
        return pa.StructArray.from_arrays(made, fields=fields, mask=empty)

    def _within(self, numbers: pa.Array, first: int, last: int) -> pa.Array:
        """Return the numbers as int64; a row with one outside of the bounds becomes doubtful."""
        numbers = numbers.cast(pa.int64())
        bounds = pc.min_max(numbers)
        lowest = bounds["min"].as_py()
        if lowest is None or first <= lowest <= bounds["max"].as_py() <= last:
            return numbers
        beyond = pc.or_(pc.less(numbers, first), pc.greater(numbers, last)).fill_null(False)
        self._doubts.append(beyond)
        return pc.if_else(beyond, pa.scalar(None, pa.int64()), numbers)

    def _decimals(self, numbers: pa.Array, kind: FieldType) -> pa.Array:
        found: list[Any] = []
        doubts: list[bool] = []
        for number in numbers.to_pylist():
            try:
                found.append(None if number is None else fitting_decimal(number, kind))
                doubts.append(False)
            except ValueError:
                found.append(None)
                doubts.append(True)
        if any(doubts):
            self._doubts.append(pa.array(doubts))
        return pa.array(found, arrow_type(kind))

    def _texts(self, values: pa.Array, _kind: FieldType) -> pa.Array:
        """Return the texts; a row with one that is not UTF-8 becomes doubtful."""
        texts = values.cast(pa.string())
        if _is_utf8(texts):
            return texts
        broken = pa.array(_broken(texts), pa.bool_())
        self._doubts.append(broken)
        return pc.if_else(broken, pa.scalar(None, pa.string()), texts)

    def _lists(self, lists: pa.Array, _kind: FieldType | None = None) -> pa.Array:
        if _is_utf8(lists.flatten()):
            return lists
        rows = pc.list_parent_indices(lists).filter(pa.array(_broken(lists.flatten()), pa.bool_()))
        broken = _among(rows, len(lists))
        self._doubts.append(broken)
        return pc.if_else(broken, pa.scalar(None, lists.type), lists)

    def _named(self, lists: pa.Array) -> pa.Array:
        """Return field names in place of bitmaps.

        Few combinations make up most changes, so each is decoded once.
        """
        elements = lists.flatten()
        if not len(elements):
            return lists
        # No bitmap has a comma or is empty; the reference refuses lists with such an element.
        combinations = pc.binary_join(lists, ",").dictionary_encode()
        named: list[tuple[str, ...] | None] = []
        bad: list[int] = []
        for index, joined in enumerate(combinations.dictionary.to_pylist()):
            try:
                named.append(self._names(tuple(joined.split(",")) if joined else ()))
            except ValueError:
                named.append(None)
                bad.append(index)
        if bad:
            self._doubts.append(
                pc.is_in(combinations.indices, pa.array(bad, combinations.indices.type))
            )
        odd = _is_odd(elements)
        if pc.any(odd).as_py():
            self._doubts.append(_among(pc.list_parent_indices(lists).filter(odd), len(lists)))
        return pa.array(named, pa.list_(pa.string())).take(combinations.indices)

    _MAKERS: ClassVar[Mapping[str, Callable[[Conversion, pa.Array, FieldType], pa.Array]]] = {
        "struct": _compound,
        "timestamp": _timestamps,
        "date": _dates,
        "time": _clocks,
        "decimal": _decimals,
        "double": _doubles,
        "string": _texts,
        "array": _lists,
    }


def _is_odd(elements: pa.Array) -> pa.BooleanArray:
    return pc.or_(pc.match_substring(elements, ","), pc.equal(pc.binary_length(elements), 0))


def _among(rows: pa.Array, count: int) -> pa.BooleanArray:
    return pc.is_in(pa.array(range(count), rows.type), rows)


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _broken(texts: pa.Array) -> list[bool]:
    """Return which texts are not UTF-8. They are few, so that halving finds them soon."""
    found = [False] * len(texts)
    pieces = [range(len(texts))]
    while pieces:
        piece = pieces.pop()
        if _is_utf8(texts[piece.start : piece.stop]):
            continue
        if len(piece) == 1:
            found[piece.start] = True
        else:
            half = len(piece) // 2
            pieces += [piece[:half], piece[half:]]
    return found


def _members(values: pa.StructArray) -> dict[str, pa.Array]:
    return {field.name: values.field(index) for index, field in enumerate(values.type)}


def _members_where(values: pa.StructArray, chosen: pa.BooleanArray) -> dict[str, pa.Array]:
    """Members by name, null in the rows that are not chosen."""
    fields = list(values.type)
    masked = pa.StructArray.from_arrays(
        [values.field(index) for index in range(len(fields))], fields=fields, mask=pc.invert(chosen)
    )
    return {field.name: member for field, member in zip(fields, masked.flatten(), strict=True)}


def _branches(
    branches: Mapping[int, pa.Array], is_kind: Callable[[pa.DataType], bool]
) -> list[tuple[int, pa.Array]]:
    return [(code, values) for code, values in branches.items() if is_kind(values.type)]


def _readable(values: pa.Array | None, rows: int) -> pa.Array:
    if values is None or not pa.types.is_integer(values.type):
        return pa.nulls(rows, pa.int64())
    millis = values.cast(pa.int64())
    readable = pc.and_(
        pc.greater_equal(millis, FIRST_INSTANT_MS), pc.less_equal(millis, LAST_INSTANT_MS)
    )
    return pc.if_else(readable, millis, pa.scalar(None, pa.int64()))
