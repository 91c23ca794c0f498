"""Decimal columns by configuration."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.schema.decimals import read_decimals, with_decimals
from airflow_provider_sfevents.spark.schema.field_types import FieldType

PLACE = FieldType(
    kind="struct",
    members=(("Latitude", FieldType(kind="double")), ("City", FieldType(kind="string"))),
)
HEADER = FieldType(kind="struct", members=(("commitNumber", FieldType(kind="long")),))
FIELDS = (
    ("ChangeEventHeader", HEADER),
    ("Amount__c", FieldType(kind="double")),
    ("Rate__c", FieldType(kind="double")),
    ("Count__c", FieldType(kind="int")),
    ("Total__c", FieldType(kind="long")),
    ("At__c", FieldType(kind="timestamp")),
    ("Text__c", FieldType(kind="string")),
    ("Place__c", PLACE),
)


def applied(**decimals: str) -> dict[str, str]:
    """SQL types of the fields whose type has changed."""
    named = {
        ("*" if name == "every" else name.replace("__of__", ".")): decimals[name]
        for name in decimals
    }
    after = with_decimals(FIELDS, read_decimals(named))
    assert [name for name, _ in after] == [name for name, _ in FIELDS]
    was = dict(FIELDS)
    return {name: kind.sql() for name, kind in after if kind != was[name]}


def test_a_named_number_becomes_the_decimal_and_nothing_else_does() -> None:
    """A named double, int or long becomes a decimal; other fields keep their types."""
    assert applied(
        Amount__c="decimal(18,2)", Count__c="Decimal( 12 , 0 )", Total__c="decimal(20,0)"
    ) == {
        "Amount__c": "decimal(18,2)",
        "Count__c": "decimal(12,0)",
        "Total__c": "decimal(20,0)",
    }
    assert applied(At__c="decimal(18,2)", Text__c="decimal(18,2)", Gone__c="decimal(18,2)") == {}


def test_the_star_stands_for_every_double_that_is_not_named() -> None:
    """`*` stands for doubles that are not named, without those in compounds."""
    assert applied(every="decimal(38,6)", Amount__c="decimal(18,2)") == {
        "Amount__c": "decimal(18,2)",
        "Rate__c": "decimal(38,6)",
    }


def test_a_member_of_a_compound_is_named_with_a_dot() -> None:
    """A member named with a dot becomes a decimal, and the other members stay."""
    assert applied(Place__c__of__Latitude="decimal(9,6)") == {
        "Place__c": "struct<`Latitude`: decimal(9,6), `City`: string>"
    }


def test_upper_and_lower_case_are_one_name() -> None:
    """A field is found by its name in any case."""
    assert applied(amount__C="decimal(18,2)") == {"Amount__c": "decimal(18,2)"}


@pytest.mark.parametrize(
    ("decimals", "said"),
    [
        ({"Amount__c": "decimal"}, r"gives Amount__c the type 'decimal'.*decimal\(18,2\)"),
        ({"Amount__c": "double"}, r"has to be decimal\(precision,scale\)"),
        ({"Amount__c": "decimal(18)"}, r"'decimal\(18\)'"),
        ({"Amount__c": "decimal(18,-2)"}, r"'decimal\(18,-2\)'"),
        ({"Amount__c": "decimal(39,2)"}, r"precision has to be 1 to 38"),
        ({"Amount__c": "decimal(0,0)"}, r"precision has to be 1 to 38"),
        ({"Amount__c": "decimal(4,5)"}, r"scale 0 to precision"),
        ({"Amount__c": 18}, r"the type 18"),
        ({"Amount c": "decimal(18,2)"}, r"'Amount c', which is no field"),
        ({"": "decimal(18,2)"}, r"'', which is no field"),
        ({"*.Latitude": "decimal(18,2)"}, r"which is no field"),
        ({"A": "decimal(1,0)", "a": "decimal(1,0)"}, r"names the field a twice"),
        ({"ChangeEventHeader.commitNumber": "decimal(20,0)"}, r"ChangeEventHeader are whole"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field_and_the_remedy(
    decimals: dict[str, Any], said: str
) -> None:
    """An invalid entry is refused with its field and the remedy."""
    with pytest.raises(ConfigurationError, match=said):
        read_decimals(decimals)
