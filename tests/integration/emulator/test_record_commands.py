"""Records can be changed from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.emulator.conftest import Said

    Says = Callable[..., list[str]]


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator() as bus:
        yield bus
        bus.check()


@pytest.fixture
def says(bus: Emulator, says: Callable[..., Said]) -> Says:
    """Run a command on the emulator and return its lines or its error."""
    return lambda *arguments: says(*arguments, url=bus.my_domain_url).lines


def _types(bus: Emulator, topic: str) -> list[Any]:
    headers = [event["fields"]["ChangeEventHeader"] for event in bus.events(topic)]
    return [(one["changeType"], one["changedFields"]) for one in headers]


def test_a_record_is_changed_by_hand(bus: Emulator, says: Says) -> None:
    """A record is created without an id, changed by its id, and listed."""
    assert says("define", "object", "Employee__c", "Salary__c=Currency") == [
        "/data/Employee__ChangeEvent defined"
    ]
    [made] = says("change", "Employee__c", "CREATE", "--set", "Name=Ada", "--set", "Salary__c=10")
    record_id = bus.records("Employee__c")[0]["Id"]
    assert made.startswith(f"Employee__c: CREATE of {record_id} published, replay id ")
    says("change", "Employee__c", "UPDATE", "--record", record_id[:15], "--set", "Salary__c=12.5")
    says("change", "Employee__c", "GAP_UPDATE", "--record", record_id, "--set", "Salary__c=13")
    [shown] = says("records", "Employee__c")
    assert json.loads(shown)["Salary__c"] == 13.0
    says("change", "Employee__c", "DELETE", "--record", record_id)
    assert says("records", "Employee__c") == []
    assert len(says("records", "Employee__c", "--deleted")) == 1
    says("change", "Employee__c", "UNDELETE", "--record", record_id)
    assert says("convert", "Employee__c", "Salary__c", "Text") == [
        "Employee__c.Salary__c is Text now, and empty"
    ]
    says("change", "Employee__c", "GAP_OVERFLOW")
    says("change", "Employee__c", "GAP_DELETE", "--record", record_id)
    assert _types(bus, "/data/Employee__ChangeEvent") == [
        ("CREATE", []),
        ("UPDATE", ["LastModifiedDate", "Salary__c"]),
        ("GAP_UPDATE", []),
        ("DELETE", []),
        ("UNDELETE", []),
        ("UPDATE", ["Salary__c"]),
        ("GAP_OVERFLOW", []),
        ("GAP_DELETE", []),
    ]
    assert bus.records("Employee__c") == []


def test_of_an_unknown_record_only_the_event_is_published(bus: Emulator, says: Says) -> None:
    """For an unknown record only the event is published."""
    bus.define_object("Account")
    [said] = says(
        "change", "Account", "UPDATE", "--record", "001000000000001AAA", "--set", "Phone=1"
    )
    assert said.startswith("Account: UPDATE of 001000000000001AAA published, replay id ")
    assert bus.records("Account") == []
    assert _types(bus, "/data/AccountChangeEvent") == [("UPDATE", ["Phone", "LastModifiedDate"])]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["change", "Account", "CREATE"], "Required fields are missing: [Name]"),
        (["change", "Nope", "CREATE", "--set", "Name=x"], "object 'Nope'; there are Account"),
        (["change", "Account", "UPDATE"], "needs the id of at least one record"),
        (["convert", "Account", "Nope", "Text"], "no plain field 'Nope' to convert"),
        (["define", "object", "Thing"], "object 'Thing' is neither built in"),
    ],
)
def test_mistakes_are_named(
    bus: Emulator, says: Says, arguments: list[str], complaint: str
) -> None:
    """A mistake is one line."""
    bus.define_object("Account")
    [line] = says(*arguments)
    assert complaint in line
