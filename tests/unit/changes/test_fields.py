"""What an UPDATE does to values."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.spark.changes.fields import Layout, nulled, updated
from airflow_provider_sfevents.spark.fieldtypes import Column, FieldType
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
    """Setting the one branch of a string-or-record name clears the other; nulling a member of a text changes nothing."""
    values, _ = updated(
        LAYOUT, {"Name": before}, change(1, Name=given, changed=names, nulled=nulls)
    )
    assert values["Name"] == result


def test_a_field_whose_kind_changed_is_in_one_of_its_columns() -> None:
    """The column of the kind the field had before is nulled when the field changes."""
    number = Column(name="Size", field="Size", type=FieldType(kind="double"))
    text = Column(name="Size__string", field="Size", type=TEXT)
    values, _ = updated(
        Layout(columns=(number, text)),
        {"Size": 4.0},
        change(1, Size__string="large", changed=("Size",)),
    )
    assert values == {"Size": None, "Size__string": "large"}


def test_upper_and_lower_case_are_one_name() -> None:
    """A field may change its case; its column keeps the name it was made with."""
    column = Column(name="Size__c", field="Size__c", type=TEXT)
    given = change(1, changed=("SIZE__C",), values={"Size__c": "large"})
    layout = Layout(columns=(column,))
    assert layout.missing(given) == ""
    assert updated(layout, {}, given)[0] == {"Size__c": "large"}


def test_a_field_without_a_column_is_named() -> None:
    """Neither a field nor a member that the table lacks is passed over."""
    assert LAYOUT.missing(change(1, changed=("Industry", "New__c"))) == "New__c"
    assert LAYOUT.missing(change(1, changed=("Address.Country",))) == "Address.Country"
    assert LAYOUT.missing(change(1, changed=("Address.City", "Name"))) == ""


def test_a_change_of_a_whole_prefix_nulls_whatever_it_carries() -> None:
    """The named fields are null, and members of compounds, too."""
    given = change(1, "UPDATE", "001*", Industry="x", changed=("Industry", "Address.City"))
    before = {"Industry": "Mining", "Phone": "1", "Address": {"Street": None, "City": "Bath"}}
    assert there(nulled(LAYOUT, before, given)) == {"Phone": "1"}


def test_the_values_before_are_left_alone() -> None:
    """The fold gives new values and changes none that it was given."""
    before = {"Address": {"Street": "1 Main", "City": "Bath"}}
    after(before, Address={"Street": None, "City": "York"}, changed=("Address.City",))
    assert before == {"Address": {"Street": "1 Main", "City": "Bath"}}
