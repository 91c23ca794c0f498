"""Which fields of an object are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.rest.field_selection import change_topic, chunks, select

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
    """Of the object's fields those that events have; what events have and the user has not is told."""
    chosen = select(
        described(field("Email"), field("IsDeleted", "boolean")),
        schema(Email=["null", "string"], Salary__c=["null", "double"]),
    )
    assert (chosen.fields, chosen.unseen) == (("Id", "Email"), ("Salary__c",))
    assert chosen.query() == "SELECT Id, Email FROM Contact"


def test_a_compound_is_read_member_by_member() -> None:
    """As the Bulk API wants it; the compound itself is left out."""
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
    """The text that REST puts together from a person's name is no value of its own."""
    chosen = select(described(field("Name"), field("LastName", parent="Name")), schema(Name=kind))
    assert chosen.fields == fields


def test_an_object_that_cannot_be_queried() -> None:
    """It is named, with whom to ask."""
    with pytest.raises(ConfigurationError, match=r"Contact cannot be read.*permission"):
        select(described(queryable=False), schema())


def test_single_records_are_asked_for_in_queries_of_a_bearable_length() -> None:
    """Each id once, and no query with more than fit into a URL."""
    ids = [f"{number:015}" for number in range(450)]
    cut = chunks([*ids, *ids[:3]])
    assert [len(one) for one in cut] == [200, 200, 50]
    assert sorted(one for some in cut for one in some) == ids
    chosen = select(described(), schema())
    assert chosen.query(["a", "b"]) == "SELECT Id FROM Contact WHERE Id IN ('a', 'b')"


@pytest.mark.parametrize(
    ("entity", "topic"),
    [
        ("Account", "/data/AccountChangeEvent"),
        ("Employee__c", "/data/Employee__ChangeEvent"),
        ("ns__Employee__c", "/data/ns__Employee__ChangeEvent"),
    ],
)
def test_where_an_objects_events_have_their_schema(entity: str, topic: str) -> None:
    """Standard and own objects."""
    assert change_topic(entity) == topic
