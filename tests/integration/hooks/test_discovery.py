"""Topics and allowances of an org by the hook, without a delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import ChannelMember, Emulator, Knobs
from airflow_provider_sfevents.exceptions import TopicError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
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


def test_what_the_user_may_not(hook: SfEventsHook) -> None:
    """A topic that the user may see but not subscribe to is described as such."""
    found = hook.describe_topic("/event/Secret__e")
    assert (found.can_publish, found.can_subscribe) == (False, False)


def test_a_monitoring_stream_does_not_count(hook: SfEventsHook) -> None:
    """Deliveries of a monitoring stream do not count against the allowance."""
    found = hook.describe_topic("/event/LoginEventStream")
    assert (found.kind, found.counted) == (TopicKind.MONITORING, False)


def test_no_such_topic(hook: SfEventsHook) -> None:
    """Describing a missing topic raises `TopicError`."""
    with pytest.raises(TopicError, match="/event/Oder__e"):
        hook.describe_topic("/event/Oder__e")
    with pytest.raises(TopicError, match="is no topic"):
        hook.describe_topic("Order__e")
