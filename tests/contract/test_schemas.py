"""Avro schemas of events: layout, types and changes of fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.changing import decoded
from tests.contract.fingerprints import fingerprint

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.contract.orgs import OrgUnderTest

STRINGS = {"type": "array", "items": "string"}
HEADER = [
    ("entityName", "string"),
    ("recordIds", STRINGS),
    ("changeType", "ChangeType"),
    ("changeOrigin", "string"),
    ("transactionKey", "string"),
    ("sequenceNumber", "int"),
    ("commitTimestamp", "long"),
    ("commitNumber", "long"),
    ("commitUser", "string"),
    ("nulledFields", STRINGS),
    ("diffFields", STRINGS),
    ("changedFields", STRINGS),
]
ACCOUNT = {
    "Name": ("string", "Data:Text"),
    "Type": ("string", "Data:DynamicEnum"),
    "ParentId": ("string", "ForeignKey:EntityId"),
    "Phone": ("string", "Data:Phone"),
    "Website": ("string", "Data:Url"),
    "AnnualRevenue": ("double", "Data:Currency"),
    "NumberOfEmployees": ("int", "Data:Integer"),
    "Description": ("string", "Data:StringPlusClob"),
    "CreatedDate": ("long", "CreatedDate:DateTime"),
    "CreatedById": ("string", "CreatedBy:EntityId"),
    "LastModifiedDate": ("long", "Data:DateTime"),
}
"""In the order live orgs have them."""
ADDRESS = [
    *(("Street", "string"), ("City", "string"), ("State", "string"), ("PostalCode", "string")),
    *(("Country", "string"), ("Latitude", "double"), ("Longitude", "double")),
    ("GeocodeAccuracy", "string"),
]
SOMETIMES = {"StateCode", "CountryCode", "Xyz"}
# A custom field's type in setup; in Avro; in `doc`; what REST is given; what the event has.
CUSTOM = [
    ("Text", "string", "Text", "a", "a"),
    ("TextArea", "string", "Text", "a b", "a b"),
    ("Html", "string", "HtmlStringPlusClob", "<b>a</b>", "<b>a</b>"),
    ("Email", "string", "Email", "a@example.com", "a@example.com"),
    ("Url", "string", "Url", "https://example.com", "https://example.com"),
    ("Phone", "string", "Phone", "555 0100", "555 0100"),
    ("Picklist", "string", "DynamicEnum", "Won", "Won"),
    ("MultiselectPicklist", "string", "MultiEnum", "a;b", "a;b"),
    ("EncryptedText", "string", "EncryptedText", "x", "x"),
    ("Number", "double", "Double", 1.5, 1.5),
    ("Currency", "double", "Currency", 12.25, 12.25),
    ("Percent", "double", "Percent", 50, 50.0),
    ("Checkbox", "boolean", "Boolean", True, True),
    ("DateTime", "long", "DateTime", "2026-01-05T12:00:00.000Z", 1_767_614_400_000),
    ("Date", "long", "DateOnly", "2026-01-05", 1_767_571_200_000),
    ("Time", "long", "TimeOnly", "01:00:00.500Z", 3_600_500),
]


@pytest.fixture(scope="module")
def changes(org: OrgUnderTest) -> dict[str, Any]:
    """Schema of an object's change events; its id is its fingerprint."""
    topic = org.client.get_topic(f"/data/{org.need('entity')}ChangeEvent")
    answer = org.client.get_schema(topic.schema_id)
    assert fingerprint(answer.schema_json) == topic.schema_id
    return dict(json.loads(answer.schema_json))


def _record(field: dict[str, Any]) -> dict[str, Any]:
    """Record among a field's branches."""
    [found] = [one for one in field["type"] if isinstance(one, dict)]
    return dict(found)


# --- platform events ------------------------------------------------------------------------------


def test_a_schema_has_these_keys_in_this_order(org: OrgUnderTest) -> None:
    """A schema and its optional fields have fixed keys; `uuid` is REST's.

    Source: Schemas of live orgs.
    """
    assert list(org.schema) == ["type", "name", "namespace", "fields"]
    assert [list(field) for field in org.schema["fields"][2:]] == [
        ["name", "type", "doc", "default"] for _ in org.schema["fields"][2:]
    ]


