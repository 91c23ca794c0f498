"""Decoding by Spark's own `from_avro`, to the columns and values the reference gives.

`from_avro` takes bytes that are left over for nothing, and in its permissive mode makes nulls of a payload it cannot read. So each
row has to prove itself, as with the accelerator: encoded again by `to_avro` it has to give the payload's very bytes, its text has to
be UTF-8, and each value has to fit its column. Rows that do not are handed to an executor's Python, which decides.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark import envelope
from airflow_provider_sfevents.spark.columns import DAY_MS, FIRST_INSTANT_MS, LAST_INSTANT_MS
from airflow_provider_sfevents.spark.decode import BITMAPS, HEADER, bitmap_layout
from airflow_provider_sfevents.spark.decoders import bitmap_sql, conversion
from airflow_provider_sfevents.spark.fieldtypes import quoted, without_logical_types
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from airflow_provider_sfevents.spark.fieldtypes import Column, FieldType

_RECORD = "decoded_record"
_NAMES = "names_of_bitmaps"
_EXACT_IN_DOUBLE = 2**53


def unfit(schema_json: str, columns: Sequence[Column]) -> str:
    """Why `from_avro` cannot make these columns of a schema's events; empty where it can."""
    if any(_has_decimal(column.type) for column in columns):
        return "Java spells some doubles otherwise than with the fewest digits, which decimals are made from"
    return conversion.left_to_reference(schema_json, columns)


def _has_decimal(kind: FieldType) -> bool:
    return kind.kind == "decimal" or any(_has_decimal(member) for _, member in kind.members)


class FromAvro:
    """Rows of one schema, decoded by Spark.

    Its expressions are made as SQL text: one that is made of Spark's column objects takes a call to Java for each of its parts, and
    a schema has a thousand of these.

    :param rows: staged rows written with that schema.
    :param columns: those of their event type, for this schema (`unfit` is empty).
    """

    def __init__(self, rows: DataFrame, schema_json: str, columns: Sequence[Column]) -> None:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.avro.functions import from_avro, to_avro

        avro = without_logical_types(json.loads(schema_json))
        text = json.dumps(avro)
        record = from_avro(F.col(layout.PAYLOAD), text, {"mode": "PERMISSIVE"})
        # Through a generator: below it a filter is not pushed, which would decode each payload twice.
        decoded = rows.select("*", F.explode(F.array(record)).alias(_RECORD))
        self._layout = bitmap_layout(schema_json)
        self._types: Mapping[str, DataType] = {
            field.name: field.dataType for field in decoded.schema[_RECORD].dataType.fields
        }
        self._bitmaps: dict[str, str] = {}
        self._doubts: list[str] = []
        self._all_texts: list[str] = []
        self._values = [f"{self._column(column)} AS {quoted(column.name)}" for column in columns]
        if self._bitmaps:
            # As above: what is looked at and then taken is made once.
            names = ", ".join(f"{made} AS {quoted(name)}" for name, made in self._bitmaps.items())
            decoded = decoded.selectExpr("*", f"explode(array(struct({names}))) AS {_NAMES}")
        self._rows = decoded
        again = to_avro(F.col(_RECORD), text)
        required = [
            field["name"] for field in avro["fields"] if not isinstance(field["type"], list)
        ]
        if required:
            # What cannot be read is all null, which cannot be encoded either.
            again = F.when(F.expr(f"{_RECORD}.{quoted(required[0])} IS NOT NULL"), again)
        same = again.eqNullSafe(F.col(layout.PAYLOAD))
        if self._all_texts:
            # One look at all of them: each by itself makes so much code that Java takes seconds of each landing to optimise it. Between two
            # texts a space: half a character at the end of one does not become whole with the beginning of the next.
            self._doubts.append(f"NOT is_valid_utf8(concat_ws(' ', {', '.join(self._all_texts)}))")
        doubtful = " OR ".join(["false", *self._doubts])
        self._sure = same & F.expr(f"NOT coalesce({doubtful}, false)")

    def sure(self, first_ordinals: Sequence[int], *, keep_payload: bool) -> DataFrame:
        """The rows that have proved themselves, as `executor.decoded` gives them."""
        raw = [f"{layout.PAYLOAD} AS {envelope.RAW_PAYLOAD}"] if keep_payload else []
        return self._rows.where(self._sure).selectExpr(
            *self._leading(first_ordinals), *self._values, *raw
        )

    def doubtful(self) -> DataFrame:
        """The other rows, as they were staged."""
        return self._rows.where(~self._sure).drop(_RECORD, _NAMES)

    def _leading(self, first_ordinals: Sequence[int]) -> list[str]:
        millis = self._time()
        return [
            f"{layout.EVENT_ID} AS {envelope.EVENT_ID}",
            f"timestamp_millis({millis}) AS {envelope.EVENT_TIME}",
            f"{layout.RECEIVED_AT} AS {envelope.RECEIVED_AT}",
            f"{layout.REPLAY_ID} AS {envelope.REPLAY_ID}",
            f"{layout.SCHEMA_ID} AS {envelope.SCHEMA_ID}",
            f"{layout.ORDINAL} AS {envelope.ORDINAL}",
            f"{_date(f'coalesce({millis}, unix_millis({layout.RECEIVED_AT}))')} AS {envelope.EVENT_DATE}",
            f"{split_sql(layout.ORDINAL, first_ordinals)} AS {envelope.SPLIT}",
        ]

    def _time(self) -> str:
        """Milliseconds since 1970 of the event, as the reference reads them."""
        created = _readable(_RECORD, self._types, "CreatedDate")
        header = self._types.get(HEADER)
        if header is None or header.typeName() != "struct":
            return created
        members = {field.name: field.dataType for field in _fields(header)}
        committed = _readable(f"{_RECORD}.{HEADER}", members, "commitTimestamp")
        return f"CASE WHEN {_RECORD}.{HEADER} IS NOT NULL THEN {committed} ELSE {created} END"

    def _column(self, column: Column) -> str:
        if column.field not in self._types:
            return _null(column.type)
        value = f"{_RECORD}.{quoted(column.field)}"
        found = self._types[column.field]
        if column.field == HEADER and found.typeName() == "struct":
            return self._struct(_members(value, found), value, column.type, self._named)
        return self._converted(value, found, column.type)

    def _named(self, name: str, elements: str) -> str:
        """Field names in place of the bitmaps of a list; a name for what is made of them, once (`_bitmaps`)."""
        self._bitmaps[name] = bitmap_sql.field_names(self._text(elements), self._layout)
        names = f"{_NAMES}.{quoted(name)}"
        self._doubts.append(bitmap_sql.has_unknown(names))
        return names

    def _converted(self, value: str, found: DataType, kind: FieldType) -> str:
        match kind.kind:
            case "struct":
                made = self._compound(value, found, kind)
            case "timestamp":
                millis = self._within(value, FIRST_INSTANT_MS, LAST_INSTANT_MS)
                made = f"timestamp_millis({millis})"
            case "date":
                made = _date(self._within(value, FIRST_INSTANT_MS, LAST_INSTANT_MS))
            case "time":
                made = _clock_text(self._within(value, 0, DAY_MS - 1))
            case "double" if found.typeName() == "long":
                made = f"CAST({self._within(value, -_EXACT_IN_DOUBLE, _EXACT_IN_DOUBLE)} AS double)"
            case "string":
                made = self._text(value)
            case "array":
                made = self._text(value)
            case _:
                made = f"CAST({value} AS {kind.sql()})"
        return made

    def _text(self, text: str) -> str:
        """:param text: or a list of texts."""
        self._all_texts.append(text)
        return text

    def _compound(self, value: str, found: DataType, kind: FieldType) -> str:
        if found.typeName() == "string":
            return self._struct({kind.text_member: (value, found)}, value, kind)
        fields = _fields(found)
        if [field.name for field in fields] != ["member0", "member1"] or not kind.text_member:
            return self._struct(_members(value, found), value, kind)
        text, record = sorted(fields, key=lambda field: field.dataType.typeName() != "string")
        members = _members(f"{value}.{record.name}", record.dataType)
        members[kind.text_member] = (f"{value}.{text.name}", text.dataType)
        return self._struct(members, value, kind)

    def _struct(
        self,
        members: Mapping[str, tuple[str, DataType]],
        there: str,
        kind: FieldType,
        of_bitmaps: Callable[[str, str], str] | None = None,
    ) -> str:
        """:param there: what is null where the struct is."""
        made: list[str] = []
        for name, member in kind.members:
            if name not in members:
                value = _null(member)
            elif of_bitmaps is not None and name in BITMAPS:
                value = of_bitmaps(name, members[name][0])
            else:
                value = self._converted(*members[name], member)
            made.append(f"{value} AS {quoted(name)}")
        return f"CASE WHEN {there} IS NOT NULL THEN struct({', '.join(made)}) END"

    def _within(self, number: str, first: int, last: int) -> str:
        within = f"{number} BETWEEN {first}L AND {last}L"
        self._doubts.append(f"NOT ({within})")
        return f"CASE WHEN {within} THEN CAST({number} AS bigint) END"


