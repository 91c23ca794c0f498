"""Storages of replay markers."""

from __future__ import annotations

import shelve
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.client import (
    ConstantReplayId,
    DefaultMappingStorage,
    PositionStoreStorage,
    ReplayMarker,
    ReplayOption,
)
from airflow_provider_sfevents.client.replay_storages import storage_from
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint
from tests.unit.client.own_storage import Coroutines

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

CHANNEL = "/topic/one"
MESSAGE = {
    "channel": CHANNEL,
    "data": {"event": {"createdDate": "2026-01-01T00:00:00.000Z", "replayId": 55}, "sobject": {}},
}
MARKER = ReplayMarker("2026-01-01T00:00:00.000Z", 55)


async def test_a_mapping_starts_with_new_events_and_continues_afterwards() -> None:
    """A channel without a marker gets new events; afterwards it continues from its last message."""
    replay: dict[str, ReplayMarker] = {}
    storage = storage_from(replay)
    assert await storage.start(CHANNEL) == LATEST
    await storage.extract_replay_id(MESSAGE)
    assert replay == {CHANNEL: MARKER}
    assert await storage.start(CHANNEL) == ReplayPoint("37")


async def test_a_shelve_keeps_markers_over_a_restart(tmp_path: Path) -> None:
    """A marker in a shelve is there when the program starts again."""
    with shelve.open(str(tmp_path / "replay")) as replay:  # noqa: S301 - written here
        await storage_from(replay).extract_replay_id(MESSAGE)
    with shelve.open(str(tmp_path / "replay")) as replay:  # noqa: S301 - written above
        assert await storage_from(replay).start(CHANNEL) == ReplayPoint("37")


async def test_a_deleted_entry_lets_the_channel_start_anew() -> None:
    """Deleting an entry of the mapping makes the next subscription begin with new events."""
    replay = {CHANNEL: MARKER}
    storage = storage_from(replay)
    del replay[CHANNEL]
    assert await storage.start(CHANNEL) == LATEST


async def test_a_default_mapping_starts_with_its_option() -> None:
    """DefaultMappingStorage names the start of a channel without a marker."""
    storage = DefaultMappingStorage({}, ReplayOption.ALL_EVENTS)
    assert await storage.start(CHANNEL) == EARLIEST
    await storage.extract_replay_id(MESSAGE)
    assert await storage.start(CHANNEL) == ReplayPoint("37")


@pytest.mark.parametrize("replay", [ConstantReplayId(12), 12])
async def test_a_fixed_point_stays(replay: Any) -> None:
    """A fixed start is the same for each subscription, whatever was received."""
    storage = storage_from(replay)
    await storage.extract_replay_id(MESSAGE)
    assert await storage.start(CHANNEL) == ReplayPoint("c")


class PlainFunctions:
    def __init__(self) -> None:
        self.kept: dict[str, ReplayMarker] = {}

    def get_replay_marker(self, subscription: str) -> ReplayMarker | None:
        return self.kept.get(subscription)

    def set_replay_marker(self, subscription: str, replay_marker: ReplayMarker) -> None:
        self.kept[subscription] = replay_marker


@pytest.mark.parametrize("own", [Coroutines(), PlainFunctions()])
async def test_a_storage_of_the_users_has_coroutines_or_plain_functions(own: Any) -> None:
    """A user's storage may have coroutines or plain functions, with the base class or without."""
    storage = storage_from(own)
    assert await storage.start(CHANNEL) == LATEST
    await storage.extract_replay_id(MESSAGE)
    assert own.kept == {CHANNEL: MARKER}
    assert await storage.start(CHANNEL) == ReplayPoint("37")


async def test_a_marker_is_stored_by_hand_if_the_block_succeeds() -> None:
    """`async with storage(message)` stores the marker unless the block raises."""
    replay: dict[str, ReplayMarker] = {}
    storage = storage_from(replay)
    with pytest.raises(LookupError):
        async with storage(MESSAGE):
            raise LookupError
    assert replay == {}
    async with storage(MESSAGE):
        pass
    assert replay == {CHANNEL: MARKER}


class Text:
    def __init__(self, text: str | None = None) -> None:
        self.text = text

    def get(self) -> str | None:
        return self.text

    def set(self, record: str) -> None:
        self.text = record


async def test_a_position_store_keeps_markers() -> None:
    """A store with the package's interface of one text keeps a channel's marker."""
    stores = {CHANNEL: Text()}
    storage = PositionStoreStorage(stores.__getitem__)
    assert await storage.start(CHANNEL) == LATEST
    await storage.extract_replay_id(MESSAGE)
    assert await storage.get_replay_marker(CHANNEL) == MARKER


async def test_a_position_is_no_marker() -> None:
    """A store that holds an operator's position is refused, and not overwritten."""
    store = Text('{"epoch": "e", "replay_id": "00"}')
    with pytest.raises(ConfigurationError, match="no replay marker"):
        await PositionStoreStorage(lambda _: store).start(CHANNEL)


async def test_an_object_that_is_no_storage_is_refused() -> None:
    """The argument `replay` is checked when the client is made."""
    with pytest.raises(ConfigurationError, match="no start of a subscription"):
        storage_from(object())
