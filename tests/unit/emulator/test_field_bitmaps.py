"""Bitmaps name fields as documented, checked on the documented and on observed examples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.emulator.bus import avro_schemas, field_bitmaps
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.org.sample_org import ACCOUNT, CONTACT


def _schema(entity: str, fields: dict[str, str]) -> dict[str, Any]:
    return avro_schemas.change_event_schema(entity, fields, FieldTypes(), snapshot=True)


ACCOUNTS = _schema("Account", ACCOUNT)
CONTACTS = _schema("Contact", CONTACT)


@pytest.mark.parametrize(
    ("names", "encoded"),
    [
        pytest.param(["Industry", "LastModifiedDate"], ["0x400800"], id="two plain fields"),
        pytest.param(
            ["LastModifiedDate", "BillingAddress.Street"],
            ["0x400000", "4-0x01"],
            id="member of a compound",
        ),
        pytest.param(["Description"], ["0x010000"], id="leading zero for an even number of digits"),
        pytest.param(["Name"], ["0x02"], id="one byte"),
        pytest.param(
            ["BillingAddress.City"], ["0x00", "4-0x02"], id="a child element never comes alone"
        ),
        pytest.param(
            ["ShippingAddress.Country", "BillingAddress.City"],
            ["0x00", "4-0x02", "5-0x10"],
            id="two compounds in order",
        ),
        pytest.param([], [], id="nothing"),
    ],
)
def test_examples_on_account(names: list[str], encoded: list[str]) -> None:
    """Field positions of an Account without record types give the bitmaps seen on live orgs."""
    assert field_bitmaps.encode(ACCOUNTS, names) == encoded


def test_documented_example() -> None:
    """The guide's example: ten top bits, and child bits of fields 4 and 7."""
    assert field_bitmaps.positions("0x650004E0") == [5, 6, 7, 10, 24, 26, 29, 30]
    assert field_bitmaps.positions("0x10") == [4]
    assert field_bitmaps.positions("0x06") == [1, 2]
    assert field_bitmaps.to_hex([5, 6, 7, 10, 24, 26, 29, 30]) == "0x650004E0"


def test_second_address_refers_to_the_first_ones_record() -> None:
    """A compound that the schema only names has the members of the named record."""
    assert field_bitmaps.decode(CONTACTS, ["0x00", "4-0x02"]) == ["MailingAddress.City"]


def test_member_of_a_name() -> None:
    """A person's name is a compound too."""
    assert field_bitmaps.encode(CONTACTS, ["Name.LastName"]) == ["0x00", "2-0x04"]


@given(st.sets(st.integers(0, 200)))
def test_positions_undo_to_hex(bits: set[int]) -> None:
    """An encoded bitmap decodes to the same bits and has an even number of upper-case digits."""
    text = field_bitmaps.to_hex(bits)
    assert set(field_bitmaps.positions(text)) == bits
    assert len(text) % 2 == 0
    assert text[2:] == text[2:].upper()


@given(st.sets(st.sampled_from([*ACCOUNT, "BillingAddress.City", "ShippingAddress.Latitude"])))
def test_names_survive_both_ways(names: set[str]) -> None:
    """Encoded names decode to the same names."""
    assert set(field_bitmaps.decode(ACCOUNTS, field_bitmaps.encode(ACCOUNTS, names))) == names


@pytest.mark.parametrize("name", ["Nope", "BillingAddress.Nope", "Phone.Area"])
def test_unknown_field_is_named(name: str) -> None:
    """A field that is not in the schema is refused with its full name."""
    with pytest.raises(ValueError, match=name):
        field_bitmaps.encode(ACCOUNTS, [name])
