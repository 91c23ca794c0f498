"""SQL of a landing in Delta and Iceberg tables, and of making them."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.tables.merging.merge_statements import (
    delete,
    insert,
    merge,
    on_dates,
)
from airflow_provider_sfevents.spark.tables.statements import (
    add_columns,
    create,
    ddl,
    text,
)

HEADER = StructType().add("entityName", StringType()).add("recordIds", ArrayType(StringType()))
ORDER = StructType().add("batch_id", StringType()).add("Amount__c", DoubleType())


def test_a_merge_touches_only_its_batch_on_its_dates() -> None:
    """A MERGE deletes, updates and inserts rows of its batch on its dates only."""
    said = merge("`c`.`t`", "src", ["batch_id", "A__c"], "e-1", {"2026-11-02", "2026-11-01"})

    assert said == (
        "MERGE INTO `c`.`t` t USING src s ON t.batch_id = 'e-1' AND t.event_date IN "
        "(DATE'2026-11-01', DATE'2026-11-02') "
        "AND t.batch_ordinal = s.batch_ordinal "
        "WHEN MATCHED AND s.sfevents_gone THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.`batch_id` = s.`batch_id`, t.`A__c` = s.`A__c` "
        "WHEN NOT MATCHED AND NOT s.sfevents_gone THEN INSERT (`batch_id`, `A__c`) VALUES "
        "(s.`batch_id`, s.`A__c`)"
    )


def test_an_insert_adds_all_rows_or_fails() -> None:
    """An INSERT joins the rows of its batch that its table has, and refuses them."""
    said = insert("`t`", "src", ["batch_id", "A__c"], "e-1", {"2026-11-01"})

    assert said == (
        "INSERT INTO `t` (`batch_id`, `A__c`) SELECT `batch_id`, `A__c` FROM src "
        "LEFT JOIN (SELECT batch_ordinal FROM `t` WHERE batch_id = 'e-1' AND event_date IN "
        "(DATE'2026-11-01')) t (sfevents_there) ON sfevents_there = batch_ordinal "
        "WHERE assert_true(sfevents_there IS NULL, 'sfevents: the table has rows of the batch') "
        "IS NULL"
    )


def test_a_delete_touches_only_its_batch_on_its_dates() -> None:
    """A DELETE names batch and dates; a quote in the batch id is escaped."""
    assert delete("t", "e'-1", {"2026-11-01"}) == (
        "DELETE FROM t WHERE batch_id = 'e\\'-1' AND event_date IN (DATE'2026-11-01')"
    )
    assert text("a\\b") == "'a\\\\b'"


def test_dates_become_a_range_where_they_are_many() -> None:
    """Many dates become a range, and no date selects no row."""
    many = {f"{year}-01-01" for year in range(1800, 2026)}
    assert on_dates(many) == "event_date BETWEEN DATE'1800-01-01' AND DATE'2025-01-01'"
    assert on_dates(()) == "false"


def test_a_table_is_made_with_its_partitions_and_properties() -> None:
    """A CREATE TABLE has partitions and properties only if they are given."""
    schema = StructType().add("event_date", DateType()).add("Header", HEADER)
    assert create("t", "iceberg", schema, "PARTITIONED BY (months(event_date))", {"a": "b"}) == (
        "CREATE TABLE IF NOT EXISTS t (`event_date` date, `Header` struct<`entityName`: "
        "string, `recordIds`: array<string>>) "
        "USING iceberg PARTITIONED BY (months(event_date)) TBLPROPERTIES ('a' = 'b')"
    )
    assert create("t", "delta", ORDER, "", {}) == (
        "CREATE TABLE IF NOT EXISTS t (`batch_id` string, `Amount__c` double) USING delta"
    )


def test_what_a_table_lacks_is_added_in_one_statement() -> None:
    """Missing columns and members at any depth are added by one statement, if there are any."""
    had = StructType([*ORDER.fields]).add("Header", StructType().add("entityName", StringType()))
    had = had.add("Items__c", ArrayType(StructType().add("a", IntegerType())))
    wanted = StructType([*ORDER.fields]).add("Header", HEADER).add("Size__c", LongType())
    wanted = wanted.add(
        "Items__c", ArrayType(StructType().add("a", IntegerType()).add("b", LongType()))
    )

    assert add_columns("t", had, wanted) == (
        "ALTER TABLE t ADD COLUMNS (`Header`.`recordIds` array<string>, `Size__c` bigint, "
        "`Items__c`.`element`.`b` bigint)"
    )
    assert add_columns("t", wanted, had) == ""


def test_names_are_one_whatever_their_case() -> None:
    """A column is not added if the table has it in another case."""
    small = StructType().add("batch_id", StringType()).add("amount__c", DoubleType())
    assert add_columns("t", small, ORDER) == ""


def test_a_column_of_another_type_is_refused() -> None:
    """A column that was changed by hand is refused by name, with both types."""
    other = StructType().add("batch_id", StringType()).add("Amount__c", StringType())
    with pytest.raises(
        ConfigurationError, match=r"Column Amount__c of the table t is string, .*double"
    ):
        add_columns("t", other, ORDER)


def test_maps_are_spelled_with_their_members() -> None:
    """Names are quoted at every depth."""
    assert ddl(MapType(StringType(), HEADER)) == (
        "map<string, struct<`entityName`: string, `recordIds`: array<string>>>"
    )
