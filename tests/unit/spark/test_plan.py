"""What a batch's schemas make of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.plan import plan_batch


def schema(name: str, **fields: Any) -> str:
    return json.dumps(
        {
            "type": "record",
            "name": name,
            "fields": [{"name": key, "type": kind} for key, kind in fields.items()],
        }
    )


def never() -> dict[str, int]:
    raise AssertionError("counted without need")


def test_each_event_type_has_the_columns_of_all_its_schemas() -> None:
    """Several types of a channel are kept apart, several versions of a type share columns, numbers widened."""
    schemas = {
        "a1": schema("A__e", Number__c="int"),
        "a2": schema("A__e", Number__c="long", Text__c="string"),
        "b": schema("B__e", Flag__c="boolean"),
    }

    plan = plan_batch(schemas, never)

    assert [kind.name for kind in plan.types] == ["A__e", "B__e"]
    assert [(column.name, column.type.sql()) for column in plan.types[0].columns] == [
        ("Number__c", "bigint"),
        ("Text__c", "string"),
    ]
    assert set(plan.types[0].schemas) == {"a1", "a2"}
    assert plan.refused == {}
    assert plan.names == {"a1": "A__e", "a2": "A__e", "b": "B__e"}


def test_of_schemas_that_contradict_each_other_the_one_with_more_events_stays() -> None:
    """The smaller group is refused with the reason; its events go to quarantine, none is lost."""
    schemas = {"old": schema("A__e", Size__c="string"), "new": schema("A__e", Size__c="double")}

    few_new = plan_batch(schemas, lambda: {"old": 10, "new": 3})
    few_old = plan_batch(schemas, lambda: {"old": 3, "new": 10})

    assert set(few_new.types[0].schemas) == {"old"}
    assert set(few_old.types[0].schemas) == {"new"}
    assert few_old.refused == {
        "old": "schema old: field Size__c is double in one schema of this batch and string in another"
    }
    assert few_old.names == {"old": "A__e", "new": "A__e"}


def test_a_schema_that_no_table_can_have_is_refused_alone() -> None:
    """Other types of the batch are not concerned."""
    plan = plan_batch(
        {"twins": schema("A__e", X__c="int", x__c="int"), "b": schema("B__e", Y__c="int")}, never
    )

    assert [kind.name for kind in plan.types] == ["B__e"]
    assert set(plan.refused) == {"twins"}


def test_a_field_named_like_one_of_our_columns_gets_a_column_beside_it() -> None:
    """No Salesforce field is; but an envelope column is never overwritten."""
    plan = plan_batch({"a": schema("A__e", Batch_Id="string", Name="string")}, never)

    assert [(column.name, column.field) for column in plan.types[0].columns] == [
        ("Batch_Id_", "Batch_Id"),
        ("Name", "Name"),
    ]


def test_a_schema_file_that_is_no_schema_fails_the_batch_with_the_remedy() -> None:
    """Half a file is not a reason to quarantine events: the schema can be had anew."""
    with pytest.raises(StagingError, match=r"staged schema a cannot be used.*run the fetch again"):
        plan_batch({"a": '{"type": "rec'}, never)


def test_a_schema_that_the_service_does_not_have_is_refused_with_the_reason() -> None:
    """Its events have no type that anybody knows; those of other schemas are not concerned."""
    plan = plan_batch({"a": schema("A__e", X__c="int")}, never, {"u": "there is no schema u"})

    assert [kind.name for kind in plan.types] == ["A__e"]
    assert plan.refused == {"u": "there is no schema u"}
    assert plan.names == {"a": "A__e", "u": ""}
