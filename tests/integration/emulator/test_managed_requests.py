"""Requests of a managed stream, and setup changes while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.managing import ManagedCall, managed_topic, refused

Talk = Callable[..., Any]
MANAGED = "managed.subscription."
QUICK = Knobs(half_close_seconds=0.01, slot_hold_seconds=0.0, commit_response_seconds=0.02)


def test_the_id_can_count_where_both_are_given(talk: Talk) -> None:
    """The knob accepts a request with both id and name."""
    knobs = Knobs(half_close_seconds=0.01, slot_hold_seconds=0.0, managed_id_and_name="id")
    with Emulator(knobs=knobs) as bus:
        managed_topic(bus, 1)
        [config] = bus.managed_subscriptions

        async def scenario(client: Any) -> list[Any]:
            call = await ManagedCall.opened(client, subscription_id=config.id, developer_name="Sea")
            return await call.take(1)

        assert len(talk(bus, scenario)) == 1


@pytest.mark.parametrize(
    ("act", "status", "code", "later"),
    [
        (
            lambda bus: bus.set_managed_subscription("Lake", state="STOP"),
            "FAILED_PRECONDITION",
            "config.stopped",
            "config.stopped",
        ),
        (
            lambda bus: bus.delete_managed_subscription("Lake"),
            "NOT_FOUND",
            "config.deleted",
            "developer.name.not.found",
        ),
    ],
    ids=["stop", "delete"],
)
def test_setup_ends_a_running_stream(
    talk: Talk, act: Callable[[Emulator], Any], status: str, code: str, later: str
) -> None:
    """Stopping or deleting a subscription ends its stream and refuses the next."""
    with Emulator(knobs=QUICK) as bus:
        managed_topic(bus, 1)

        async def scenario(client: Any) -> Any:
            call = await ManagedCall.opened(client, developer_name="Lake")
            [event] = await call.take(1)
            await call.commit(event.replay_id)
            await call.answer()
            await asyncio.to_thread(act, bus)
            return await client.refused(call.read()), await refused(client, developer_name="Lake")

        ended, again = talk(bus, scenario)
        assert (ended.status, ended.code, again.code) == (status, MANAGED + code, MANAGED + later)
        assert all(one.committed == "" for one in bus.managed_subscriptions)


def test_what_comes_over_setup_is_known_later(talk: Talk) -> None:
    """A config made over REST is NOT_FOUND until it has propagated."""
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_event("Order__e", {"Number__c": "Text"})
        config = bus.managed.create("Lake", topic)

        async def scenario(client: Any) -> Any:
            by_id = await refused(client, subscription_id=config.id)
            by_name = await refused(client, developer_name="Lake")
            bus.clock.advance(minutes=2)
            call = await ManagedCall.opened(client, developer_name="Lake")
            await asyncio.to_thread(bus.wait_open_streams, 1)
            bus.managed.update("Lake", state="STOP")
            bus.publish(topic, [{"Number__c": "still delivered"}])
            await call.take(1)
            bus.clock.advance(minutes=2)
            bus.publish(topic, [{"Number__c": "not any more"}])
            return by_id, by_name, await client.refused(call.read())

        by_id, by_name, stopped = talk(bus, scenario)
        assert (by_id.code, by_name.code) == (
            MANAGED + "subscription.id.not.found",
            MANAGED + "developer.name.not.found",
        )
        assert stopped.code == MANAGED + "config.stopped"


def test_faults_can_be_ordered(talk: Talk) -> None:
    """A managed stream fails after the ordered events, by code or by a cut."""
    with Emulator(knobs=QUICK) as bus:
        managed_topic(bus, 10)
        bus.fail_next("ManagedSubscribe", error_code="service.unavailable", after=4)
        bus.fail_next("ManagedSubscribe", how="rst_stream", after=2)

        async def scenario(client: Any) -> list[Any]:
            said = []
            for count in (4, 2):
                call = await ManagedCall.opened(client, developer_name="Lake")
                assert len(await call.take(count)) == count
                said.append(await client.refused(call.read()))
            return said

        unavailable, cut = talk(bus, scenario)
        assert (unavailable.status, unavailable.code) == ("INTERNAL", "service.unavailable")
        assert (cut.status, cut.code) == ("INTERNAL", "")
        assert bus.faults() == ()


def test_a_topic_gone_with_its_permission(talk: Talk) -> None:
    """A topic without permission is refused as in Subscribe."""
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_event("Order__e", {"Number__c": "Text"}, can_subscribe=False)
        bus.define_managed_subscription("Lake", topic)
        said = talk(bus, lambda client: refused(client, developer_name="Lake"))
        assert said.code == "subscription.topic.cannot.subscribe"