def test_there_are_no_logical_types(org: OrgUnderTest) -> None:
    """Times are plain longs. Source: schemas of live orgs."""
    assert "logicalType" not in json.dumps(org.schema)


# --- change events --------------------------------------------------------------------------------


def test_a_change_event_is_named_after_its_object(
    org: OrgUnderTest, changes: dict[str, Any]
) -> None:
    """`AccountChangeEvent` is in the event bus's namespace. Source: schemas of live orgs."""
    entity = org.need("entity").removesuffix("__c")
    suffix = "__ChangeEvent" if org.entity.endswith("__c") else "ChangeEvent"
    assert changes["name"] == entity + suffix
    assert changes["namespace"] == "com.sforce.eventbus"


def test_the_change_event_header(changes: dict[str, Any]) -> None:
    """The header has twelve non-null fields in this order. Source: schemas of live orgs."""
    header = changes["fields"][0]
    assert (header["name"], header["doc"]) == ("ChangeEventHeader", "Data:ComplexValueType")
    fields = [(one["name"], one["type"]) for one in header["type"]["fields"]]
    kinds = [
        (name, kind["name"] if name == "changeType" else {**kind} if name.endswith("s") else kind)
        for name, kind in fields
    ]
    assert kinds == HEADER


def test_the_enumeration_has_no_namespace(changes: dict[str, Any]) -> None:
    """The enumeration has an empty namespace, unlike its record. Source: schemas of live orgs."""
    [kind] = [one for one in changes["fields"][0]["type"]["fields"] if one["name"] == "changeType"]
    assert (kind["type"]["type"], kind["type"].get("namespace")) == ("enum", "")


@pytest.mark.parametrize("name", ACCOUNT)
def test_types_of_an_accounts_fields(org: OrgUnderTest, changes: dict[str, Any], name: str) -> None:
    """Fields have Avro's type and, in `doc`, Salesforce's. Source: schemas of live orgs."""
    _need_account(org)
    [field] = [one for one in changes["fields"] if one["name"] == name]
    if name == "Name" and len(field["type"]) > 2:
        pytest.skip("the org has person accounts, whose name may be a record")
    kind, doc = ACCOUNT[name]
    assert (field["type"], field["doc"]) == (["null", kind], doc)


def test_an_accounts_fields_keep_their_order(org: OrgUnderTest, changes: dict[str, Any]) -> None:
    """Account fields keep their order among an org's other fields. Source: schemas of live orgs."""
    _need_account(org)
    names = [field["name"] for field in changes["fields"]]
    assert [name for name in names if name in ACCOUNT] == list(ACCOUNT)


def test_an_address_is_a_record(org: OrgUnderTest, changes: dict[str, Any]) -> None:
    """An address has these optional members, and maybe state and country codes.

    Source: Schemas of live orgs.
    """
    _need_account(org)
    [field] = [one for one in changes["fields"] if one["name"] == "BillingAddress"]
    assert (field["type"][0], field["doc"]) == ("null", "Data:Address")
    record = _record(field)
    assert record["name"] == "Address"
    found = [(one["name"], one["type"]) for one in record["fields"] if one["name"] not in SOMETIMES]
    assert found == [(name, ["null", kind]) for name, kind in ADDRESS]


def test_a_second_address_refers_to_the_first(org: OrgUnderTest, changes: dict[str, Any]) -> None:
    """A second address refers to the first one's record by name. Source: schemas of live orgs."""
    _need_account(org)
    [field] = [one for one in changes["fields"] if one["name"] == "ShippingAddress"]
    assert field["type"] == ["null", "Address"]


def _need_account(org: OrgUnderTest) -> None:
    if org.need("entity") != "Account":
        pytest.skip(f"{org.entity} has other fields than Account")


# --- every type -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def custom(org: OrgUnderTest) -> Any:
    """A new record of a custom object with a field of each type, and a location."""
    emulator = org.staged("a custom object would be left behind")
    fields = {f"{kind}__c": kind for kind, *_ in CUSTOM}
    topic = emulator.define_object("Every__c", {**fields, "Home__c": "Location"})
    base = org.base()
    values = {f"{kind}__c": value for kind, _, _, value, _ in CUSTOM}
    home = {"Home__Latitude__s": 41.15, "Home__Longitude__s": -8.61}
    answer = org.rest("POST", "sobjects/Every__c", {"Name": "each", **values, **home})
    assert answer.status_code == 201, answer.text
    with org.after(base, 1, topic=topic) as stream:
        return decoded(org, stream.take(1)[0])


