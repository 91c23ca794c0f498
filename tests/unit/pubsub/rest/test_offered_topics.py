"""Topics that an org offers, from the lists of its REST API."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.pubsub.rest.offered_topics import (
    EventChannelMember,
    OfferedTopic,
    offered,
)
from airflow_provider_sfevents.pubsub.topic_names import TopicKind, channel_of, kind_of, topic_of


def listed(name: str, *, queryable: bool = False, label: str = "") -> dict[str, Any]:
    return {"name": name, "label": label, "queryable": queryable}


OBJECTS = [
    listed("Account", queryable=True),
    listed("Event", queryable=True),
    listed("LoginEvent", queryable=True),
    listed("Order__e", label="Order"),
    listed("acme__Order__e"),
    listed("AccountChangeEvent"),
    listed("Parcel__ChangeEvent"),
    listed("BatchApexErrorEvent"),
    listed("LoginEventStream"),
]
CHANNELS: list[dict[str, Any]] = [
    {"Id": "0YL1", "DeveloperName": "Sales", "MasterLabel": "Sales", "ChannelType": "event"},
    {
        "Id": "0YL2",
        "DeveloperName": "Lager",
        "MasterLabel": None,
        "ChannelType": "data",
        "NamespacePrefix": "acme",
    },
]
MEMBERS = [
    EventChannelMember(channel="ChangeEvents", event="AccountChangeEvent"),
    EventChannelMember(channel="Sales__chn", event="Order__e"),
    EventChannelMember(channel="Sales__chn", event="Bill__e"),
    EventChannelMember(channel="acme__Lager__chn", event="Parcel__ChangeEvent"),
]


def test_everything_has_its_topic() -> None:
    """Events and channels become topics in order of kind and name; other objects are left out."""
    found = offered(OBJECTS, CHANNELS, MEMBERS)
    assert [(one.topic, one.kind) for one in found] == [
        ("/event/Order__e", TopicKind.PLATFORM_EVENT),
        ("/event/acme__Order__e", TopicKind.PLATFORM_EVENT),
        ("/event/BatchApexErrorEvent", TopicKind.STANDARD_EVENT),
        ("/event/LoginEventStream", TopicKind.MONITORING),
        ("/data/AccountChangeEvent", TopicKind.CHANGES),
        ("/event/Sales__chn", TopicKind.EVENT_CHANNEL),
        ("/data/ChangeEvents", TopicKind.CHANGE_CHANNEL),
        ("/data/acme__Lager__chn", TopicKind.CHANGE_CHANNEL),
    ]
    members = {one.topic: one.members for one in found if one.members}
    assert members == {
        "/event/Sales__chn": ("Bill__e", "Order__e"),
        "/data/ChangeEvents": ("AccountChangeEvent",),
        "/data/acme__Lager__chn": ("Parcel__ChangeEvent",),
    }


@pytest.mark.parametrize(
    ("members", "unselected", "selected"),
    [
        (MEMBERS, False, {"/data/AccountChangeEvent": True}),
        (MEMBERS, True, {"/data/AccountChangeEvent": True, "/data/Parcel__ChangeEvent": False}),
        (None, False, {"/data/AccountChangeEvent": None, "/data/Parcel__ChangeEvent": None}),
        ([], False, {}),
    ],
    ids=["selected", "all", "not known", "none selected"],
)
def test_change_events_of_selected_objects(
    members: list[EventChannelMember] | None, unselected: bool, selected: dict[str, bool | None]
) -> None:
    """Only selected objects are listed, or all of them if the selection is unknown."""
    found = offered(OBJECTS, [], members, unselected=unselected)
    assert {one.topic: one.selected for one in found if one.kind is TopicKind.CHANGES} == selected


def test_an_empty_org() -> None:
    """An org without events still offers the channel of all changes."""
    assert offered([], [], []) == [
        OfferedTopic(
            topic="/data/ChangeEvents", kind=TopicKind.CHANGE_CHANNEL, label="All selected objects"
        )
    ]


@pytest.mark.parametrize(
    ("topic", "channel", "kind"),
    [
        ("/event/Order__e", None, TopicKind.PLATFORM_EVENT),
        ("/event/LoginEventStream", None, TopicKind.MONITORING),
        ("/event/FlowExecutionErrorEvent", None, TopicKind.STANDARD_EVENT),
        ("/event/Sales__chn", "Sales__chn", TopicKind.EVENT_CHANNEL),
        ("/data/Parcel__ChangeEvent", None, TopicKind.CHANGES),
        ("/data/ChangeEvents", "ChangeEvents", TopicKind.CHANGE_CHANNEL),
        ("/data/acme__Lager__chn", "acme__Lager__chn", TopicKind.CHANGE_CHANNEL),
    ],
)
def test_a_topic_tells_what_it_is(topic: str, channel: str | None, kind: TopicKind) -> None:
    """A topic's name shows its kind, and a single event's topic leads back to itself."""
    assert (channel_of(topic), kind_of(topic)) == (channel, kind)
    if channel is None:
        assert topic_of(topic.rpartition("/")[2]) == topic
