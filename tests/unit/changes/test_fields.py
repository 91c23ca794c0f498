"""Values after an UPDATE."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_sfevents.spark.changes.fields import Layout, Problem, updated
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from tests.unit.changes.building import LAYOUT, TEXT, change, there

ACME = {"FirstName": None, "LastName": None, "Name": "Acme"}
ADA = {"FirstName": "Ada", "LastName": "Byron", "Name": None}


def after(before: dict[str, Any], **given: Any) -> dict[str, Any]:
    values, problems = updated(LAYOUT, before, change(1, **given))
    assert problems == {}
    return there(values)


def test_only_named_fields_are_set() -> None:
    """Values of fields that the header does not name, such as enrichment, are ignored."""
    before = {"Industry": "Mining", "Phone": "1"}
    assert after(before, Industry="Farming", Phone="enriched", changed=("Industry",)) == {
        "Industry": "Farming",
        "Phone": "1",
    }


@pytest.mark.parametrize(
    "given", [{"changed": ("Industry",)}, {"changed": (), "nulled": ("Industry",)}]
)
def test_a_null_value_and_a_nulled_field_are_null(given: dict[str, Any]) -> None:
    """A field that changed and has no value is null, whichever of the lists names it."""
    assert after({"Industry": "Mining", "Phone": "1"}, **given) == {"Phone": "1"}


def test_nulled_counts_more_than_a_value() -> None:
    """A field that is named as nulled is null, even if a value comes along."""
    assert after({}, Industry="x", nulled=("Industry",)) == {}


@pytest.mark.parametrize(
    ("before", "given", "result"),
    [
        (
            {"Street": "1 Main", "City": "Bath"},
            {"Street": "2 Low", "City": None},
            {"Street": "2 Low", "City": "Bath"},
        ),
        (None, {"Street": "2 Low", "City": None}, {"Street": "2 Low"}),
        ({"Street": "1 Main", "City": "Bath"}, None, {"Street": None, "City": "Bath"}),
        ({"Street": "1 Main", "City": None}, None, None),
    ],
    ids=["the other stays", "there was none", "nulled", "all null is null"],
)
def test_a_member_changes_alone(before: Any, given: Any, result: Any) -> None:
    """`Parent.Member` sets that member; a compound of which nothing is left is null."""
    values, _ = updated(
        LAYOUT, {"Address": before}, change(1, Address=given, changed=("Address.Street",))
    )
    assert values["Address"] == result


def test_a_parent_changes_as_a_whole() -> None:
    """The compound's own name replaces all of its members, whatever they were."""
    before = {"Address": {"Street": "1 Main", "City": "Bath"}}
    assert after(before, Address={"Street": None, "City": "York"})["Address"] == {
        "Street": None,
        "City": "York",
    }
    assert after(before, Address={"Street": None, "City": None}, changed=("Address",)) == {}


def test_a_parent_changes_before_its_members() -> None:
    """A member that is nulled is null, wherever the event names the whole compound."""
    given = {"Street": "2 Low", "City": "York"}
    names: Any = {"changed": ("Address.City", "Address"), "nulled": ("Address.City",)}
    assert after({}, Address=given, **names) == {"Address": {"Street": "2 Low", "City": None}}


@pytest.mark.parametrize(
    ("before", "given", "names", "nulls", "result"),
    [
        (ACME, ADA, ("Name",), (), ADA),
        (ADA, ACME, ("Name",), (), ACME),
        (
            ACME,
            {"FirstName": "Ada"},
            ("Name.FirstName",),
            (),
            {**ACME, "FirstName": "Ada", "Name": None},
        ),
        (ACME, None, ("Name.FirstName",), ("Name.FirstName",), ACME),
        (ADA, ACME, ("Name.FirstName", "Name"), ("Name.FirstName",), ACME),
        (ADA, None, ("Name",), ("Name",), None),
    ],
    ids=[
        "to a person",
        "to a company",
        "to a person by a member",
        "no such member",
        "both at once",
        "nulled",
    ],
)
def test_a_name_is_text_or_a_person(
    before: Any, given: Any, names: Any, nulls: Any, result: Any
) -> None:
    """Setting the one branch of a string-or-record name clears the other.

    Nulling a member of a text changes nothing.
    """
    values, _ = updated(
        LAYOUT, {"Name": before}, change(1, Name=given, changed=names, nulled=nulls)
    )
    assert values["Name"] == result


def test_a_field_whose_kind_changed_is_in_one_of_its_columns() -> None:
    """If a field changes its kind, the column of the earlier kind becomes null."""
    number = Column(name="Size", field="Size", type=FieldType(kind="double"))
    text = Column(name="Size__string", field="Size", type=TEXT)
    values, _ = updated(
        Layout(columns=(number, text)),
        {"Size": 4.0},
        change(1, Size__string="large", changed=("Size",)),
    )
    assert values == {"Size": None, "Size__string": "large"}


DOUBLE, DECIMAL = FieldType(kind="double"), FieldType(kind="decimal", precision=9, scale=6)


def place(kind: FieldType) -> FieldType:
    return FieldType(kind="struct", members=(("Latitude", kind), ("Longitude", kind)))


def two_columns(old: FieldType, new: FieldType, field: str = "Place__c") -> Layout:
    """A field that changed its kind."""
    columns = (
        Column(name=field, field=field, type=old),
        Column(name=f"{field}__struct", field=field, type=new),
    )
    return Layout(columns=columns)


