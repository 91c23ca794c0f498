"""Commits of a managed stream: answers, failures within the stream, and the deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from grpc import aio

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.managing import ManagedCall

Talk = Callable[..., Any]
_QUICK: dict[str, Any] = {"half_close_seconds": 0.01, "slot_hold_seconds": 0.0}


def _bus(**knobs: Any) -> Emulator:
    return Emulator(knobs=Knobs(**{**_QUICK, "commit_response_seconds": 0.02, **knobs}))


def _org(bus: Emulator, events: int) -> list[bytes]:
    topic = bus.define_event("Order__e", {"Number__c": "Text"})
    bus.define_managed_subscription("Lake", topic, default_replay="EARLIEST")
    return bus.publish(topic, [{"Number__c": str(n)} for n in range(events)])


def test_commits_are_answered_together(talk: Talk) -> None:
    """Commits within the time share one answer with the last values."""
    with _bus(commit_response_seconds=0.3) as bus:
        ids = _org(bus, 3)

        async def scenario(client: Any) -> Any:
            call = await ManagedCall.opened(client, 50, developer_name="Lake")
            await call.take(3)
            for at, replay_id in enumerate(ids):
                await call.commit(replay_id, f"c-{at}")
            answer = await call.answer()
            await call.commit(ids[2], "c-3")
            return answer, await call.answer()

        first, second = talk(bus, scenario)
        said = first.commit_response
        assert (said.commit_request_id, said.replay_id) == ("c-2", ids[2])
        assert second.commit_response.commit_request_id == "c-3"
        assert (list(first.events), first.pending_num_requested) == ([], 47)
        assert (first.latest_replay_id, bool(first.rpc_id)) == (ids[2], True)
        now = bus.clock.timestamp() * 1000
        assert 0 <= now - said.process_time < 60_000
        assert [one.request_id for one in bus.subscriptions[0].commits] == [
            f"c-{n}" for n in range(4)
        ]
        assert bus.subscriptions[0].keepalives == 0


@pytest.mark.parametrize("code", ["", "managed.subscription.commit.late"])
def test_a_stream_without_commits_is_closed(talk: Talk, code: str) -> None:
    """A stream without commits ends with DEADLINE_EXCEEDED, despite keepalives."""
    with _bus(keepalive_seconds=0.1, commit_deadline_seconds=0.4, commit_deadline_code=code) as bus:
        _org(bus, 1)

        async def scenario(client: Any) -> Any:
            call = await ManagedCall.opened(client, 5, developer_name="Lake")

            async def until_the_end() -> None:
                while await call.read() is not aio.EOF:
                    pass

            return await client.refused(until_the_end())

        refused = talk(bus, scenario)
        assert (refused.status, refused.code) == ("DEADLINE_EXCEEDED", code)
        assert "No CommitReplayRequests sent in the last 0.4 seconds." in refused.message
        assert bus.subscriptions[0].ended == "DEADLINE_EXCEEDED"
        assert bus.subscriptions[0].keepalives >= 2


@pytest.mark.parametrize(("reach", "fails"), [("stream", True), ("subscription", False)])
def test_what_an_earlier_stream_was_told(talk: Talk, reach: str, fails: bool) -> None:
    """The knob decides on commits of events that only an earlier stream delivered."""
    with _bus(response_events=1, commit_reach=reach) as bus:
        ids = _org(bus, 3)

        async def scenario(client: Any) -> Any:
            call = await ManagedCall.opened(client, developer_name="Lake")
            await call.take(3)
            await call.end()
            call = await ManagedCall.opened(client, 1, developer_name="Lake")
            await call.take(1)
            await call.commit(ids[2])
            return (await call.answer()).commit_response

        assert talk(bus, scenario).HasField("error") is fails
