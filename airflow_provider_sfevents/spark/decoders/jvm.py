"""Decoding by Spark's own `from_avro`, to the columns and values the reference gives.

`from_avro` takes bytes that are left over for nothing, and in its permissive mode makes nulls of a payload it cannot read. So each
row has to prove itself, as with the accelerator: encoded again by `to_avro` it has to give the payload's very bytes, its text has to
be UTF-8, and each value has to fit its column. Rows that do not are handed to an executor's Python, which decides.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark import envelope
from airflow_provider_sfevents.spark.columns import DAY_MS, FIRST_INSTANT_MS, LAST_INSTANT_MS
from airflow_provider_sfevents.spark.decode import BITMAPS, HEADER, bitmap_layout
from airflow_provider_sfevents.spark.decoders import conversion
from airflow_provider_sfevents.spark.fieldtypes import record_fields, without_logical_types
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column as SparkColumn, DataFrame
    from pyspark.sql.types import DataType

    from airflow_provider_sfevents.spark.fieldtypes import Column, FieldType

_RECORD = "decoded_record"
_EXACT_IN_DOUBLE = 2**53


def unfit(schema_json: str, columns: Sequence[Column]) -> str:
    """Why `from_avro` cannot make these columns of a schema's events; empty where it can."""
    if any(_has_decimal(column.type) for column in columns):
        return "Java spells some doubles otherwise than with the fewest digits, which decimals are made from"
    return conversion.unfit(record_fields(json.loads(schema_json)), columns)


def _has_decimal(kind: FieldType) -> bool:
    return kind.kind == "decimal" or any(_has_decimal(member) for _, member in kind.members)


