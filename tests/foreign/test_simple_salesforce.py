"""`simple-salesforce`, which appends a slash to most REST resources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.foreign_clients import ForeignClient, ForeignError, Program, python_program

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from tests.foreign.conftest import Start

pytestmark = pytest.mark.full


def _program(driver: str, folder: Path, ca_file: str) -> Program:
    """Program whose HTTP library trusts the file of its own variable."""
    made = python_program(driver, folder, ca_file)
    return replace(made, environment={**made.environment, "REQUESTS_CA_BUNDLE": ca_file})


@pytest.fixture
def client(bus: Emulator, start: Start) -> ForeignClient:
    """The client with a session of the org."""
    client = start(_program, "simple_client.py")
    session = bus.connection("session")["extra"]
    client.order("open", instance_url=session["instance_url"], session_id=session["session_token"])
    return client


def of(client: ForeignClient, order: str, *arguments: Any) -> Any:
    return client.order(order, arguments=arguments)


def test_records(bus: Emulator, client: ForeignClient) -> None:
    """A record is created, read, changed, found and deleted, with an event for each change."""
    made = of(client, "of_object", "Account", "create", {"Name": "Nord"})
    assert made["success"]
    assert of(client, "of_object", "Account", "get", made["id"])["Name"] == "Nord"
    assert of(client, "of_object", "Account", "update", made["id"], {"Name": "Süd"}) == 204
    found = of(client, "of_org", "query", "SELECT Id, Name FROM Account")["records"]
    assert [one["Name"] for one in found if one["Id"] == made["id"]] == ["Süd"]
    assert of(client, "of_object", "Account", "delete", made["id"]) == 204
    changes = bus.events("/data/AccountChangeEvent", last=3)
    headers = [event["fields"]["ChangeEventHeader"] for event in changes]
    assert [one["changeType"] for one in headers] == ["CREATE", "UPDATE", "DELETE"]


def test_what_the_org_says_of_itself(client: ForeignClient) -> None:
    """The client reads limits, objects, and an object's fields."""
    assert of(client, "of_org", "limits")["DailyDeliveredPlatformEvents"]["Max"] == 50_000
    names = {one["name"] for one in of(client, "of_org", "describe")["sobjects"]}
    assert "Account" in names
    described = of(client, "of_object", "Account", "describe")
    assert "Name" in {field["name"] for field in described["fields"]}
    assert of(client, "of_object", "Account", "metadata")["objectDescribe"]["name"] == "Account"


def test_events(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """A platform event is published as a record."""
    name = topic.rpartition("/")[2]
    assert of(client, "of_object", name, "create", {"Number__c": "A-1"})["success"]
    assert [event["fields"]["Number__c"] for event in bus.events(topic)] == ["A-1"]


def test_an_object_that_is_not_there(client: ForeignClient) -> None:
    """An unknown object raises the client's own error class."""
    with pytest.raises(ForeignError, match="SalesforceResourceNotFound"):
        of(client, "of_object", "Nothing__c", "create", {"Name": "x"})
