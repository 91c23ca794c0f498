"""GetTopic and GetSchema: answers and refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.contract.fingerprints import fingerprint
from tests.contract.orgs import TEXT
from tests.contract.wire import refused

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

UNKNOWN = "/event/No_Such_Event__e"


def test_a_platform_event_can_be_published_and_subscribed_to(org: OrgUnderTest) -> None:
    """GetTopic names the topic, its schema and what may be done with it.

    Source: GetTopic RPC page.
    """
    info = org.client.get_topic(org.topic)
    assert (info.topic_name, info.can_publish, info.can_subscribe) == (org.topic, True, True)
    assert info.schema_id


def test_the_tenant_is_named_with_18_characters(org: OrgUnderTest) -> None:
    """`tenant_guid` is `core/prod/` and the org's id. Source: live logs."""
    head, _, org_id = org.client.get_topic(org.topic).tenant_guid.rpartition("/")
    assert head.lower() == "core/prod"
    assert (org_id[:15], len(org_id)) == (org.headers["tenantid"][:15], 18)


def test_change_events_cannot_be_published(org: OrgUnderTest) -> None:
    """GetTopic states that a change event cannot be published. Source: Publish RPC page."""
    info = org.client.get_topic(f"/data/{org.need('entity')}ChangeEvent")
    assert (info.can_publish, info.can_subscribe) == (False, True)


def test_publishing_a_change_event_is_refused(org: OrgUnderTest) -> None:
    """Publishing a change event is refused; the code is not documented.

    Source: Publish RPC page.
    """
    topic = f"/data/{org.need('entity')}ChangeEvent"
    assert refused(org.client.publish, topic, org.event()).status != "OK"


def test_an_unknown_topic_is_refused(org: OrgUnderTest) -> None:
    """GetTopic refuses an unknown topic with one of two codes.

    Source: Handle Errors page and live logs, which differ.
    """
    assert refused(org.client.get_topic, UNKNOWN).what in {
        ("NOT_FOUND", "topic.not.found"),
        ("PERMISSION_DENIED", "topic.meta.permission"),
    }


def test_an_unknown_topic_is_not_found(org: OrgUnderTest) -> None:
    """The code is `topic.not.found`. Source: Handle Errors page."""
    assert refused(org.client.get_topic, UNKNOWN).what == ("NOT_FOUND", "topic.not.found")


def test_an_unknown_topic_lacks_permission(org: OrgUnderTest) -> None:
    """The code is `topic.meta.permission`, and the text names org and topic. Source: live logs."""
    found = refused(org.client.get_topic, UNKNOWN)
    assert found.what == ("PERMISSION_DENIED", "topic.meta.permission")
    assert f"topic {UNKNOWN}. Ensure the credentials and topic name are correct." in found.message
    assert f"CORE/prod/{org.headers['tenantid'][:15]}" in found.message


@pytest.mark.parametrize("name", ["", " "], ids=["empty", "blank"])
def test_a_topic_without_a_name_is_refused(org: OrgUnderTest, name: str) -> None:
    """The code of an empty topic is `topic.validation.empty`. Source: Handle Errors page."""
    found = refused(org.client.get_topic, name)
    assert found.what == ("INVALID_ARGUMENT", "topic.validation.empty")


def test_a_channel_can_be_subscribed_to(org: OrgUnderTest) -> None:
    """GetTopic knows a channel by name; its schema is not documented.

    Source: Subscribe to custom channels page.
    """
    info = org.client.get_topic(org.need("channel"))
    assert (info.topic_name, info.can_subscribe) == (org.channel, True)


def test_names_of_topics_are_case_sensitive(org: OrgUnderTest) -> None:
    """A topic in another case does not exist. Source: Subscribe to custom channels page."""
    assert refused(org.client.get_topic, org.topic.upper()).status != "OK"


def test_a_schema_comes_under_its_id(org: OrgUnderTest) -> None:
    """GetSchema returns the id with the event's record. Source: GetSchema RPC page."""
    answer = org.client.get_schema(org.schema_id)
    record = json.loads(answer.schema_json)
    assert answer.schema_id == org.schema_id
    assert (record["type"], record["name"]) == ("record", org.topic.rpartition("/")[2])


def test_a_schema_id_is_the_fingerprint(org: OrgUnderTest) -> None:
    """A schema id is the MD5 of the canonical form, in base64url without padding.

    Source: Event Schemas page.
    """
    assert fingerprint(org.client.get_schema(org.schema_id).schema_json) == org.schema_id


def test_the_namespace_is_the_event_bus(org: OrgUnderTest) -> None:
    """Records are of the namespace `com.sforce.eventbus`. Source: schemas of live orgs."""
    assert org.schema["namespace"] == "com.sforce.eventbus"


def test_created_fields_come_first_and_are_required(org: OrgUnderTest) -> None:
    """CreatedDate is a long and CreatedById a string, without null.

    Source: Schemas of live orgs.
    """
    assert [(field["name"], field["type"]) for field in org.schema["fields"][:2]] == [
        ("CreatedDate", "long"),
        ("CreatedById", "string"),
    ]


def test_custom_fields_may_be_null(org: OrgUnderTest) -> None:
    """A custom field is a union with null first, and null is its default.

    Source: Schemas of live orgs.
    """
    [field] = [one for one in org.schema["fields"] if one["name"] == TEXT]
    assert (field["type"], field["default"]) == (["null", "string"], None)


def test_a_fields_doc_has_its_role_and_type(org: OrgUnderTest) -> None:
    """Such as `Data:Text:00N...`, with the first 15 characters of the field's id.

    Source: Schemas of live orgs.
    """
    [field] = [one for one in org.schema["fields"] if one["name"] == TEXT]
    role, kind, field_id = field["doc"].split(":")
    assert (role, kind, field_id[:3], len(field_id)) == ("Data", "Text", "00N", 15)


@pytest.mark.parametrize("schema_id", ["", " "], ids=["empty", "blank"])
def test_a_schema_without_an_id_is_refused(org: OrgUnderTest, schema_id: str) -> None:
    """The code of an empty schema id is `schema.validation.failed`. Source: Handle Errors page."""
    found = refused(org.client.get_schema, schema_id)
    assert found.what == ("INVALID_ARGUMENT", "schema.validation.failed")


def test_an_unknown_schema_is_refused(org: OrgUnderTest) -> None:
    """An unknown schema is refused; the code is not documented. Source: GetSchema RPC page."""
    assert refused(org.client.get_schema, "A" * 22).status != "OK"
