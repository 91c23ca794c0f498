"""ManagedSubscribe over a real socket: Salesforce keeps the position."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.managing import ManagedCall, ends, refused

if TYPE_CHECKING:
    from pathlib import Path

Talk = Callable[..., Any]
ORDER = {"Number__c": "Text"}
ACTIVE = "managed.subscription.already.active"
_QUICK: dict[str, Any] = {
    "half_close_seconds": 0.01,
    "slot_hold_seconds": 0.0,
    "commit_response_seconds": 0.02,
}
QUICK = Knobs(**_QUICK)


def _org(bus: Emulator, events: int = 0, **config: str) -> tuple[str, list[bytes]]:
    topic = bus.define_event("Order__e", ORDER)
    bus.define_managed_subscription("Lake", topic, **{"default_replay": "EARLIEST", **config})
    return topic, bus.publish(topic, [{"Number__c": str(n)} for n in range(events)])


def _ids(events: list[Any]) -> list[bytes]:
    return [event.replay_id for event in events]


def test_a_committed_place_is_where_the_next_stream_starts(talk: Talk) -> None:
    """Committed events are not delivered again; later ones are."""
    with Emulator(knobs=QUICK) as bus:
        topic, ids = _org(bus, 10)

        async def scenario(client: Any) -> tuple[Any, ...]:
            first = await ManagedCall.opened(client, developer_name="Lake")
            seen = _ids(await first.take(10))
            await first.commit(seen[5], "c-1")
            answer = await first.answer()
            status = await first.end()
            again = await ManagedCall.opened(client, developer_name="Lake")
            return seen, answer, status, _ids(await again.take(4))

        seen, answer, status, rest = talk(bus, scenario)
        said = answer.commit_response
        assert (seen, rest, status) == (ids, ids[6:], "OK")
        assert (said.commit_request_id, said.replay_id) == ("c-1", ids[5])
        assert (said.HasField("error"), bool(answer.events)) == (False, False)
        assert (answer.pending_num_requested, answer.latest_replay_id) == (90, ids[9])
        assert bus.managed_subscriptions[0].committed == ids[5].hex()
        one, two = bus.subscriptions
        assert (one.managed, one.topic, one.start, one.ended) == ("Lake", topic, "earliest", "OK")
        assert [(c.request_id, c.replay_id, c.error) for c in one.commits] == [("c-1", ids[5], "")]
        assert two.start == ids[5].hex()


def test_by_id_of_15_or_18_characters(talk: Talk) -> None:
    """Ids of both lengths work and may be repeated in each request."""
    with Emulator(knobs=QUICK) as bus:
        _org(bus, 1)
        long = bus.managed_subscriptions[0].id
        assert (long[:3], len(long)) == ("18x", 18)

        async def scenario(client: Any) -> None:
            for name in (long, long[:15]):
                call = await ManagedCall.opened(client, 1, subscription_id=name)
                assert len(await call.take(1)) == 1
                await call.ask(1, subscription_id=name)
                assert await call.end() == "OK"

        talk(bus, scenario)


@pytest.mark.parametrize(("default", "count"), [("EARLIEST", 3), ("LATEST", 1)])
def test_without_a_commit_the_default_replay_holds(talk: Talk, default: str, count: int) -> None:
    """EARLIEST delivers retained events, LATEST only new ones."""
    with Emulator(knobs=QUICK) as bus:
        topic, _ = _org(bus, 2, default_replay=default)

        async def scenario(client: Any) -> list[bytes]:
            call = await ManagedCall.opened(client, developer_name="Lake")
            await asyncio.to_thread(bus.wait_open_streams, 1)
            bus.publish(topic, [{"Number__c": "new"}])
            return _ids(await call.take(count))

        assert len(talk(bus, scenario)) == count


@pytest.mark.parametrize(("recovery", "numbers"), [("EARLIEST", ["2", "3"]), ("LATEST", ["3"])])
def test_an_aged_commit_falls_back(talk: Talk, recovery: str, numbers: list[str]) -> None:
    """An expired committed id starts at errorRecoveryReplay; LATEST loses silently."""
    with Emulator(knobs=Knobs(**{**_QUICK, "token_idle_hours": 500})) as bus:
        topic, ids = _org(bus, 2, error_recovery_replay=recovery)

        async def scenario(client: Any) -> list[bytes]:
            call = await ManagedCall.opened(client, developer_name="Lake")
            await call.take(2)
            await call.commit(ids[0])
            await call.answer()
            await call.end()
            bus.clock.advance(hours=73)
            bus.publish(topic, [{"Number__c": "2"}])
            call = await ManagedCall.opened(client, developer_name="Lake")
            await asyncio.to_thread(bus.wait_open_streams, 1)
            bus.publish(topic, [{"Number__c": "3"}])
            return _ids(await call.take(len(numbers)))

        got = [one.hex() for one in talk(bus, scenario)]
        by_id = {one["replay_id"]: one["fields"]["Number__c"] for one in bus.events(topic)}
        assert [by_id[one] for one in got] == numbers
        assert bus.subscriptions[-1].start == recovery.lower()


def test_one_client_at_a_time(talk: Talk) -> None:
    """A second client is refused while the slot is taken or held."""
    with Emulator(knobs=Knobs(**{**_QUICK, "slot_hold_seconds": 0.5})) as bus:
        _org(bus, 1)

        async def scenario(client: Any) -> list[Any]:
            first = await ManagedCall.opened(client, developer_name="Lake")
            await first.take(1)
            said = [await refused(client, developer_name="Lake")]
            await first.end()
            said.append(await refused(client, developer_name="Lake"))
            while await ends(await ManagedCall.opened(client, 0, developer_name="Lake")) != "OK":
                pass
            return said

        for one in talk(bus, scenario):
            assert (one.status, one.code) == ("ALREADY_EXISTS", ACTIVE)
            assert "Try subscribing again later." in one.message
        assert bus.subscriptions[-1].ended == "OK"


def test_configs_and_commits_survive_a_restart(talk: Talk, tmp_path: Path) -> None:
    """With a folder, configs and commits survive a restart."""
    with Emulator(knobs=QUICK, folder=tmp_path) as bus:
        _, ids = _org(bus, 3)

        async def commit(client: Any) -> None:
            call = await ManagedCall.opened(client, developer_name="Lake")
            await call.take(3)
            await call.commit(ids[1])
            await call.answer()

        talk(bus, commit)
        before = bus.managed_subscriptions
    with Emulator(knobs=QUICK, folder=tmp_path) as bus:

        async def go_on(client: Any) -> list[bytes]:
            return _ids(await (await ManagedCall.opened(client, developer_name="Lake")).take(1))

        assert talk(bus, go_on) == ids[2:]
        assert bus.managed_subscriptions == before
