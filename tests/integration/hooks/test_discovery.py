"""Topics and allowances of an org by the hook, without a delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import ChannelMember, Emulator, Knobs
from airflow_provider_sfevents.exceptions import TopicError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.rest.org_limits import DELIVERIES
from airflow_provider_sfevents.pubsub.topic_names import TopicKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    """An org with a topic of each kind."""
    with Emulator(knobs=Knobs(delivery_allocation=100, half_close_seconds=0.01)) as bus:
        bus.define_event("Order__e", {"Amount__c": "Double", "City__c": "Text"})
        bus.define_event("Secret__e", {"City__c": "Text"}, can_subscribe=False, can_publish=False)
        bus.define_event("LoginEventStream", {"Username": "Text"}, can_publish=False)
        bus.define_entity("Account", {"Name": "Text", "Phone": "Phone"})
        bus.define_entity("Parcel__c", {"Weight__c": "Double"}, selected=False)
        bus.define_channel("/event/Sales__chn", ["Order__e"])
        parcels = ChannelMember(
            topic="Parcel__c", enriched_fields=("Weight__c",), filter="Weight__c > 5"
        )
        bus.define_channel("/data/Parcels__chn", [parcels])
        yield bus
        assert bus.deliveries() == 0
        bus.check()


@pytest.fixture
def hook(bus: Emulator, connect: Callable[..., str]) -> SfEventsHook:
    return SfEventsHook(connect(bus.connection()))


def test_topics_of_every_kind(hook: SfEventsHook) -> None:
    """Topics are listed by kind and name; unselected objects only on request."""
    found = {one.topic: one for one in hook.list_topics()}
    assert {topic: one.kind for topic, one in found.items()} == {
        "/event/Order__e": TopicKind.PLATFORM_EVENT,
        "/event/Secret__e": TopicKind.PLATFORM_EVENT,
        "/event/LoginEventStream": TopicKind.MONITORING,
        "/data/AccountChangeEvent": TopicKind.CHANGES,
        "/event/Sales__chn": TopicKind.EVENT_CHANNEL,
        "/data/ChangeEvents": TopicKind.CHANGE_CHANNEL,
        "/data/Parcels__chn": TopicKind.CHANGE_CHANNEL,
    }
    assert found["/data/ChangeEvents"].members == ("AccountChangeEvent",)
    assert found["/event/Sales__chn"].members == ("Order__e",)
    assert found["/data/Parcels__chn"].members == ("Parcel__ChangeEvent",)
    every = {one.topic: one.selected for one in hook.list_topics(unselected=True)}
    assert every["/data/AccountChangeEvent"] is True
    assert every["/data/Parcel__ChangeEvent"] is False


def test_a_platform_event(hook: SfEventsHook, bus: Emulator) -> None:
    """A platform event has fields with types, the user's permissions, and counts as delivered."""
    found = hook.describe_topic("/event/Order__e")
    [event] = found.events
    assert (found.can_publish, found.can_subscribe, found.counted) == (True, True, True)
    assert (event.name, event.schema_id) == ("Order__e", bus.schema_id("Order__e"))
    fields = {one.name: (one.type, one.salesforce_type, one.nullable) for one in event.fields}
    assert fields == {
        "CreatedDate": ("long", "DateTime", False),
        "CreatedById": ("string", "EntityId", False),
        "Amount__c": ("double", "Double", True),
        "City__c": ("string", "Text", True),
    }


def test_what_the_user_may_not(hook: SfEventsHook) -> None:
    """A topic that the user may see but not subscribe to is described as such."""
    found = hook.describe_topic("/event/Secret__e")
    assert (found.can_publish, found.can_subscribe) == (False, False)


def test_a_monitoring_stream_does_not_count(hook: SfEventsHook) -> None:
    """Deliveries of a monitoring stream do not count against the allowance."""
    found = hook.describe_topic("/event/LoginEventStream")
    assert (found.kind, found.counted) == (TopicKind.MONITORING, False)


def test_a_channel_has_several_types(hook: SfEventsHook) -> None:
    """Each member of a channel has its schema, filter and enriched fields."""
    found = hook.describe_topic("/data/Parcels__chn")
    [member] = found.events
    assert (member.name, member.enriched, member.filter) == (
        "Parcel__ChangeEvent",
        ("Weight__c",),
        "Weight__c > 5",
    )
    assert "Weight__c" in [one.name for one in member.fields]
    every = hook.describe_topic("/data/ChangeEvents")
    assert [one.name for one in every.events] == ["AccountChangeEvent"]
    assert every.events[0].fields[0].name == "ChangeEventHeader"


def test_no_such_topic(hook: SfEventsHook) -> None:
    """Describing a missing topic raises `TopicError`."""
    with pytest.raises(TopicError, match="/event/Oder__e"):
        hook.describe_topic("/event/Oder__e")
    with pytest.raises(TopicError, match="is no topic"):
        hook.describe_topic("Order__e")


def test_what_is_left(hook: SfEventsHook) -> None:
    """The allowances are the org's own figures, of events and others."""
    found = hook.limits()
    assert (found[DELIVERIES].most, found[DELIVERIES].left) == (100, 100)
    assert found["HourlyPublishedPlatformEvents"].most == 250_000
