"""Channels filter and enrich events; filtered events do not count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import ChannelMember, Emulator, EmulatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SALES = "/data/Sales__chn"


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator() as bus:
        yield bus
        bus.check()


def _said(bus: Emulator, channel: str = SALES) -> list[tuple[str, dict[str, Any]]]:
    """Type and values of each change event on a channel, without system fields."""
    found = []
    for event in bus.events(channel):
        fields = dict(event["fields"])
        header = fields.pop("ChangeEventHeader")
        stamps = {"OwnerId", "CreatedDate", "CreatedById", "LastModifiedDate", "LastModifiedById"}
        kept = {name: of for name, of in fields.items() if of is not None and name not in stamps}
        found.append((header["changeType"], kept))
    return found


def test_what_is_filtered_out_is_not_delivered(bus: Emulator, talk: Callable[..., Any]) -> None:
    """A filtered event is neither delivered nor counted, and stays on its own topic."""
    topic = bus.define_event("Order__e", {"Amount__c": "Double"})
    channel = bus.define_channel(
        "/event/Big__chn", [ChannelMember(topic="Order__e", filter="Amount__c > 10")]
    )
    replay_ids = bus.publish(topic, [{"Amount__c": n} for n in (5, 50, 6, 60)])

    async def read(client: Any) -> list[bytes]:
        stream = await client.subscribe(channel, 10)
        return [event.replay_id for event in await stream.take(2)]

    assert talk(bus, read) == [replay_ids[1], replay_ids[3]]
    assert bus.deliveries() == 2
    assert len(bus.events(topic)) == 4


def test_updates_and_deletions_are_filtered_by_the_whole_record(bus: Emulator) -> None:
    """Filter fields are added to updates and deletions, not as changed."""
    bus.define_object("Account")
    bus.define_channel(
        SALES,
        [
            ChannelMember(
                topic="Account",
                enriched_fields=("Name",),
                filter="Industry = 'Steel' AND BillingAddress.City != 'Rome'",
            )
        ],
    )
    nord = bus.create("Account", {"Name": "Nord", "Industry": "Steel"})
    sul = bus.create("Account", {"Name": "Sul", "Industry": "Wood"})
    bus.update([nord, sul], {"Phone": "1"})
    bus.update(sul, {"Industry": "Steel"})
    bus.update(nord, {"BillingCity": "Rome"})
    bus.delete([nord, sul])
    assert _said(bus) == [
        ("CREATE", {"Name": "Nord", "Industry": "Steel"}),
        ("UPDATE", {"Name": "Nord", "Industry": "Steel", "Phone": "1"}),
        ("UPDATE", {"Name": "Sul", "Industry": "Steel"}),
        ("DELETE", {"Name": "Sul", "Industry": "Steel"}),
    ]
    header = bus.events(SALES)[1]["fields"]["ChangeEventHeader"]
    assert header["changedFields"] == ["Phone", "LastModifiedDate"]
    assert len(bus.events("Account")) == 8


def test_gap_events_pass_every_filter(bus: Emulator) -> None:
    """Gap events pass every filter, because they have no values."""
    bus.define_object("Account")
    bus.define_channel(SALES, [ChannelMember(topic="Account", filter="Industry = 'Steel'")])
    account = bus.create("Account", {"Name": "Sul", "Industry": "Wood"})
    bus.update(account, {"Phone": "1"}, gap=True)
    assert [kind for kind, _ in _said(bus)] == ["GAP_UPDATE"]


def test_what_cannot_be_read_is_carried(bus: Emulator) -> None:
    """An event that does not decode passes every filter."""
    topic = bus.define_event("Order__e", {"Amount__c": "Double"})
    channel = bus.define_channel(
        "/event/Big__chn", [ChannelMember(topic=topic, filter="Amount__c > 10")]
    )
    bus.publish_raw(topic, b"\xff\xff")
    assert "undecodable" in bus.events(channel)[0]


def test_a_filter_counts_from_its_definition_on(bus: Emulator) -> None:
    """A filter applies to later events only, and its drops outlive it."""
    bus.define_event("Order__e", {"Amount__c": "Double"})
    channel = bus.define_channel("/event/Big__chn", ["Order__e"])
    bus.publish("Order__e", [{"Amount__c": 1}])
    bus.define_channel(channel, [ChannelMember(topic="Order__e", filter="Amount__c > 10")])
    bus.publish("Order__e", [{"Amount__c": 2}, {"Amount__c": 20}])
    bus.define_channel(channel, ["Order__e"])
    bus.publish("Order__e", [{"Amount__c": 3}])
    bus.reset_replay_ids()
    assert [one["fields"]["Amount__c"] for one in bus.events(channel)] == [1, 20, 3]
    bus.clock.advance(hours=73)
    assert bus.events(channel) == []


@pytest.mark.parametrize(
    ("name", "member", "why"),
    [
        (SALES, ChannelMember(topic="Account", filter="Nope = 1"), "no field 'Nope'"),
        (SALES, ChannelMember(topic="Account", enriched_fields=("Nope",)), "no field 'Nope'"),
        (
            SALES,
            ChannelMember(topic="Account", enriched_fields=("Name",) * 11),
            "at most 10",
        ),
        (SALES, ChannelMember(topic="Order__e"), "cannot carry"),
        (
            "/event/Big__chn",
            ChannelMember(topic="Order__e", enriched_fields=("Amount__c",)),
            "no fields to enrich",
        ),
        ("/event/Big__chn", ChannelMember(topic="Old__e"), "it is of standard volume"),
        ("/event/Big", ChannelMember(topic="Order__e"), "is not one of"),
        ("/event/Big_\u00c4hre__chn", ChannelMember(topic="Order__e"), "is not one of"),
    ],
)
def test_members_that_cannot_be(bus: Emulator, name: str, member: ChannelMember, why: str) -> None:
    """An impossible member is refused with its name, and no channel is created."""
    bus.define_object("Account")
    bus.define_event("Order__e", {"Amount__c": "Double"})
    bus.define_event("Old__e", {"Amount__c": "Double"}, standard_volume=True)
    with pytest.raises(EmulatorError, match=why):
        bus.define_channel(name, [member])
    assert bus.org.bus.topic(name) is None


def test_the_volume_of_an_event_stays(bus: Emulator) -> None:
    """A member of a channel cannot become an event of standard volume, which expires earlier."""
    bus.define_event("Order__e", {"Amount__c": "Double"})
    bus.define_channel("/event/Big__chn", ["Order__e"])
    with pytest.raises(EmulatorError, match="the volume of an event cannot be changed"):
        bus.define_event("Order__e", {"Amount__c": "Double"}, standard_volume=True)