class FromAvro:
    """Rows of one schema, decoded by Spark.

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
        self._rows = rows.select("*", F.explode(F.array(record)).alias(_RECORD))
        self._layout = bitmap_layout(schema_json)
        self._columns = columns
        self._types: Mapping[str, DataType] = {
            field.name: field.dataType for field in self._rows.schema[_RECORD].dataType.fields
        }
        self._doubts: list[SparkColumn] = []
        self._values = [self._column(column).alias(column.name) for column in columns]
        again = to_avro(F.col(_RECORD), text)
        required = [
            field["name"] for field in avro["fields"] if not isinstance(field["type"], list)
        ]
        if required:
            # What cannot be read is all null, which cannot be encoded either.
            again = F.when(F.col(_RECORD)[required[0]].isNotNull(), again)
        doubtful = reduce(lambda one, other: one | other, self._doubts, F.lit(False))
        same = again.eqNullSafe(F.col(layout.PAYLOAD))
        self._sure = same & ~F.coalesce(doubtful, F.lit(False))

    def sure(self, first_ordinals: Sequence[int], *, keep_payload: bool) -> DataFrame:
        """The rows that have proved themselves, as `executor.decoded` gives them."""
        from pyspark.sql import functions as F  # noqa: N812

        raw = [F.col(layout.PAYLOAD).alias(envelope.RAW_PAYLOAD)] if keep_payload else []
        return self._rows.where(self._sure).select(
            *self._leading(first_ordinals), *self._values, *raw
        )

    def doubtful(self) -> DataFrame:
        """The other rows, as they were staged."""
        return self._rows.where(~self._sure).drop(_RECORD)

    def _leading(self, first_ordinals: Sequence[int]) -> list[SparkColumn]:
        from pyspark.sql import functions as F  # noqa: N812

        ordinal = F.col(layout.ORDINAL)
        millis = self._time()
        received = F.unix_millis(layout.RECEIVED_AT)
        starts = F.array(*(F.lit(first).cast("bigint") for first in first_ordinals))
        part = F.size(F.filter(starts, lambda first: first <= ordinal)) - 1
        return [
            F.col(layout.EVENT_ID).alias(envelope.EVENT_ID),
            F.timestamp_millis(millis).alias(envelope.EVENT_TIME),
            F.col(layout.RECEIVED_AT).alias(envelope.RECEIVED_AT),
            F.col(layout.REPLAY_ID).alias(envelope.REPLAY_ID),
            F.col(layout.SCHEMA_ID).alias(envelope.SCHEMA_ID),
            ordinal.alias(envelope.ORDINAL),
            _date(F.coalesce(millis, received)).alias(envelope.EVENT_DATE),
            (part if len(first_ordinals) > 1 else F.lit(0)).alias(envelope.PART),
        ]

    def _time(self) -> SparkColumn:
        """Milliseconds since 1970 of the event, as the reference reads them."""
        from pyspark.sql import functions as F  # noqa: N812

        record = F.col(_RECORD)
        created = _readable(record, self._types, "CreatedDate")
        header = self._types.get(HEADER)
        if header is None or header.typeName() != "struct":
            return created
        members = {field.name: field.dataType for field in _fields(header)}
        committed = _readable(record[HEADER], members, "commitTimestamp")
        return F.when(record[HEADER].isNotNull(), committed).otherwise(created)

    def _column(self, column: Column) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        if column.field not in self._types:
            return F.lit(None).cast(column.type.sql())
        value = F.col(_RECORD)[column.field]
        found = self._types[column.field]
        if column.field == HEADER and found.typeName() == "struct":
            members = {field.name: (value[field.name], field.dataType) for field in _fields(found)}
            return self._struct(members, value.isNotNull(), column.type, self._names)
        return self._converted(value, found, column.type)

    def _names(self, elements: SparkColumn) -> SparkColumn:
        from airflow_provider_sfevents.spark.decoders import bitmap_sql

        names = bitmap_sql.field_names(self._texts(elements), self._layout)
        self._doubts.append(bitmap_sql.has_unknown(names))
        return names

    def _converted(self, value: SparkColumn, found: DataType, kind: FieldType) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        match kind.kind:
            case "struct":
                made = self._compound(value, found, kind)
            case "timestamp":
                made = F.timestamp_millis(self._within(value, FIRST_INSTANT_MS, LAST_INSTANT_MS))
            case "date":
                made = _date(self._within(value, FIRST_INSTANT_MS, LAST_INSTANT_MS))
            case "time":
                made = _clock_text(self._within(value, 0, DAY_MS - 1))
            case "double" if found.typeName() == "long":
                made = self._within(value, -_EXACT_IN_DOUBLE, _EXACT_IN_DOUBLE).cast("double")
            case "string" | "array":
                made = self._texts(value) if kind.kind == "array" else self._text(value)
            case _:
                made = value.cast(kind.sql())
        return made

    def _text(self, text: SparkColumn) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        self._doubts.append(~F.is_valid_utf8(text))
        return text

    def _texts(self, texts: SparkColumn) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        self._doubts.append(F.exists(texts, lambda text: ~F.is_valid_utf8(text)))
        return texts

    def _compound(self, value: SparkColumn, found: DataType, kind: FieldType) -> SparkColumn:
        there = value.isNotNull()
        if found.typeName() == "string":
            return self._struct({kind.text_member: (value, found)}, there, kind)
        fields = _fields(found)
        if [field.name for field in fields] != ["member0", "member1"] or not kind.text_member:
            members = {field.name: (value[field.name], field.dataType) for field in fields}
            return self._struct(members, there, kind)
        text, record = sorted(fields, key=lambda field: field.dataType.typeName() != "string")
        members = {
            field.name: (value[record.name][field.name], field.dataType)
            for field in _fields(record.dataType)
        }
        members[kind.text_member] = (value[text.name], text.dataType)
        return self._struct(members, there, kind)

    def _struct(
        self,
        members: Mapping[str, tuple[SparkColumn, DataType]],
        there: SparkColumn,
        kind: FieldType,
        of_bitmaps: Callable[[SparkColumn], SparkColumn] | None = None,
    ) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        made: list[SparkColumn] = []
        for name, member in kind.members:
            if name not in members:
                value = F.lit(None).cast(member.sql())
            elif of_bitmaps is not None and name in BITMAPS:
                value = of_bitmaps(members[name][0])
            else:
                value = self._converted(*members[name], member)
            made.append(value.alias(name))
        return F.when(there, F.struct(*made))

    def _within(self, number: SparkColumn, first: int, last: int) -> SparkColumn:
        from pyspark.sql import functions as F  # noqa: N812

        within = number.between(F.lit(first).cast("bigint"), F.lit(last).cast("bigint"))
        self._doubts.append(~within)
        return F.when(within, number.cast("bigint"))


def _fields(found: DataType) -> list[Any]:
    return list(found.fields)


def _readable(record: SparkColumn, types: Mapping[str, DataType], name: str) -> SparkColumn:
    from pyspark.sql import functions as F  # noqa: N812

    if name not in types or types[name].typeName() not in ("integer", "long"):
        return F.lit(None).cast("bigint")
    first, last = (F.lit(bound).cast("bigint") for bound in (FIRST_INSTANT_MS, LAST_INSTANT_MS))
    return F.when(record[name].between(first, last), record[name].cast("bigint"))


def _date(millis: SparkColumn) -> SparkColumn:
    """The day in UTC, whatever the session's time zone."""
    from pyspark.sql import functions as F  # noqa: N812

    whole_days = millis - F.pmod(millis, F.lit(DAY_MS).cast("bigint"))
    return F.date_from_unix_date((whole_days / DAY_MS).cast("int"))


def _clock_text(millis: SparkColumn) -> SparkColumn:
    from pyspark.sql import functions as F  # noqa: N812

    def part(unit: int, size: int, width: int) -> SparkColumn:
        number = F.pmod(F.floor(millis / unit), F.lit(size).cast("bigint"))
        return F.lpad(number.cast("string"), width, "0")

    clock = F.concat_ws(":", part(3_600_000, 24, 2), part(60_000, 60, 2), part(1_000, 60, 2))
    return F.when(millis.isNotNull(), F.concat_ws(".", clock, part(1, 1_000, 3)))
