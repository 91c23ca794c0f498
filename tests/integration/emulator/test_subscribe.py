"""Subscribe over a real socket, as in the documentation and live logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.event_calls import published

Talk = Callable[..., Any]
QUICK = Knobs(half_close_seconds=0.01)


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
def test_all_events_in_order(talk: Talk, tls: bool) -> None:
    """A client gets every event once, in order, with growing ids, with and without TLS."""
    with Emulator(tls=tls, knobs=QUICK) as bus:
        topic, _ = published(bus, 500)

        async def scenario(client: Any) -> tuple[list[Any], str]:
            stream = await client.subscribe(topic, 100)
            events: list[Any] = []
            while len(events) < 500:
                response = await stream.read()
                events += response.events
                await stream.ask(len(response.events))
            return events, await stream.end()

        events, status = talk(bus, scenario)
        replay_ids = [event.replay_id for event in events]
        assert status == "OK"
        assert replay_ids == sorted(set(replay_ids))
        assert [event["id"] for event in bus.events(topic)] == [event.event.id for event in events]
        assert bus.deliveries() == bus.deliveries(topic) == 500
        [seen] = bus.subscriptions
        assert (seen.ended, seen.delivered, seen.max_outstanding, seen.start) == (
            "OK",
            500,
            100,
            "earliest",
        )
        assert bus.deliveries("/event/Other__e") == 0
