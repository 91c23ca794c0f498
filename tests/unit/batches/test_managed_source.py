"""Managed subscription: replay ids that were not committed, and areas that may use them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from upath import UPath

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.managed.managed_source import ManagedSource
from airflow_provider_sfevents.batches.next_batch import NextBatch
from airflow_provider_sfevents.batches.position.position_writes import take_area
from airflow_provider_sfevents.exceptions import LeaseHeldError
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.sidecar_files import Confirmed
from tests.unit.batches import building

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.managed.managed_subscription import ManagedSubscription
    from airflow_provider_sfevents.staging.area import TopicFolder

HERE, ELSEWHERE = "here", "elsewhere"


@pytest.fixture
def folder(tmp_path: Path) -> TopicFolder:
    return StagingArea(UPath(tmp_path)).topic("00D000000000001AAA", "orders", building.TOPIC)


def supply(folder: TopicFolder, position: Position) -> ManagedSource:
    """Build the event source of the next batch; tests call only its reading methods."""
    nothing = cast("PubSubClient", None), cast("ManagedSubscription", None)
    return ManagedSource(*nothing, NextBatch.after(position, "orders"), folder, HERE)


@pytest.mark.parametrize(("end", "owed"), [("03", "03"), ("04", "")], ids=["landed", "other form"])
def test_only_the_end_that_the_position_is_at_is_made_up(
    folder: TopicFolder, end: str, owed: str
) -> None:
    """A batch's end is not committed to Salesforce if the batch landed with an earlier end."""
    staged = replace(building.manifest(3, building.run(3)), end=end)
    folder.batch("e1", 3).create_manifest(staged)
    assert supply(folder, building.position(staging_id=HERE))._owed() == owed


@pytest.mark.parametrize(
    ("since", "unknown"), [(1, False), (2, False), (3, True)], ids=["same", "at it", "later"]
)
def test_a_place_counts_only_if_it_was_kept_since_the_area_is_in_use(
    folder: TopicFolder, since: int, unknown: bool
) -> None:
    """A replay id committed before another staging area was used does not count."""
    folder.batch("e1", 2).write_confirmed(Confirmed(replay_id="02", at=""))
    folder.batch("e1", 3).create_manifest(building.manifest(3, building.run(3)))
    position = building.position(staging_id=HERE, staging_since=since)
    assert (
        supply(folder, position)._has_no_place(recovery.FetchPlan(start=ReplayPoint("03")))
        is unknown
    )


@pytest.mark.parametrize("found", [HERE, ELSEWHERE])
def test_a_task_gives_way_once_another_task_has_the_position(
    folder: TopicFolder, found: str
) -> None:
    """A task whose area is in the position already compares the position with the store."""
    before = building.position(staging_id=HERE)
    store = stores.MappingStore({}, "orders")
    stores.write(store, building.position(staging_id=found))
    with folder.batch("e1", 4).take_lease(LeaseHolder.here(building.run(4), "")) as lease:
        if found == HERE:
            assert take_area(store, before, HERE, lease) == before
            return
        with pytest.raises(LeaseHeldError):
            take_area(store, before, HERE, lease)


def test_a_task_that_names_its_area_says_since_which_batch(folder: TopicFolder) -> None:
    """A new staging area counts from the next batch, and that batch's commit keeps it so."""
    before = building.position(staging_id=ELSEWHERE)
    store = stores.MappingStore({}, "orders")
    stores.write(store, before)
    with folder.batch("e1", 4).take_lease(LeaseHolder.here(building.run(4), "")) as lease:
        taken = take_area(store, before, HERE, lease)
    assert (taken.staging_id, taken.staging_since) == (HERE, 4)
    assert stores.read(store) == taken
