"""Fields of REST and Bulk records to the columns of a table, and fields that are refused."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.current_state.snapshot.full_records import Filling, filling
from airflow_provider_sfevents.spark.schema.evolution import evolve
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded
from tests.unit.changes.building import ADDRESS, NAME, TEXT

LONG = FieldType(kind="long")


def layout(**columns: FieldType) -> Layout:
    return Layout(
        columns=tuple(Column(name=one, field=one, type=of) for one, of in columns.items())
    )


def filled(table: Layout, *names: str, **structs: list[str]) -> Filling:
    plain: dict[str, dict[str, str]] = {name.casefold(): {} for name in ("Id", *names)}
    inner = {
        name.casefold(): {one.casefold(): one for one in members}
        for name, members in structs.items()
    }
    return filling(table, plain | inner, "Account")


def test_text_that_is_empty_is_none() -> None:
    """Empty text is null, because the Bulk API writes null as empty text."""
    found = filled(layout(Industry=TEXT), "Industry")
    assert found.columns == {"Industry": "nullif(cast(`Industry` AS string), '')"}
    assert not found.casts


def test_a_compound_is_put_together_of_fields_of_its_own() -> None:
    """A compound is made of Bulk's fields for its members, or of REST's struct."""
    number = FieldType(kind="double")
    place = FieldType(kind="struct", members=(("Latitude", number),))
    table = layout(BillingAddress=ADDRESS, Place__c=place)
    bulk = filled(table, "BillingStreet", "BillingCity", "Place__Latitude__s")
    assert "`BillingStreet`" in bulk.columns["BillingAddress"]
    assert "AS `City`" in bulk.columns["BillingAddress"]
    assert "`Place__Latitude__s`" in bulk.columns["Place__c"]
    assert [name for name, _, _ in bulk.casts] == ["Place__c.Latitude"]

    rest = filled(table, "Place__Latitude__s", BillingAddress=["street", "city"])
    assert "`BillingAddress`.`street`" in rest.columns["BillingAddress"]


def test_a_name_is_text_where_it_is_no_persons() -> None:
    """A name that may be text stays text if the read has no members of it."""
    found = filled(layout(Name=NAME), "Name", "FirstName", "LastName")
    said = found.columns["Name"]
    assert "IS NOT NULL THEN null ELSE nullif(cast(`Name` AS string), '') END AS `Name`" in said
    assert found.ignored == ()


KINDS = (FieldType(kind="double"), TEXT)


@pytest.mark.parametrize("now", [0, 1])
def test_a_field_that_changed_its_kind_fills_the_column_that_its_events_fill(now: int) -> None:
    """A field with several columns fills the one that its events fill; the others are null."""
    columns = ("Size__c", "Size__c__string")
    evolution = evolve(Recorded(), {"s": (("Size__c", KINDS[0]),)})
    for kind in (KINDS[1], KINDS[now]):
        evolution = evolve(evolution.after, {"s": (("Size__c", kind),)})
    table = Layout(columns=evolution.after.columns)

    found = filling(table, {"id": {}, "size__c": {}}, "Account", filled=evolution.filled["s"])

    assert "`Size__c`" in found.columns[columns[now]]
    other = columns[1 - now]
    assert found.columns[other] == f"cast(null AS {KINDS[1 - now].sql()})"


def test_a_read_that_could_fill_several_columns_of_a_field_is_refused() -> None:
    """The error of an ambiguous field names it, its columns and the options."""
    columns = (
        Column(name="Size__c", field="Size__c", type=LONG),
        Column(name="Size__c__string", field="Size__c", type=TEXT),
    )
    table = Layout(columns=columns)
    said = r"Size__c of Account .*\(Size__c, Size__c__string\).*--event-schema.*--lacking Size__c"
    for names in (("Size__c",), ()):
        with pytest.raises(ConfigurationError, match=said):
            filled(table, *names)
    found = filling(table, {"id": {}}, "Account", lacking=["size__c"])
    assert found.columns == {
        "Size__c": "cast(null AS bigint)",
        "Size__c__string": "cast(null AS string)",
    }


def test_fields_that_no_event_carries_are_named() -> None:
    """Fields of a read without a column are ignored and reported, except REST's own."""
    found = filled(layout(Industry=TEXT), "Industry", "Formula__c", attributes=["type"])
    assert found.ignored == ("formula__c",)


def test_a_read_without_a_field_of_the_table_is_refused() -> None:
    """A read that lacks a field of the table is refused, unless `lacking` names the field."""
    table = layout(Industry=TEXT, Old__c=LONG, BillingAddress=ADDRESS)
    with pytest.raises(ConfigurationError, match=r"lacks .* Old__c, BillingAddress.*--lacking Old"):
        filled(table, "Industry")
    found = filling(
        table, {"id": {}, "industry": {}}, "Account", lacking=["old__c", "BillingAddress"]
    )
    assert found.columns["Old__c"] == "cast(null AS bigint)"


def test_a_read_without_ids_is_refused() -> None:
    """Records of a snapshot need the field `Id`."""
    with pytest.raises(ConfigurationError, match="no field Id"):
        filling(layout(Industry=TEXT), {"industry": {}}, "Account")
