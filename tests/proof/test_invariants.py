from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.staging import lease_holder
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import Run
from tests.proof import invariants
from tests.proof.world import Stage, World
from tests.unit.staging.building import manifest

if TYPE_CHECKING:
    from pathlib import Path

BATCH = "staging/org/proof/event.P__e/e1/0000000001"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world made by hand: two published and landed events, and a position after them."""
    made = World(
        name="by hand",
        folder=tmp_path,
        store="own",
        job="stand-in",
        stage=cast("Stage", None),  # not used
        topic="/event/P__e",
        published=["a", "b"],
        replay_ids=["01", "02"],
    )
    land(made, "e1-1-00000", ["a", "b"])
    for name, text in (
        ("own/sfevents.proof", json.dumps(POSITION)),
        (f"{BATCH}/receipt.json", "{}"),
        (f"{BATCH}/../origin.json", "{}"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


POSITION = {"epoch": "e1", "batch_number": 1, "batch_id": "e1-1", "replay_id": "02"}


def land(world: World, name: str, ids: list[str], folder: str = "events") -> None:
    target = world.lake / folder / f"{name}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"event_id": ids}), target)


def wrong(world: World) -> list[str]:
    checks = (
        invariants.doubled,
        invariants.lost,
        invariants.misplaced,
        invariants.orphans,
    )
    return [line for check in checks for line in check(world)]


def test_nothing_is_wrong_where_all_is_well(world: World) -> None:
    """A world at rest has no violation."""
    assert wrong(world) == []


def test_an_event_in_two_files_is_doubled(world: World) -> None:
    """An identity in two batches' files is reported as doubled, except in a landing folder."""
    land(world, "e1-2-00000", ["b"])
    assert invariants.doubled(world) == ["1 events are in the tables more than once: ['b']"]


def test_an_event_that_is_not_there_is_lost(world: World) -> None:
    """A published event in no table, and a landed event that was not published, are reported."""
    world.published[0] = "c"
    assert invariants.lost(world) == [
        "1 of 2 events are not in the tables",
        "1 events in the tables were never published",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"replay_id": "01"}, "replay_id is '01' and not '02'"),
        ({"batch_id": "e1-7"}, "batch_id is 'e1-7' and not 'e1-1'"),
        ({"epoch": "e2", "batch_id": "e2-1"}, "epochs is ['e2'] and not ['e1']"),
        (
            {"batch_number": 2, "batch_id": "e1-2"},
            "newest batch is '0000000002' and not '0000000001'",
        ),
    ],
    ids=["behind", "another batch", "another epoch", "ahead of what landed"],
)
def test_a_position_elsewhere_is_misplaced(
    world: World, change: dict[str, object], said: str
) -> None:
    """A position that is not at the last event, first epoch and newest batch is reported."""
    (world.folder / "own/sfevents.proof").write_text(json.dumps({**POSITION, **change}))
    assert invariants.misplaced(world) == [f"position: {said}"]


@pytest.mark.parametrize(
    "path",
    [f"{BATCH}/.manifest.json.0a.tmp", "lake/_landing/e1-1/x/part.parquet", "lake/events/.a.crc"],
)
def test_unfinished_files_are_orphans(world: World, path: str) -> None:
    """Unfinished files and landing folders are reported in tables and staging areas."""
    orphan = world.folder / path
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.touch()
    assert f"left behind: {path}" in invariants.orphans(world)


def test_a_lease_of_a_living_process_is_an_orphan(world: World) -> None:
    """A lease is reported only while its holder is alive and has not released it."""
    holder = LeaseHolder.here(Run(), "2026-01-01T00:00:00+00:00")
    lease = world.folder / BATCH / "leases/0001.json"
    lease.parent.mkdir()
    lease.write_text(holder.to_json())
    lease_holder.remember(holder)
    assert invariants.orphans(world) == [f"still claimed: {world.folder / BATCH}"]
    lease_holder.forget(holder)
    assert invariants.orphans(world) == []


def test_a_bill_beyond_what_was_delivered_is_wrong(world: World) -> None:
    """Manifests that count five deliveries are reported if the bus counted fewer."""
    said = replace(manifest(), events=2, extra_deliveries={"in_memory": 3})
    (world.folder / BATCH / "manifest.json").write_text(said.to_json())
    assert invariants.overcounted(world, 5) == []
    assert invariants.overcounted(world, 4) == ["the manifests count 5 deliveries, and 4 were made"]
