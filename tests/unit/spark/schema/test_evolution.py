"""Evolution of a table's columns, case by case."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.spark.schema.evolution import Evolution, evolve
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

BOOLEAN = FieldType(kind="boolean")
INT = FieldType(kind="int")
LONG = FieldType(kind="long")
DOUBLE = FieldType(kind="double")
TEXT = FieldType(kind="string")
TIME = FieldType(kind="time")
MONEY = FieldType(kind="decimal", precision=18, scale=2)
SMALL = FieldType(kind="decimal", precision=10, scale=2)
DIGITS = FieldType(kind="decimal", precision=19, scale=0)


def struct(text: str = "", **members: FieldType) -> FieldType:
    return FieldType(kind="struct", members=tuple(members.items()), text_member=text)


def array(item: FieldType) -> FieldType:
    return FieldType(kind="array", item=item)


PERSON = struct(FirstName=TEXT, LastName=TEXT)
NAME = struct("Name", FirstName=TEXT, LastName=TEXT, Name=TEXT)


def table(*fields: tuple[str, FieldType]) -> Recorded:
    """A table that a batch with these fields has made."""
    return evolve(Recorded(), {"first": fields}).after


def then(recorded: Recorded, *fields: tuple[str, FieldType]) -> Evolution:
    return evolve(recorded, {"s": fields})


def sql(recorded: Recorded) -> list[tuple[str, str]]:
    return [(column.name, column.type.sql()) for column in recorded.columns]


def test_members_of_structs_are_added_as_columns_are() -> None:
    """Members are added to structs, also in structs, arrays and maps."""
    old, new = struct(A=TEXT, B=TEXT), struct(C=INT, B=TEXT)
    before = table(
        ("S", old), ("In", struct(S=old)), ("L", array(old)), ("M", FieldType(kind="map", item=old))
    )

    after = then(
        before,
        ("S", new),
        ("In", struct(S=new)),
        ("L", array(new)),
        ("M", FieldType(kind="map", item=new)),
    ).after

    both = "struct<`A`: string, `B`: string, `C`: int>"
    assert sql(after) == [
        ("S", both),
        ("In", f"struct<`S`: {both}>"),
        ("L", f"array<{both}>"),
        ("M", f"map<string, {both}>"),
    ]


@pytest.mark.parametrize(
    ("column", "field"),
    [
        (LONG, INT),
        (DOUBLE, INT),
        (MONEY, INT),
        (DIGITS, LONG),
        (NAME, TEXT),
        (NAME, PERSON),
        (struct(A=LONG), struct(A=INT)),
        (array(DOUBLE), array(INT)),
    ],
)
def test_values_that_fit_the_tables_column_go_there(column: FieldType, field: FieldType) -> None:
    """Values that fit a column go there, and the column keeps its type."""
    before = table(("F", column))

    evolution = then(before, ("F", field))

    assert evolution.after == before
    assert evolution.filled == {"s": {"F": "F"}}


@pytest.mark.parametrize(
    ("column", "field", "name"),
    [
        (DOUBLE, TEXT, "F__string"),
        (TEXT, DOUBLE, "F__double"),
        (INT, LONG, "F__long"),
        (LONG, DOUBLE, "F__double"),
        (DOUBLE, LONG, "F__long"),  # not every long is a double
        (TEXT, TIME, "F__time"),  # both are text in the table
        (DOUBLE, MONEY, "F__decimal_18_2"),
        (MONEY, DOUBLE, "F__double"),
        (MONEY, SMALL, "F__decimal_10_2"),
        (SMALL, INT, "F__int"),
        (MONEY, LONG, "F__long"),
        (TEXT, NAME, "F__struct"),  # person accounts are switched on
        (PERSON, NAME, "F__struct"),
        (PERSON, TEXT, "F__string"),
        (array(INT), array(TEXT), "F__array"),
        (array(INT), FieldType(kind="map", item=INT), "F__map"),
        (struct(A=INT), struct(A=TEXT), "F__struct"),
        (struct(A=INT), struct(a=INT), "F__struct"),
        (struct("F", F=TEXT), struct(F=INT), "F__struct"),
        (struct("F", F=TEXT), struct(F=TEXT), "F__struct"),  # a member of its own, not the text
    ],
)
def test_a_change_of_kind_gets_a_column_named_after_the_kind(
    column: FieldType, field: FieldType, name: str
) -> None:
    """After a change of kind a new column has the values; the old one is null."""
    before = table(("F", column), ("G", TEXT))

    evolution = then(before, ("F", field), ("G", TEXT))

    assert evolution.after.columns == (*before.columns, Column(name=name, field="F", type=field))
    assert evolution.filled == {"s": {name: "F", "G": "G"}}
    assert not evolution.contested


def test_a_name_that_is_taken_is_counted_up() -> None:
    """A new column whose name is taken gets a number, in any case of letters."""
    by_column = then(table(("F", TEXT), ("f__DOUBLE", INT)), ("F", DOUBLE))
    by_field = then(table(("F", TEXT)), ("F", DOUBLE), ("F__double", TEXT))
    by_change = then(by_field.after, ("F__double", BOOLEAN), ("F__double_2", BOOLEAN))
    twice = then(table(("F", struct(A=INT))), ("F", struct(A=TEXT))).after

    assert by_column.filled == {"s": {"F__double_2": "F"}}
    assert by_field.filled == {"s": {"F__double_2": "F", "F__double": "F__double"}}
    assert by_change.filled == {
        "s": {"F__double__boolean": "F__double", "F__double_2_2": "F__double_2"}
    }
    assert then(twice, ("F", struct(A=BOOLEAN))).filled == {"s": {"F__struct_2": "F"}}


def test_a_field_whose_name_only_changes_its_case_keeps_its_column() -> None:
    """A field whose name changes its case keeps its column."""
    evolution = then(table(("Size__c", INT)), ("SIZE__c", INT))

    assert sql(evolution.after) == [("Size__c", "int")]
    assert evolution.filled == {"s": {"Size__c": "SIZE__c"}}


def test_schemas_of_one_batch_share_the_widest_column_where_the_table_has_none() -> None:
    """New columns take the widest type of a batch; recorded columns keep their type."""
    schemas = {
        "a": (("N", INT), ("S", struct(A=TEXT, B=INT))),
        "b": (("N", LONG), ("S", struct(A=TEXT, B=DOUBLE))),
        "c": (("N", INT), ("S", struct(A=TEXT))),
    }
    fresh = evolve(Recorded(), schemas)
    known = evolve(table(("N", INT), ("S", struct(A=TEXT))), schemas)

    assert sql(fresh.after) == [("N", "bigint"), ("S", "struct<`A`: string, `B`: double>")]
    assert sql(known.after) == [
        ("N", "int"),
        ("S", "struct<`A`: string, `B`: double>"),
        ("N__long", "bigint"),
    ]
    assert [known.filled[schema_id] for schema_id in "abc"] == [
        {"N": "N", "S": "S"},
        {"N__long": "N", "S": "S"},
        {"N": "N", "S": "S"},
    ]
    assert not fresh.contested
    assert not known.contested


def test_schemas_of_one_batch_that_contradict_each_other_both_land() -> None:
    """The first of two contradicting schemas has the field's own column, and that is marked."""
    evolution = evolve(Recorded(), {"b": (("F", TEXT),), "a": (("F", INT),), "c": (("F", LONG),)})

    assert sql(evolution.after) == [("F", "string"), ("F__long", "bigint")]
    assert evolution.filled == {"b": {"F": "F"}, "a": {"F__long": "F"}, "c": {"F__long": "F"}}
    assert evolution.contested


def test_with_quarantine_a_changed_schema_is_refused_and_leaves_no_trace() -> None:
    """With `quarantine` a changed schema adds no column; existing columns still take it."""
    before = table(("F", TEXT))
    schemas = {"bad": (("F", INT), ("New", INT)), "good": (("F", TEXT), ("Other", INT))}

    evolution = evolve(before, schemas, "quarantine")
    both = then(before, ("F", INT)).after

    assert sql(evolution.after) == [("F", "string"), ("Other", "int")]
    assert set(evolution.filled) == {"good"}
    assert evolution.refused == {"bad": "field F is int, but in the table it is string"}
    assert evolve(both, {"s": (("F", INT),)}, "quarantine").filled == {"s": {"F__int": "F"}}


def test_with_quarantine_the_first_of_two_contradicting_schemas_stays() -> None:
    """With `quarantine` the first of two contradicting schemas makes the new column."""
    evolution = evolve(Recorded(), {"b": (("F", TEXT),), "a": (("F", INT),)}, "quarantine")

    assert sql(evolution.after) == [("F", "string")]
    assert evolution.refused == {"a": "field F is int, but in the table it is string"}
    assert evolution.contested
