"""A table's column in the form in which somebody wants it, whatever the table has by that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructField, StructType


def taken(there: StructField | None, wanted: StructField) -> Column:
    """A column in the form in which it is wanted; null where the table has not got it so."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    absent = F.lit(None).cast(wanted.dataType).alias(wanted.name)
    if there is None:
        return absent
    column = F.col(quoted(there.name))
    if isinstance(wanted.dataType, StructType):
        members = there.dataType.names if isinstance(there.dataType, StructType) else []
        if not set(wanted.dataType.names).issubset(members):
            return absent
        taken = [column[name].cast(kind).alias(name) for name, kind in _members(wanted.dataType)]
        return F.when(column.isNotNull(), F.struct(*taken)).alias(wanted.name)
    return column.cast(wanted.dataType).alias(wanted.name)


def _members(kind: StructType) -> list[tuple[str, object]]:
    return [(member.name, member.dataType) for member in kind.fields]
