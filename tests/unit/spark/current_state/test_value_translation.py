"""Values on their way from an event table's column to an entity's."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.current_state.value_translation import (
    converted,
    translation,
)
from airflow_provider_sfevents.spark.schema.evolution import evolve
from airflow_provider_sfevents.spark.schema.field_types import FieldType
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.spark.schema.evolution import Evolution
    from airflow_provider_sfevents.spark.schema.field_types import Fields

INT, LONG, DOUBLE, TEXT = (FieldType(kind=kind) for kind in ("int", "long", "double", "string"))
MONEY = FieldType(kind="decimal", precision=18, scale=2)
HEADER = ("ChangeEventHeader", FieldType(kind="struct", members=(("entityName", TEXT),)))


def person(*members: str) -> FieldType:
    """A name that may be plain text."""
    return FieldType(
        kind="struct", members=tuple((one, TEXT) for one in (*members, "Name")), text_member="Name"
    )


def after(*batches: Mapping[str, Fields]) -> Evolution:
    """The columns of a table that was fed these batches, each with its schemas."""
    evolution = evolve(Recorded(), batches[0])
    for schemas in batches[1:]:
        evolution = evolve(evolution.after, schemas)
    return evolution


@pytest.mark.parametrize(
    ("given", "had", "wanted", "expected"),
    [
        (3, LONG, INT, 3),
        (3.0, DOUBLE, INT, 3),
        (Decimal("3.00"), MONEY, LONG, 3),
        (3, INT, DOUBLE, 3.0),
        (3, LONG, MONEY, Decimal(3)),
        (None, LONG, DOUBLE, None),
        ("Acme", TEXT, person("FirstName"), {"FirstName": None, "Name": "Acme"}),
        ({"FirstName": None, "Name": "Acme"}, person("FirstName"), TEXT, "Acme"),
        (
            {"FirstName": "Ada", "Name": None},
            person("FirstName"),
            person("FirstName", "LastName"),
            {"FirstName": "Ada", "LastName": None, "Name": None},
        ),
        (
            [1, None],
            FieldType(kind="array", item=INT),
            FieldType(kind="array", item=DOUBLE),
            [1.0, None],
        ),
        (
            [("a", 1)],
            FieldType(kind="map", item=INT),
            FieldType(kind="map", item=DOUBLE),
            [("a", 1.0)],
        ),
    ],
)  # fmt: skip
def test_a_value_is_the_same_in_either_column(
    given: Any, had: FieldType, wanted: FieldType, expected: Any
) -> None:
    """A value of a wider column comes back to the narrower one, and the other way round."""
    found = converted(given, had, wanted)

    assert found == expected
    assert type(found) is type(expected)


def test_a_field_that_changed_its_kind_goes_by_schema() -> None:
    """Values of a field with several columns go to the column that fits their schema."""
    first: Fields = (HEADER, ("Size__c", INT))
    second: Fields = (HEADER, ("Size__c", TEXT), ("Color__c", TEXT))
    landed = after({"1": first}, {"2": second})
    entity = after({"2": second})

    way = translation(landed, entity)

    targets = {name: target.column for name, target in way.targets["2"].items()}
    assert targets == {"Size__c__string": "Size__c", "Color__c": "Color__c"}
    assert way.refused == {}


def test_a_schema_that_the_entitys_table_refuses_has_a_reason() -> None:
    """A schema that only the event table has columns for is refused with its reason."""
    first: Fields = (HEADER, ("Size__c", INT))
    second: Fields = (HEADER, ("Size__c", TEXT))
    entity = evolve(after({"1": first}).after, {"2": second}, "quarantine")

    way = translation(after({"2": second}), entity)

    assert way.targets["2"] == {}
    assert way.refused == {"2": "field Size__c is string, but in the table it is int"}
