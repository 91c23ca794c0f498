"""ManagedSubscribe over a real socket: Salesforce keeps the position."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.managing import ManagedCall, managed_topic

if TYPE_CHECKING:
    from pathlib import Path

Talk = Callable[..., Any]
_QUICK: dict[str, Any] = {
    "half_close_seconds": 0.01,
    "slot_hold_seconds": 0.0,
    "commit_response_seconds": 0.02,
}
QUICK = Knobs(**_QUICK)


def _ids(events: list[Any]) -> list[bytes]:
    return [event.replay_id for event in events]


def test_configs_and_commits_survive_a_restart(talk: Talk, tmp_path: Path) -> None:
    """With a folder, configs and commits survive a restart."""
    with Emulator(knobs=QUICK, folder=tmp_path) as bus:
        _, ids = managed_topic(bus, 3)

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
