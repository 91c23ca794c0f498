"""Plan of a batch from its schemas."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.schema.decimals import read_decimals
from airflow_provider_sfevents.spark.schema.event_columns import EventType, plan_batch
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType, Kind
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded
from tests.unit.spark.avro.shapes import schema_text


def column(name: str, kind: Kind) -> Column:
    return Column(name=name, field=name, type=FieldType(kind=kind))


def read_by(kind: EventType, schema_id: str) -> list[tuple[str, str, str]]:
    """Column, its type, and its field in events of a schema."""
    return [(one.name, one.type.sql(), one.field) for one in kind.columns_of(schema_id)]


def never() -> dict[str, int]:
    raise AssertionError("counted without need")


def test_each_event_type_has_the_columns_of_all_its_schemas() -> None:
    """Event types have columns of their own; schemas of a type share columns."""
    schemas = {
        "a1": schema_text("A__e", Number__c="int"),
        "a2": schema_text("A__e", Number__c="long", Text__c="string"),
        "b": schema_text("B__e", Flag__c="boolean"),
    }

    plan = plan_batch(schemas, never)

    assert [kind.name for kind in plan.types] == ["A__e", "B__e"]
    assert [(one.name, one.type.sql()) for one in plan.types[0].columns] == [
        ("Number__c", "bigint"),
        ("Text__c", "string"),
    ]
    assert set(plan.types[0].schemas) == {"a1", "a2"}
    assert plan.refused == {}
    assert plan.names == {"a1": "A__e", "a2": "A__e", "b": "B__e"}


def test_schemas_that_contradict_each_other_both_land() -> None:
    """Of two contradicting schemas the one with more events gets the field's own column."""
    schemas = {
        "old": schema_text("A__e", Size__c="string"),
        "new": schema_text("A__e", Size__c="double"),
    }

    few_new = plan_batch(schemas, lambda: {"old": 10, "new": 3})
    few_old = plan_batch(schemas, lambda: {"old": 3, "new": 10})

    assert read_by(few_new.types[0], "old") == [
        ("Size__c", "string", "Size__c"),
        ("Size__c__double", "double", ""),
    ]
    assert read_by(few_new.types[0], "new") == [
        ("Size__c", "string", ""),
        ("Size__c__double", "double", "Size__c"),
    ]
    assert read_by(few_old.types[0], "new") == [
        ("Size__c", "double", "Size__c"),
        ("Size__c__string", "string", ""),
    ]
    assert few_new.refused == {}


def test_with_quarantine_the_one_with_more_events_stays() -> None:
    """With `quarantine` the contradicting schema with fewer events is refused."""
    schemas = {
        "old": schema_text("A__e", Size__c="string"),
        "new": schema_text("A__e", Size__c="double"),
    }

    few_new = plan_batch(schemas, lambda: {"old": 10, "new": 3}, on_type_change="quarantine")
    few_old = plan_batch(schemas, lambda: {"old": 3, "new": 10}, on_type_change="quarantine")

    assert set(few_new.types[0].schemas) == {"old"}
    assert set(few_old.types[0].schemas) == {"new"}
    assert few_old.refused == {
        "old": "schema old: field Size__c is string, but in the table it is double"
    }
    assert few_old.names == {"old": "A__e", "new": "A__e"}


def test_a_batch_has_all_columns_of_its_tables_with_their_types() -> None:
    """Recorded columns stay, filled or not, and each table is read once."""
    recorded = {
        "A__e": Recorded(columns=(column("Gone__c", "date"), column("Size__c", "long"))),
        "B__e": Recorded(columns=(column("Flag__c", "string"),)),
    }
    asked: list[str] = []

    def recall(name: str) -> Recorded:
        asked.append(name)
        return recorded[name]

    plan = plan_batch(
        {
            "a": schema_text("A__e", New__c="string", size__C="int"),
            "b": schema_text("B__e", Flag__c="boolean"),
        },
        never,
        recorded=recall,
    )

    assert asked == ["A__e", "B__e"]
    assert read_by(plan.types[0], "a") == [
        ("Gone__c", "date", ""),
        ("Size__c", "bigint", "size__C"),
        ("New__c", "string", "New__c"),
    ]
    assert read_by(plan.types[1], "b") == [
        ("Flag__c", "string", ""),
        ("Flag__c__boolean", "boolean", "Flag__c"),
    ]
    assert plan.evolutions["A__e"].after.columns == plan.types[0].columns


def test_a_type_all_of_whose_schemas_are_refused_changes_no_table() -> None:
    """If all schemas of a type are refused, its table does not change."""
    before = Recorded(columns=(column("Size__c", "string"),))

    plan = plan_batch(
        {"a": schema_text("A__e", Size__c="int", New__c="int")},
        never,
        recorded=lambda _: before,
        on_type_change="quarantine",
    )

    assert plan.types == ()
    assert plan.evolutions["A__e"].after == before
    assert plan.refused == {"a": "schema a: field Size__c is int, but in the table it is string"}


def test_decimals_are_what_the_columns_are() -> None:
    """Configured decimals are the columns' types for every event type."""
    plan = plan_batch(
        {
            "a": schema_text("A__e", Amount__c="double", Rate__c="double"),
            "b": schema_text("B__e", Amount__c="double"),
        },
        never,
        decimals=read_decimals({"Amount__c": "decimal(18,2)"}),
    )

    assert [[column.type.sql() for column in kind.columns] for kind in plan.types] == [
        ["decimal(18,2)", "double"],
        ["decimal(18,2)"],
    ]


def test_a_schema_that_no_table_can_have_is_refused_alone() -> None:
    """A schema that no table can have is refused, and other types are not affected."""
    plan = plan_batch(
        {
            "twins": schema_text("A__e", X__c="int", x__c="int"),
            "b": schema_text("B__e", Y__c="int"),
        },
        never,
    )

    assert [kind.name for kind in plan.types] == ["B__e"]
    assert set(plan.refused) == {"twins"}


def test_a_field_named_like_one_of_our_columns_gets_a_column_beside_it() -> None:
    """A field with the name of an envelope column gets another column."""
    plan = plan_batch({"a": schema_text("A__e", Batch_Id="string", Name="string")}, never)

    assert [(one.name, one.field) for one in plan.types[0].columns] == [
        ("Batch_Id_", "Batch_Id"),
        ("Name", "Name"),
    ]


def test_a_schema_file_that_is_no_schema_fails_the_batch_with_the_remedy() -> None:
    """A damaged schema file fails the batch, because the schema can be fetched again."""
    with pytest.raises(StagingError, match=r"staged schema a cannot be used.*run the fetch again"):
        plan_batch({"a": '{"type": "rec'}, never)


def test_a_schema_that_the_service_does_not_have_is_refused_with_the_reason() -> None:
    """An unknown schema is refused with the reason; other schemas are not affected."""
    plan = plan_batch({"a": schema_text("A__e", X__c="int")}, never, {"u": "there is no schema u"})

    assert [kind.name for kind in plan.types] == ["A__e"]
    assert plan.refused == {"u": "there is no schema u"}
    assert plan.names == {"a": "A__e", "u": ""}
