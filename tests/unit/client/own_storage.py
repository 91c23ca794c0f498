"""A storage of replay markers as a program brings its own."""

from __future__ import annotations

from airflow_provider_sfevents.client import ReplayMarker, ReplayMarkerStorage


class Coroutines(ReplayMarkerStorage):
    """A storage of a program, with coroutines."""

    def __init__(self) -> None:
        self.kept: dict[str, ReplayMarker] = {}

    async def get_replay_marker(self, subscription: str) -> ReplayMarker | None:  # type: ignore[explicit-override]
        return self.kept.get(subscription)

    async def set_replay_marker(self, subscription: str, replay_marker: ReplayMarker) -> None:  # type: ignore[explicit-override]
        self.kept[subscription] = replay_marker
