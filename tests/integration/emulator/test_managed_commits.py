"""Commits of a managed stream: answers, failures within the stream, and the deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from grpc import aio

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.managing import ManagedCall, managed_topic

Talk = Callable[..., Any]
_QUICK: dict[str, Any] = {"half_close_seconds": 0.01, "slot_hold_seconds": 0.0}


def _bus(**knobs: Any) -> Emulator:
    return Emulator(knobs=Knobs(**{**_QUICK, "commit_response_seconds": 0.02, **knobs}))


@pytest.mark.parametrize("code", ["", "managed.subscription.commit.late"])
def test_a_stream_without_commits_is_closed(talk: Talk, code: str) -> None:
    """A stream without commits ends with DEADLINE_EXCEEDED, despite keepalives."""
    with _bus(keepalive_seconds=0.1, commit_deadline_seconds=0.4, commit_deadline_code=code) as bus:
        managed_topic(bus, 1)

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
        _, ids = managed_topic(bus, 3)

        async def scenario(client: Any) -> Any:
            call = await ManagedCall.opened(client, developer_name="Lake")
            await call.take(3)
            await call.end()
            call = await ManagedCall.opened(client, 1, developer_name="Lake")
            await call.take(1)
            await call.commit(ids[2])
            return (await call.answer()).commit_response

        assert talk(bus, scenario).HasField("error") is fails
