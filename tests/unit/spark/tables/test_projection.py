"""Columns in a wanted form, as SQL."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_provider_sfevents.spark.tables.projection import taken

PLACE = StructType([StructField("city", StringType()), StructField("zip", StringType())])


def test_a_column_is_cast_to_the_wanted_type_under_the_wanted_name() -> None:
    """A column is found in any case, and cast to the wanted type and name."""
    there = StructField("BATCH_ORDINAL", StringType())
    wanted = StructField("batch_ordinal", LongType())
    assert taken(there, wanted) == "CAST(`BATCH_ORDINAL` AS bigint) AS `batch_ordinal`"


def test_a_column_that_is_not_there_is_null() -> None:
    """A struct without a wanted member, or a column that is no struct, counts as missing."""
    wanted = StructField("place", PLACE)
    null = "CAST(NULL AS struct<`city`: string, `zip`: string>) AS `place`"
    lacking = StructType([StructField("city", StringType())])
    found = [StructField("place", kind) for kind in (lacking, StringType())]
    assert [taken(there, wanted) for there in (None, *found)] == [null] * 3


def test_a_struct_is_put_together_from_its_wanted_members() -> None:
    """A null struct stays null."""
    more = StructType([*PLACE.fields, StructField("country", StringType())])
    assert taken(StructField("place", more), StructField("place", PLACE)) == (
        "CASE WHEN `place` IS NOT NULL THEN named_struct('city', CAST(`place`.`city` AS string), "
        "'zip', CAST(`place`.`zip` AS string)) END AS `place`"
    )