@pytest.mark.parametrize(
    ("old", "new", "before", "given", "result"),
    [
        (DOUBLE, DECIMAL, (48.4, 9.98), (Decimal("1.5"), None), ("1.5", "9.980000")),
        (DECIMAL, DOUBLE, (Decimal("48.4"), Decimal("9.98")), (1.5, None), (1.5, 9.98)),
        (FieldType(kind="long"), DOUBLE, (48, 9), (1.5, None), (1.5, 9.0)),
        (DOUBLE, DECIMAL, (48.4, None), (Decimal("1.5"), None), ("1.5", None)),
        (TEXT, TEXT, ("48.4", "9.98"), ("1.5", None), ("1.5", "9.98")),
    ],
    ids=["to a decimal", "to a double", "a whole number", "nothing else is there", "same type"],
)
def test_a_member_takes_the_others_to_the_column_of_the_new_kind(
    old: FieldType, new: FieldType, before: Any, given: Any, result: Any
) -> None:
    """A whole compound is in one column of its field; the other column is null."""
    names = ("Latitude", "Longitude")
    event = change(
        1,
        changed=("Place__c.Latitude",),
        values={"Place__c__struct": dict(zip(names, given, strict=True))},
    )
    whole = dict(zip(names, before, strict=True))
    values, problems = updated(two_columns(place(old), place(new)), {"Place__c": whole}, event)
    expected = (Decimal(one) if new is DECIMAL and one else one for one in result)
    assert problems == {}
    assert values == {
        "Place__c": None,
        "Place__c__struct": dict(zip(names, expected, strict=True)),
    }


@pytest.mark.parametrize(
    ("old", "new", "others"),
    [
        (TEXT, DOUBLE, "9.98"),
        (DOUBLE, TEXT, 9.98),
        (DOUBLE, FieldType(kind="decimal", precision=3, scale=2), 99.5),
        (FieldType(kind="long"), DOUBLE, 2**53 + 1),
    ],
    ids=["text to a number", "a number to text", "too many digits", "no such double"],
)
def test_members_that_cannot_be_moved_stay_together(
    old: FieldType, new: FieldType, others: Any
) -> None:
    """A member that cannot be set leaves the whole value, and marks the record."""
    before = {"Place__c": {"Latitude": None, "Longitude": others}, "Place__c__struct": None}
    given = {"Latitude": "1" if new is TEXT else 1.5, "Longitude": None}
    event = change(1, changed=("Place__c.Latitude",), values={"Place__c__struct": given})
    values, problems = updated(two_columns(place(old), place(new)), before, event)
    assert values == before
    assert problems["Place__c.Latitude"].reason == "kind"
    assert f"Longitude is {others!r}" in problems["Place__c.Latitude"].detail


def test_a_member_that_is_nulled_is_nulled_where_the_value_is() -> None:
    """A nulled member changes the column with the value, and nothing if that is text."""
    event = change(1, changed=(), nulled=("Place__c.Latitude",))
    before = {"Place__c": {"Latitude": 48.4, "Longitude": 9.98}, "Place__c__struct": None}
    values, _ = updated(two_columns(place(DOUBLE), place(DECIMAL)), before, event)
    assert there(values) == {"Place__c": {"Latitude": None, "Longitude": 9.98}}
    names = two_columns(TEXT, LAYOUT.of_field("Name")[0].type, "Name")
    event = change(1, changed=(), nulled=("Name.LastName",))
    assert there(updated(names, {"Name": "Acme"}, event)[0]) == {"Name": "Acme"}


def test_a_person_clears_a_name_that_was_text_in_another_column() -> None:
    """A member of a name clears the column in which the name was text."""
    names = two_columns(TEXT, LAYOUT.of_field("Name")[0].type, "Name")
    person = {"FirstName": None, "LastName": "Byron", "Name": None}
    event = change(1, changed=("Name.LastName",), values={"Name__struct": person})
    values, problems = updated(names, {"Name": "Acme"}, event)
    assert (values["Name"], there(values["Name__struct"])) == (None, {"LastName": "Byron"})
    assert problems == {}


def test_a_diff_of_a_field_that_changed_its_kind_leaves_it() -> None:
    """A diff that cannot be applied leaves the value in its column."""
    number = Column(name="Size", field="Size", type=DOUBLE)
    text = Column(name="Size__string", field="Size", type=TEXT)
    event = change(1, Size__string="--- \n+++ x", changed=(), diffs=("Size",))
    values, problems = updated(Layout(columns=(number, text)), {"Size": 4.0}, event)
    assert there(values) == {"Size": 4.0}
    assert problems == {
        "Size": Problem("diff", "it came as a diff without the hash of the new value")
    }


def test_upper_and_lower_case_are_one_name() -> None:
    """A field may change its case; its column keeps the name it was made with."""
    column = Column(name="Size__c", field="Size__c", type=TEXT)
    given = change(1, changed=("SIZE__C",), values={"Size__c": "large"})
    layout = Layout(columns=(column,))
    assert layout.missing(given) == ""
    assert updated(layout, {}, given)[0] == {"Size__c": "large"}


def test_a_field_without_a_column_is_named() -> None:
    """A field or member without a column is reported by name."""
    assert LAYOUT.missing(change(1, changed=("Industry", "New__c"))) == "New__c"
    assert LAYOUT.missing(change(1, changed=("Address.Country",))) == "Address.Country"
    assert LAYOUT.missing(change(1, changed=("Address.City", "Name"))) == ""


def test_the_values_before_are_left_alone() -> None:
    """The fold gives new values and changes none that it was given."""
    before = {"Address": {"Street": "1 Main", "City": "Bath"}}
    after(before, Address={"Street": None, "City": "York"}, changed=("Address.City",))
    assert before == {"Address": {"Street": "1 Main", "City": "Bath"}}