def split_sql(ordinal: str, first_ordinals: Sequence[int]) -> str:
    """Which split of the batch an ordinal is of.

    :param first_ordinals: of each, ascending; never so many that it would make too much code (`splits.MOST_SPLITS`).
    """
    # One for each later split that the ordinal has reached: the sign of a difference. By comparing, a landing would come by a branch that
    # was never taken before with each split, and Java would drop the machine code of the whole decoding each time.
    reached = [f"shiftrightunsigned({first - 1}L - {ordinal}, 63)" for first in first_ordinals[1:]]
    return f"CAST({' + '.join(['0', *reached])} AS int)"


def _fields(found: DataType) -> list[Any]:
    return list(found.fields)


def _members(value: str, found: DataType) -> dict[str, tuple[str, DataType]]:
    return {
        field.name: (f"{value}.{quoted(field.name)}", field.dataType) for field in _fields(found)
    }


def _null(kind: FieldType) -> str:
    return f"CAST(NULL AS {kind.sql()})"


def _readable(record: str, types: Mapping[str, DataType], name: str) -> str:
    if name not in types or types[name].typeName() not in ("integer", "long"):
        return "CAST(NULL AS bigint)"
    number = f"{record}.{name}"
    within = f"{number} BETWEEN {FIRST_INSTANT_MS}L AND {LAST_INSTANT_MS}L"
    return f"CASE WHEN {within} THEN CAST({number} AS bigint) END"


def _date(millis: str) -> str:
    """The day in UTC, whatever the session's time zone."""
    return f"date_from_unix_date(CAST(floor({millis} / {DAY_MS}) AS int))"


def _clock_text(millis: str) -> str:
    def part(unit: int, size: int, width: int) -> str:
        return f"lpad(CAST(pmod(floor({millis} / {unit}), {size}L) AS string), {width}, '0')"

    clock = f"concat_ws(':', {part(3_600_000, 24, 2)}, {part(60_000, 60, 2)}, {part(1_000, 60, 2)})"
    whole = f"concat_ws('.', {clock}, {part(1, 1_000, 3)})"
    return f"CASE WHEN {millis} IS NOT NULL THEN {whole} END"
