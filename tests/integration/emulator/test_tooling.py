"""An org's setup over the Tooling API: managed subscriptions, channels and their members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from airflow_provider_sfevents.emulator import ChannelMember, Emulator, Knobs
from tests.integration.emulator.resting import Rest, Said

if TYPE_CHECKING:
    from collections.abc import Iterator

MANAGED, CHANNEL, MEMBER = (
    f"/tooling/sobjects/{name}"
    for name in ("ManagedEventSubscription", "PlatformEventChannel", "PlatformEventChannelMember")
)
SETTINGS = {"label": "Mine", "topicName": "/event/Order__e", "state": "RUN"}


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(managed_propagation_seconds=0)) as bus:
        bus.define_event("Order__e", {"Amount__c": "Double"})
        yield bus
        bus.check()


@pytest.fixture
def rest(bus: Emulator) -> Rest:
    return Rest(bus)


def _query(rest: Rest, text: str, slash: str = "/", base: str = "") -> Said:
    return rest.ask("GET", f"{base}/tooling/query{slash}?q={quote(text)}")


def _managed(rest: Rest, name: str = "Mine", **settings: Any) -> Said:
    return rest.ask("POST", MANAGED, {"FullName": name, "Metadata": {**SETTINGS, **settings}})


def test_a_managed_subscription_as_clients_look_for_it(bus: Emulator, rest: Rest) -> None:
    """A subscription is found by name and by ids of both lengths."""
    made = _managed(rest, defaultReplay="EARLIEST")
    assert made.status == 201
    record_id = made.body["id"]
    assert made.body["success"]
    assert (record_id[:3], len(record_id)) == ("18x", 18)
    assert bus.managed_subscriptions[0].id == record_id
    for where in ("DeveloperName='Mine'", f"Id='{record_id}'", f"Id = '{record_id[:15]}'"):
        for slash in ("/", ""):
            text = (
                "SELECT Id, DeveloperName, Metadata "  # noqa: S608
                f"FROM ManagedEventSubscription WHERE {where} LIMIT 1"
            )
            found = _query(rest, text, slash)
            assert (found.status, found.body["size"], found.body["done"]) == (200, 1, True)
            [record] = found.body["records"]
            assert (record["Id"], record["DeveloperName"]) == (record_id, "Mine")
            assert record["Metadata"] == {
                "label": "Mine",
                "topicName": "/event/Order__e",
                "defaultReplay": "EARLIEST",
                "errorRecoveryReplay": "LATEST",
                "state": "RUN",
                "version": 64.0,
            }
    none = _query(rest, "SELECT Id FROM ManagedEventSubscription WHERE DeveloperName='Other'")
    assert (none.body["size"], none.body["records"]) == (0, [])


def test_a_managed_subscription_is_changed_and_removed(bus: Emulator, rest: Rest) -> None:
    """A change keeps the fields that it does not name."""
    path = f"{MANAGED}/{_managed(rest).body['id']}"
    assert rest.ask("PATCH", path, {"Metadata": {"state": "STOP"}}).status == 204
    assert rest.ask("PATCH", path, {"FullName": "Other", "Metadata": SETTINGS}).status == 204
    assert rest.ask("PATCH", path, {"Metadata": {"state": "STOP"}}).status == 204
    read = rest.ask("GET", path)
    assert (read.status, read.body["DeveloperName"], read.body["State"]) == (200, "Other", "STOP")
    assert read.body["Metadata"]["topicName"] == "/event/Order__e"
    assert read.body["attributes"]["url"] == f"/services/data/v64.0{path}"
    assert rest.ask("DELETE", path).status == 204
    assert rest.ask("GET", path).code == "NOT_FOUND"
    assert bus.managed_subscriptions == ()


@pytest.mark.parametrize(
    ("settings", "code", "text"),
    [
        ({"state": "PAUSE"}, "INVALID_INPUT", "only to RUN or STOP"),
        ({"topicName": "/event/None__e"}, "INVALID_INPUT", "/event/None__e"),
        ({"topicName": None}, "REQUIRED_FIELD_MISSING", "topicName"),
        ({"defaultReplay": "NEVER"}, "INVALID_INPUT", "NEVER"),
        ({"colour": "blue"}, "INVALID_FIELD", "colour"),
    ],
)
def test_a_managed_subscription_that_cannot_be(
    bus: Emulator, rest: Rest, settings: dict[str, Any], code: str, text: str
) -> None:
    """An impossible subscription is refused with its reason."""
    refused = _managed(rest, **settings)
    assert (refused.status, refused.code) == (400, code)
    assert text in refused.body[0]["message"]
    assert bus.managed_subscriptions == ()


def test_a_channel_from_setup_to_its_events(bus: Emulator, rest: Rest) -> None:
    """A channel gets a member that filters and enriches, and loses it again."""
    made = rest.ask(
        "POST",
        CHANNEL,
        {"FullName": "Big__chn", "Metadata": {"channelType": "data", "label": "Big deals"}},
    )
    assert (made.status, made.body["id"][:3]) == (201, "0YL")
    settings = {
        "eventChannel": "Big__chn",
        "selectedEntity": "OpportunityChangeEvent",
        "enrichedFields": [{"name": "Name"}],
        "filterExpression": "Amount > 10",
    }
    member = rest.ask("POST", MEMBER, {"FullName": "Big_Opportunity", "Metadata": settings})
    assert (member.status, member.body["id"][:3]) == (201, "0v8")
    path = f"{MEMBER}/{member.body['id']}"
    assert rest.ask("GET", path).body["Metadata"] == settings
    fields = {"Name": "A", "StageName": "Won", "CloseDate": "2026-05-20"}
    small = bus.create("Opportunity", {**fields, "Amount": 5})
    bus.update(small, {"Amount": 50})
    [event] = bus.events("/data/Big__chn")
    assert event["fields"]["Name"] == "A"
    assert rest.ask("PATCH", path, {"Metadata": {"filterExpression": None}}).status == 204
    assert rest.ask("GET", path).body["FilterExpression"] is None
    assert rest.ask("GET", path).body["Metadata"]["enrichedFields"] == [{"name": "Name"}]
    bus.update(small, {"Amount": 6})
    assert len(bus.events("/data/Big__chn")) == 2
    assert rest.ask("DELETE", path).status == 204
    bus.update(small, {"Amount": 7})
    assert len(bus.events("Opportunity")) == 4
    assert bus.events("/data/Big__chn") == []
    assert rest.ask("DELETE", f"{CHANNEL}/{made.body['id']}").status == 204
    assert bus.org.bus.topic("/data/Big__chn") is None


def test_what_an_org_offers(bus: Emulator, rest: Rest) -> None:
    """Channels and members are listed; whole records are returned one at a time."""
    bus.define_object("Account")
    bus.define_channel("/event/All__chn", ["Order__e"])
    bus.define_channel("/data/Some__chn", [ChannelMember(topic="Account", filter="Name != null")])
    channels = _query(
        rest, "SELECT DeveloperName, MasterLabel, ChannelType FROM PlatformEventChannel"
    )
    assert [
        (one["DeveloperName"], one["MasterLabel"], one["ChannelType"])
        for one in channels.body["records"]
    ] == [("All", "All", "event"), ("Some", "Some", "data")]
    members = _query(
        rest,
        "SELECT Id, EventChannel, SelectedEntity, FilterExpression FROM PlatformEventChannelMember",
    )
    assert [
        (one["EventChannel"], one["SelectedEntity"], one["FilterExpression"])
        for one in members.body["records"]
    ] == [
        ("ChangeEvents", "AccountChangeEvent", None),
        ("All__chn", "Order__e", None),
        ("Some__chn", "AccountChangeEvent", "Name != null"),
    ]
    whole = _query(rest, "SELECT Metadata FROM PlatformEventChannelMember")
    assert (whole.status, whole.code) == (400, "MALFORMED_QUERY")
    assert "no more than one row for retrieval. Result size: 3" in whole.body[0]["message"]
    assert _query(rest, "SELECT COUNT() FROM PlatformEventChannelMember").body["size"] == 3


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (
            CHANNEL,
            {"FullName": "X", "Metadata": {"channelType": "data", "label": "X"}},
            "INVALID_INPUT",
        ),
        (
            CHANNEL,
            {"FullName": "X__chn", "Metadata": {"channelType": "x", "label": "X"}},
            "INVALID_INPUT",
        ),
        (CHANNEL, {"Metadata": {"channelType": "data", "label": "X"}}, "REQUIRED_FIELD_MISSING"),
        (
            CHANNEL,
            {"FullName": "All__chn", "Metadata": {"channelType": "data", "label": "X"}},
            "DUPLICATE_DEVELOPER_NAME",
        ),
        (
            MEMBER,
            {
                "FullName": "A",
                "Metadata": {"eventChannel": "None__chn", "selectedEntity": "Order__e"},
            },
            "INVALID_INPUT",
        ),
        (
            MEMBER,
            {
                "FullName": "A",
                "Metadata": {"eventChannel": "All__chn", "selectedEntity": "None__e"},
            },
            "INVALID_INPUT",
        ),
        (
            MEMBER,
            {
                "FullName": "A",
                "Metadata": {"eventChannel": "All__chn", "selectedEntity": "Order__e"},
            },
            "INVALID_INPUT",
        ),
        (
            MEMBER,
            {
                "FullName": "A",
                "Metadata": {"eventChannel": "All__chn", "selectedEntity": "AccountChangeEvent"},
            },
            "INVALID_INPUT",
        ),
        ("/tooling/sobjects/ApexClass", {}, "NOT_FOUND"),
    ],
)
def test_setup_that_cannot_be(
    bus: Emulator, rest: Rest, path: str, body: dict[str, Any], code: str
) -> None:
    """Names, kinds and members are checked before anything is created."""
    bus.define_channel("/event/All__chn", ["Order__e"])
    before = [one.members for one in bus.org.bus.topics if one.kind == "channel"]
    assert rest.ask("POST", path, body).code == code
    assert [one.members for one in bus.org.bus.topics if one.kind == "channel"] == before


def test_a_member_stays_where_it_is(bus: Emulator, rest: Rest) -> None:
    """A member's channel and event are fixed, and so is a channel's type."""
    bus.define_channel("/event/All__chn", ["Order__e"])
    [member] = _query(rest, "SELECT Id FROM PlatformEventChannelMember").body["records"]
    [channel] = _query(rest, "SELECT Id FROM PlatformEventChannel").body["records"]
    for path, metadata in (
        (f"{MEMBER}/{member['Id']}", {"eventChannel": "Other__chn"}),
        (f"{MEMBER}/{member['Id']}", {"selectedEntity": "Other__e"}),
        (f"{CHANNEL}/{channel['Id']}", {"channelType": "data"}),
    ):
        assert rest.ask("PATCH", path, {"Metadata": metadata}).code == "INVALID_INPUT"
    path = f"{CHANNEL}/{channel['Id']}"
    assert rest.ask("PATCH", path, {"Metadata": {"label": "Every order"}}).status == 204
    assert rest.ask("GET", path).body["MasterLabel"] == "Every order"


def test_setup_is_refused_on_order(bus: Emulator, rest: Rest) -> None:
    """An ordered 403 refuses setup, and unknown objects are refused."""
    bus.fail_next("rest", status="PERMISSION_DENIED")
    refused = _query(rest, "SELECT Id FROM PlatformEventChannel")
    assert (refused.status, refused.code) == (403, "INSUFFICIENT_ACCESS")
    assert _query(rest, "SELECT Id FROM ApexClass").code == "INVALID_TYPE"


def test_a_folder_keeps_the_setup(tmp_path: Any) -> None:
    """Channels, labels, filters and removals survive a restart."""
    text = "SELECT Id, EventChannel, FilterExpression FROM PlatformEventChannelMember"
    with Emulator(folder=tmp_path) as bus:
        bus.define_event("Order__e", {"Amount__c": "Double"})
        bus.define_channel("/event/Gone__chn", ["Order__e"])
        bus.define_channel(
            "/event/Big__chn", [ChannelMember(topic="Order__e", filter="Amount__c > 10")]
        )
        bus.publish("Order__e", [{"Amount__c": 5}, {"Amount__c": 50}])
        rest = Rest(bus)
        gone = _query(rest, "SELECT Id FROM PlatformEventChannel WHERE DeveloperName = 'Gone'")
        rest.ask("DELETE", f"{CHANNEL}/{gone.body['records'][0]['Id']}")
        bus.reset_replay_ids()
        kept, said = _query(rest, text).body, bus.events("/event/Big__chn")
        bus.check()
    with Emulator(folder=tmp_path) as bus:
        assert _query(Rest(bus), text).body == kept
        assert bus.events("/event/Big__chn") == said
        assert [one["fields"]["Amount__c"] for one in said] == [50]
        bus.publish("Order__e", [{"Amount__c": 6}, {"Amount__c": 60}])
        assert len(bus.events("/event/Big__chn")) == 2
        bus.check()
