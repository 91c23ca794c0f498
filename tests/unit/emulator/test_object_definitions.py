"""Objects have the expected fields in change events and in REST."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject, expand
from airflow_provider_sfevents.emulator.org.objects.object_evolution import (
    converted,
    define,
    evolved,
)
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError


def _defined(
    name: str, fields: dict[str, str] | None = None, *known: SObject, knobs: Knobs | None = None
) -> SObject:
    return define(
        name, fields or {}, required=(), tracked=True, known=known, knobs=knobs or Knobs()
    )


def test_a_custom_object_has_the_platforms_fields_first() -> None:
    """A custom object begins with owner, name and stamps; `X__c` has `X__ChangeEvent`."""
    sobject = _defined("Employee__c", {"Salary__c": "Currency"})
    schema = sobject.schema(snapshot=True)
    assert schema["name"] == "Employee__ChangeEvent"
    assert [field["name"] for field in schema["fields"][1:]] == [
        "OwnerId",
        "Name",
        "CreatedDate",
        "CreatedById",
        "LastModifiedDate",
        "LastModifiedById",
        "Salary__c",
    ]


def test_custom_objects_and_fields_are_numbered_through_the_org() -> None:
    """Custom objects and fields have prefixes and numbers of their own and keep them."""
    first = _defined("A__c", {"One__c": "Text"})
    second = _defined("B__c", {"Two__c": "Text"}, first)
    again = _defined("A__c", {"New__c": "Text", "One__c": "Text"}, first, second)
    assert (first.prefix, second.prefix, again.prefix) == ("a00", "a01", "a00")
    assert {one.name: one.number for one in again.declared if one.number} == {
        "New__c": 3,
        "One__c": 1,
    }


def test_compounds_are_plain_fields_in_rest() -> None:
    """An address, a name and a location have a field for each member."""
    contact = _defined("Contact", {"Home__c": "Location"})
    names = list(contact.fields)
    assert names[0] == "Id"
    assert {"MailingCity", "OtherStreet", "FirstName", "LastName", "Home__Latitude__s"} <= set(
        names
    )
    assert "Name" not in names
    assert contact.fields["MailingCity"].path == "MailingAddress.City"
    assert contact.find("mailingaddress").name == "MailingAddress"
    given = {"MailingAddress": {"City": "Porto"}, "Name": None, "Phone": "1"}
    assert expand(contact, given) == {
        "MailingCity": "Porto",
        "Salutation": None,
        "FirstName": None,
        "LastName": None,
        "Phone": "1",
    }
    with pytest.raises(RecordRefusedError, match=r"Contact\.MailingAddress has no member 'Town'"):
        expand(contact, {"MailingAddress": {"Town": "x"}})


def test_an_org_with_person_accounts_has_names_of_both_kinds() -> None:
    """Account.Name is text or a record, and the person's fields follow."""
    account = _defined("Account", knobs=Knobs(person_accounts=True))
    name = account.schema(snapshot=True)["fields"][1]
    assert name["type"][:2] == ["null", "string"]
    assert name["type"][2]["name"] == "Switchable_PersonName"
    assert {"Name", "LastName", "PersonEmail", "PersonMailingCity"} <= set(account.fields)


def test_a_conversion_keeps_the_place_and_an_evolution_adds_at_the_end() -> None:
    """A conversion keeps a field's position; only an evolution moves fields."""
    sobject = _defined("E__c", {"A__c": "Text", "B__c": "Text"})
    kinds = [(one.name, one.kind) for one in converted(sobject, "A__c", "Number").declared]
    assert kinds[-2:] == [("A__c", "Double"), ("B__c", "Text")]
    next_one = evolved(sobject, {"C__c": "Date"}, ["A__c"], (sobject,))
    assert [one.name for one in next_one.declared][-2:] == ["B__c", "C__c"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: _defined("Thing"), "neither built in"),
        (lambda: _defined("A__c", {"X__c": "Colour"}), "'Colour' is not a type"),
        (lambda: _defined("A__c", {"X  Y__c": "Text"}), "field 'X  Y__c' is not an API name"),
        (lambda: evolved(_defined("A__c"), {}, ["X__c"], ()), "no field 'X__c' to remove"),
        (lambda: evolved(_defined("A__c"), {"Name": "Text"}, [], ()), "has a field 'Name' already"),
        (lambda: evolved(_defined("A__c"), {}, ["CreatedDate"], ()), "cannot be removed"),
        (lambda: converted(_defined("Contact"), "Name", "Text"), "no plain field 'Name'"),
        (lambda: converted(_defined("Account"), "Phone", "Address"), "cannot become a compound"),
        (lambda: converted(_defined("Account"), "Name", "Number"), "cannot be converted"),
    ],
)
def test_what_cannot_be_is_refused(wrong: object, message: str) -> None:
    """An impossible definition is refused with its name."""
    assert callable(wrong)
    with pytest.raises(EmulatorError, match=message):
        wrong()


def test_an_object_comes_back_from_the_log() -> None:
    """An object restored from its journal form is equal to the original."""
    sobject = _defined("Employee__c", {"Salary__c": "Currency", "Home__c": "Location"})
    assert SObject.from_json(sobject.to_json()) == sobject
