"""Bitmaps of change events: the examples of Salesforce's documentation, and invalid ones."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.change_bitmaps import field_names, set_bits

ADDRESS = ("Street", "City", "State", "PostalCode", "Country")
NAMES = [
    "ChangeEventHeader",
    "Name",
    "Type",
    "ParentId",
    "BillingAddress",
    "ShippingAddress",
    "Phone",
    "Fax",
    "AccountNumber",
    "Website",
    "Sic",
    "Industry",
    "AnnualRevenue",
    "NumberOfEmployees",
    "Ownership",
    "TickerSymbol",
    "Description",
    "Rating",
    "Site",
    "OwnerId",
    "CreatedDate",
    "CreatedById",
    "LastModifiedDate",
    "LastModifiedById",
]
ACCOUNT = tuple((name, ADDRESS if name.endswith("Address") else ()) for name in NAMES)
# With record types there is one field more before ParentId, so that all later positions shift.
RECORD_TYPED = (*ACCOUNT[:3], ("RecordTypeId", ()), *ACCOUNT[3:])


@pytest.mark.parametrize(
    ("elements", "layout", "names"),
    [
        (["0x800002"], RECORD_TYPED, ["Name", "LastModifiedDate"]),
        (["0x400800"], ACCOUNT, ["Industry", "LastModifiedDate"]),
        (["0x400000", "4-0x01"], ACCOUNT, ["LastModifiedDate", "BillingAddress.Street"]),
        (["0x410000"], ACCOUNT, ["Description", "LastModifiedDate"]),
        (["0x010000"], ACCOUNT, ["Description"]),
        (["4-0x1F"], ACCOUNT, [f"BillingAddress.{member}" for member in ADDRESS]),
        (["0x10"], ACCOUNT, ["BillingAddress"]),
        (["0x800002"], ACCOUNT, ["Name", "LastModifiedById"]),
        (["0x00"], ACCOUNT, []),
        ([], ACCOUNT, []),
    ],
    ids=[
        "two fields",
        "without record types",
        "member of a compound",
        "changed",
        "sent as a diff",
        "every member",
        "the compound itself",
        "same bitmap, other schema",
        "no bit",
        "no bitmap",
    ],
)
def test_bitmaps_name_the_fields_of_the_events_own_schema(
    elements: list[str], layout: tuple[tuple[str, tuple[str, ...]], ...], names: list[str]
) -> None:
    """The documented examples give the documented fields."""
    assert field_names(elements, layout) == names


def test_the_documented_long_example_names_top_fields_first_and_then_members() -> None:
    """The documented long example gives the documented fields, then their members.

    Bits 5, 6, 7, 10, 24, 26, 29, 30, then member 4 of field 4, and members 1 and 2 of field 7.
    """
    layout = tuple((f"F{index}", tuple(f"M{member}" for member in range(8))) for index in range(31))

    names = field_names(["0x650004E0", "4-0x10", "7-0x06"], layout)

    assert names == ["F5", "F6", "F7", "F10", "F24", "F26", "F29", "F30", "F4.M4", "F7.M1", "F7.M2"]


def test_both_cases_of_hexadecimal_are_read() -> None:
    """Hexadecimal digits of either case are read."""
    assert set_bits("0x0a") == set_bits("0x0A") == [1, 3]


@pytest.mark.parametrize(
    "element",
    [
        "0x1000000",
        "4-0x20",
        "1-0x01",
        "99-0x01",
        "-1-0x01",
        "Name",
        "0xZZ",
        "0x",
        "",
        "4-",
        "x-0x01",
    ],
)
def test_what_the_schema_has_no_field_for_is_an_error(element: str) -> None:
    """A bit without a field, a member of a plain field, and other text are errors."""
    with pytest.raises(ValueError, match=r"."):
        field_names([element], ACCOUNT)
