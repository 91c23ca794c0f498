"""Fields of an object to read."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.rest.field_selection import (
    MOST_QUERY_BYTES,
    change_topic,
    select,
)

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "City", "type": "string"}]}
PERSON = {
    "type": "record",
    "name": "PersonName",
    "fields": [{"name": "LastName", "type": "string"}],
}


def schema(**fields: Any) -> str:
    header = {"name": "ChangeEventHeader", "type": {"type": "record", "name": "H", "fields": []}}
    rest = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "E", "fields": [header, *rest]})


def field(name: str, kind: str = "string", parent: str | None = None) -> dict[str, Any]:
    return {"name": name, "type": kind, "compoundFieldName": parent}


def described(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "Contact", "queryable": True, "fields": [field("Id", "id"), *fields], **more}


def test_what_the_events_carry_and_the_user_may_see() -> None:
    """The object's fields that its events have are chosen, and unseen event fields are named."""
    chosen = select(
        described(field("Email"), field("IsDeleted", "boolean")),
        schema(Email=["null", "string"], Salary__c=["null", "double"]),
    )
    assert (chosen.fields, chosen.unseen) == (("Id", "Email"), ("Salary__c",))
    assert chosen.query() == "SELECT Id,Email FROM Contact"


def test_a_compound_is_read_member_by_member() -> None:
    """Members of a compound are chosen and the compound is not, because the Bulk API refuses it."""
    chosen = select(
        described(
            field("MailingAddress", "address"),
            field("MailingCity", parent="MailingAddress"),
            field("OtherCity", parent="OtherAddress"),
        ),
        schema(MailingAddress=["null", ADDRESS]),
    )
    assert (chosen.fields, chosen.unseen) == (("Id", "MailingCity"), ())


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (["null", PERSON], ("Id", "LastName")),
        (["null", "string", PERSON], ("Id", "Name", "LastName")),
        ("string", ("Id", "Name", "LastName")),
    ],
    ids=["a person", "text or a person", "text"],
)
def test_a_name_is_read_as_its_events_have_it(kind: Any, fields: tuple[str, ...]) -> None:
    """The name that REST composes of a person's name parts is not read as a value of its own."""
    chosen = select(described(field("Name"), field("LastName", parent="Name")), schema(Name=kind))
    assert chosen.fields == fields


def test_an_object_that_cannot_be_queried() -> None:
    """The error names an object that cannot be queried, and the missing permission."""
    with pytest.raises(ConfigurationError, match=r"Contact cannot be read.*permission"):
        select(described(queryable=False), schema())


def test_single_records_are_asked_for_in_queries_of_a_bearable_length() -> None:
    """Each id is in one query, and no query exceeds the length of a URL."""
    ids = [f"{number:015}" for number in range(450)]
    chosen = select(described(), schema())
    queries = chosen.queries([*ids, *ids[:3]])
    found = [re.findall(r"'(\d+)'", one) for one in queries]
    assert [len(one) for one in found] == [200, 200, 50]
    assert [one for some in found for one in some] == ids
    assert chosen.query(["a", "b"]) == "SELECT Id FROM Contact WHERE Id IN ('a','b')"
    assert (chosen.queries([]), chosen.queries(None)) == ([], ["SELECT Id FROM Contact"])


@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_fields_leave_room_for_so_many_ids(most: int) -> None:
    """A query is as long as a URI allows, and no longer; without room for an id it is an error."""
    fixed = len(quote("SELECT Id, FROM Contact WHERE Id IN ('')", safe="")) + 15
    another = len(quote("'',", safe="")) + 15
    name = "A" * (MOST_QUERY_BYTES - fixed - (most - 1) * another)
    chosen = select(described(field(name)), schema(**{name: "string"}))
    ids = [f"{number:015}" for number in range(4)]
    if not most:
        with pytest.raises(ConfigurationError, match=r"fields of Contact .* read_by='bulk'"):
            chosen.queries(ids)
        return
    queries = chosen.queries(ids)
    assert len(queries) == 4 / most
    assert len(quote(queries[0], safe="")) == MOST_QUERY_BYTES


@pytest.mark.parametrize(
    ("entity", "topic"),
    [
        ("Account", "/data/AccountChangeEvent"),
        ("Employee__c", "/data/Employee__ChangeEvent"),
        ("ns__Employee__c", "/data/ns__Employee__ChangeEvent"),
    ],
)
def test_where_an_objects_events_have_their_schema(entity: str, topic: str) -> None:
    """Standard and custom objects have their change-event topics."""
    assert change_topic(entity) == topic