@pytest.mark.parametrize(
    ("kind", "avro", "doc", "_given", "got"), CUSTOM, ids=[c[0] for c in CUSTOM]
)
def test_a_field_of_each_type(
    custom: Any, kind: str, avro: str, doc: str, _given: Any, got: Any
) -> None:
    """Numbers are doubles; times are milliseconds of UTC, of midnight or since it.

    Source: Schemas of live orgs, CDC guide.
    """
    [field] = [one for one in custom.schema["fields"] if one["name"] == f"{kind}__c"]
    assert field["type"] == ["null", avro]
    assert field["doc"].split(":")[:2] == ["Data", doc]
    assert custom.record[f"{kind}__c"] == got


def test_a_place_is_a_record(custom: Any) -> None:
    """A location has latitude and longitude. Source: schemas of live orgs."""
    [field] = [one for one in custom.schema["fields"] if one["name"] == "Home__c"]
    record = _record(field)
    assert record["name"] == "Location"
    assert [one["name"] for one in record["fields"]][:2] == ["Latitude", "Longitude"]
    assert custom.record["Home__c"]["Latitude"] == 41.15


def test_a_custom_objects_change_event_is_named_so(custom: Any) -> None:
    """`Every__c` has `Every__ChangeEvent`. Source: schemas of live orgs."""
    assert custom.schema["name"] == "Every__ChangeEvent"


# --- fields that change ---------------------------------------------------------------------------


@pytest.fixture
def evolving(org: OrgUnderTest) -> Emulator:
    emulator = org.staged("a user must change the fields of the event")
    if not any(one.name == "/event/Evolving__e" for one in emulator.org.bus.topics):
        emulator.define_event("Evolving__e", {"A__c": "Text"})
    return emulator


@pytest.mark.parametrize(
    ("add", "remove"),
    [({"B__c": "Text"}, []), ({}, ["B__c"]), ({"A__c": "Double"}, ["A__c"])],
    ids=["added", "removed", "another type"],
)
def test_another_field_is_another_schema(
    org: OrgUnderTest, evolving: Emulator, add: dict[str, str], remove: list[str]
) -> None:
    """Each schema version has an id, and earlier ones are still answered.

    Source: Event Schemas page.
    """
    before = evolving.schema_id("Evolving__e")
    if remove == ["B__c"] and '"B__c"' not in org.client.get_schema(before).schema_json:
        before = evolving.evolve("Evolving__e", {"B__c": "Text"})
    evolving.evolve("Evolving__e", add, remove=remove)
    after = org.client.get_topic("/event/Evolving__e").schema_id
    assert before != after
    for schema_id in (before, after):
        assert fingerprint(org.client.get_schema(schema_id).schema_json) == schema_id


def test_events_keep_the_schema_they_were_published_with(
    org: OrgUnderTest, evolving: Emulator
) -> None:
    """Events before and after a change keep their schemas. Source: Event Schemas page."""
    topic = evolving.define_event("Kept__e", {"A__c": "Text"})
    base = org.base()
    evolving.publish(topic, [{"A__c": "before"}])
    evolving.evolve("Kept__e", {"B__c": "Double"})
    evolving.publish(topic, [{"A__c": "after", "B__c": 2}])
    with org.after(base, 2, topic=topic) as stream:
        first, second = (decoded(org, one) for one in stream.take(2))
    assert first.event.event.schema_id != second.event.event.schema_id
    assert (first.record["A__c"], "B__c" in first.record) == ("before", False)
    assert (second.record["A__c"], second.record["B__c"]) == ("after", 2.0)


def test_the_same_fields_have_the_same_id_in_every_org(
    org: OrgUnderTest, evolving: Emulator
) -> None:
    """Hints and defaults are not part of the schema id.

    Source: Event Schemas page, Avro specification.
    """
    elsewhere = evolving.add_org()
    elsewhere.define_event("Padding__e", {"X__c": "Text"})
    one, other = (
        each.define_event("Twin__e", {"A__c": "Text", "B__c": "Double"})
        for each in (evolving, elsewhere)
    )
    assert one == other
    assert evolving.schema_id("Twin__e") == elsewhere.schema_id("Twin__e")
