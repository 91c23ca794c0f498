from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import AssetWatcher
from airflow.sdk.execution_time.context import AssetStateStoreAccessors
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.positions.asset import topic_asset
from airflow_provider_sfevents.positions.store_choice import open_store
from tests.unit.positions.building import ORG, TOPIC, begun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.positions.stores import PositionStore
    from tests.unit.positions.supervisor import Supervisor

NAME = f"salesforce://{ORG}/event/Order__e"
KEY = "sfevents.load"


def opened(context: dict[str, Any] | None) -> PositionStore:
    return open_store("asset", org_id=ORG, consumer="load", topic=TOPIC, context=context)


def context(*, inlets: list[Any], outlets: list[Any]) -> dict[str, Any]:
    return {"asset_state_store": AssetStateStoreAccessors(inlets, outlets)}


IN_A_TASK = [
    context(inlets=[topic_asset(ORG, TOPIC)], outlets=[]),
    context(inlets=[], outlets=[topic_asset(ORG, TOPIC), topic_asset(ORG, "/event/Other__e")]),
    None,
]


def test_the_asset_is_named_by_org_and_topic() -> None:
    """A topic's asset has the same name and URI, made of org and topic."""
    asset = topic_asset(ORG, TOPIC)
    assert (asset.name, asset.uri) == (NAME, NAME)


class Watching(BaseEventTrigger):  # type: ignore[misc]  # Airflow's classes are not read
    """A watcher that receives no event."""

    @override
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.Watching", {}

    @override
    async def run(self) -> AsyncIterator[TriggerEvent]:
        while True:
            await asyncio.sleep(1)
            yield TriggerEvent("nothing")


def test_the_asset_can_be_watched() -> None:
    """A topic's asset is equal with and without watchers."""
    watcher = AssetWatcher(name="orders", trigger=Watching())
    watched = topic_asset(ORG, TOPIC, watchers=[watcher])
    assert watched.watchers == [watcher]
    assert (watched.name, watched.uri) == (
        topic_asset(ORG, TOPIC).name,
        topic_asset(ORG, TOPIC).uri,
    )


@pytest.mark.parametrize("where", IN_A_TASK, ids=["inlet", "outlet", "in a trigger"])
def test_an_assets_state_keeps_a_position(
    supervisor: Supervisor, where: dict[str, Any] | None
) -> None:
    """The record is in the asset's state under the consumer's key, and no other key is left."""
    store = opened(where)
    assert stores.read(store) is None
    stores.write(store, begun())
    assert stores.read(store) == begun()
    assert supervisor.assets == {(NAME, KEY): begun().to_json()}


@pytest.mark.parametrize(
    "where",
    [{}, context(inlets=[topic_asset(ORG, "/event/Other__e")], outlets=[])],
    ids=["none", "another"],
)
def test_a_task_without_the_asset_is_told_to_name_it(
    supervisor: Supervisor, where: dict[str, Any]
) -> None:
    """A task without the asset as inlet or outlet is refused, with the line to add."""
    with pytest.raises(ConfigurationError, match=rf"inlets=\[topic_asset\('{ORG}', '{TOPIC}'\)\]"):
        opened(where)


def test_an_inactive_asset_is_no_first_run(supervisor: Supervisor) -> None:
    """An inactive asset, whose state Airflow reports as missing, is an error and no first run."""
    supervisor.assets[NAME, KEY] = begun().to_json()
    supervisor.inactive.add(NAME)
    with pytest.raises(
        TransportError, match=r"could not be read: .*Check that the asset is active"
    ):
        stores.read(opened(None))


def test_an_api_server_that_does_not_answer_is_no_first_run(supervisor: Supervisor) -> None:
    """An API server that does not answer is an error, both for reading and for writing."""
    supervisor.out_of_order = True
    with pytest.raises(TransportError, match="could not be read"):
        stores.read(opened(None))
    with pytest.raises(TransportError, match="could not be written"):
        stores.write(opened(None), begun())


def test_a_value_written_by_hand_as_an_object_is_named(supervisor: Supervisor) -> None:
    """A state that is no text is refused as a position."""
    supervisor.assets[NAME, KEY] = {"replay_id": "0a"}
    with pytest.raises(ConfigurationError, match="holds a dict; a position is text"):
        stores.read(opened(None))
