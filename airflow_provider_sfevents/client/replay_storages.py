"""Storages of replay markers: a class of the user's, a mapping, a position store, a fixed point.

Rule 1. A storage is asked for a marker at each `subscribe`; the subscription begins after it.
Rule 2. The marker of a message is stored when `receive` returns the message, or by hand with
        `ReplayMarkerStoragePolicy.MANUAL`. A message that waits in the buffer has no marker yet.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping
from contextlib import asynccontextmanager
from enum import Enum, auto
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from airflow_provider_sfevents.client.replay_markers import (
    ReplayMarker,
    ReplayOption,
    marker_of,
    start_from,
)
from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from airflow_provider_sfevents.replay_point import ReplayPoint


class ReplayMarkerStoragePolicy(Enum):
    """Time at which a marker is stored.

    :cvar AUTOMATIC: when `receive` returns the message.
    :cvar MANUAL: when the user calls `client.replay_storage.extract_replay_id(message)`, or leaves
        `async with client.replay_storage(message)` without an error.
    """

    AUTOMATIC = auto()
    MANUAL = auto()


class ReplayMarkerStorage(ABC):
    """Storage of the last replay marker of each channel; subclass it for a database.

    Both methods may be coroutines or plain functions.
    """

    @abstractmethod
    def get_replay_marker(self, subscription: str) -> Any:
        """Return the marker of a channel; None: the subscription gets new events only."""

    @abstractmethod
    def set_replay_marker(self, subscription: str, replay_marker: ReplayMarker) -> Any:
        """Store the marker of a channel."""

    async def extract_replay_id(self, message: Mapping[str, Any]) -> None:
        """Store the marker of a received message; one without a replay id has none."""
        if message["data"].get("event", {}).get("replayId") is None:
            return
        stored = self.set_replay_marker(str(message["channel"]), marker_of(message))
        if isawaitable(stored):
            await stored

    async def start(self, subscription: str) -> ReplayPoint:
        """Return the start of a subscription by the stored marker.

        :raises ConfigurationError: the stored value is no marker.
        """
        marker = self.get_replay_marker(subscription)
        return start_from(await marker if isawaitable(marker) else marker)

    @asynccontextmanager
    async def __call__(self, message: Mapping[str, Any]) -> AsyncGenerator[None]:
        """Store the marker of the message at the end of the block, unless the block raises."""
        yield
        await self.extract_replay_id(message)


class MappingStorage(ReplayMarkerStorage):
    """Markers in a mutable mapping, such as a `dict` or a `shelve`, by channel."""

    def __init__(self, mapping: MutableMapping[str, ReplayMarker]) -> None:
        if not isinstance(mapping, MutableMapping):
            raise ConfigurationError(
                f"{type(mapping).__name__} is no MutableMapping. Give a dict or a shelve."
            )
        self.mapping = mapping

    @override
    async def get_replay_marker(self, subscription: str) -> ReplayMarker | None:
        return self.mapping.get(subscription)

    @override
    async def set_replay_marker(self, subscription: str, replay_marker: ReplayMarker) -> None:
        self.mapping[subscription] = replay_marker


class DefaultMappingStorage(MappingStorage):
    """Markers in a mapping, with the start of channels that have none."""

    def __init__(
        self, mapping: MutableMapping[str, ReplayMarker], default_id: ReplayOption | int | str
    ) -> None:
        super().__init__(mapping)
        start_from(default_id)
        self.default_id = default_id

    @override
    async def get_replay_marker(self, subscription: str) -> ReplayMarker:
        found = await super().get_replay_marker(subscription)
        return ReplayMarker("", self.default_id) if found is None else found


class ConstantReplayId(ReplayMarkerStorage):
    """Fixed start of every subscription; markers are not kept."""

    def __init__(self, default_id: ReplayOption | int | str | ReplayPoint) -> None:
        self._start = start_from(default_id)

    @override
    def get_replay_marker(self, subscription: str) -> ReplayPoint:
        return self._start

    @override
    def set_replay_marker(self, subscription: str, replay_marker: ReplayMarker) -> None:
        return None

    @override
    async def extract_replay_id(self, message: Mapping[str, Any]) -> None:
        return None


class TextStore(Protocol):
    """Store of one text, as the package's position stores are."""

    def get(self) -> str | None: ...

    def set(self, record: str) -> None: ...


class PositionStoreStorage(ReplayMarkerStorage):
    """Markers in position stores of the package, as JSON text.

    An operator's position is no marker: give the client stores of its own.

    :param open_store: returns the store of a channel.
    """

    def __init__(self, open_store: Callable[[str], TextStore]) -> None:
        self._open_store = open_store

    @override
    async def get_replay_marker(self, subscription: str) -> ReplayMarker | None:
        text = await asyncio.to_thread(lambda: self._open_store(subscription).get())
        if text is None:
            return None
        try:
            kept = json.loads(text)
            return ReplayMarker(date=kept["date"], replay_id=kept["marker"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"The store of {subscription} holds {text[:80]!r}, which is no replay marker. "
                "Give the client a store of its own."
            ) from error

    @override
    async def set_replay_marker(self, subscription: str, replay_marker: ReplayMarker) -> None:
        text = json.dumps({"date": replay_marker.date, "marker": replay_marker.replay_id})
        await asyncio.to_thread(lambda: self._open_store(subscription).set(text))


class _Delegate(ReplayMarkerStorage):
    """Storage of a class that has the two methods without the base class."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    @override
    def get_replay_marker(self, subscription: str) -> Any:
        return self._storage.get_replay_marker(subscription)

    @override
    def set_replay_marker(self, subscription: str, replay_marker: ReplayMarker) -> Any:
        return self._storage.set_replay_marker(subscription, replay_marker)


def storage_from(replay: Any) -> ReplayMarkerStorage:
    """Return the storage for the client's argument `replay`.

    :param replay: a storage, an object with its two methods, a mapping, or a fixed start.
    :raises ConfigurationError: it is none of these.
    """
    if isinstance(replay, ReplayMarkerStorage):
        return replay
    if hasattr(replay, "get_replay_marker") and hasattr(replay, "set_replay_marker"):
        return _Delegate(replay)
    if isinstance(replay, MutableMapping):
        return MappingStorage(replay)
    return ConstantReplayId(replay)
