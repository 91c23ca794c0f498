"""Rules that must hold, checked in tables, position, staging area and deliveries.

Each check returns its violations as messages; an empty list means that the rule holds.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.tables.file_moves import LANDING
from airflow_provider_sfevents.staging import layout, lease_holder
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import Manifest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proof.world import World


def doubled(world: World) -> list[str]:
    """At every moment: no event is in the tables twice."""
    twice = [one for one, times in Counter(world.landed()).items() if times > 1]
    return [f"{len(twice)} events are in the tables more than once: {twice[:3]}"] * bool(twice)


def lost(world: World) -> list[str]:
    """At rest: each published event is in the tables, and no other event is."""
    landed, published = set(world.landed()), set(world.published)
    missing, foreign = published - landed, landed - published
    found = [f"{len(missing)} of {len(published)} events are not in the tables"] * bool(missing)
    return found + [f"{len(foreign)} events in the tables were never published"] * bool(foreign)


def misplaced(world: World) -> list[str]:
    """At rest: the position is at the last event, in the epoch in which it began."""
    position = world.position()
    if position is None:
        return ["there is no position"]
    epochs = sorted(
        {
            path.name
            for area in world.areas
            for path in area.glob("*/*/*/*")
            if (path / layout.ORIGIN).exists()
        }
    )
    batch_number, epoch = position["batch_number"], position["epoch"]
    said = {
        "replay_id": (position["replay_id"], world.replay_ids[-1]),
        "epochs": ([epoch], epochs),
        "batch_id": (position["batch_id"], layout.batch_id(epoch, batch_number)),
        "newest batch": (f"{batch_number:010d}", _newest_landed(world)),
    }
    return [
        f"position: {name} is {found!r} and not {wanted!r}"
        for name, (found, wanted) in said.items()
        if found != wanted
    ]


def orphans(world: World) -> list[str]:
    """At rest: no unfinished file, no landing folder, no lease of a running process.

    A killed task may leave files on its own disk until a later task uses that disk.
    """
    hidden = [
        path
        for root in (world.lake, *(world.areas if world.has_one_area else ()))
        for path in root.rglob("*")
        if path.name.endswith((".tmp", ".crc")) or path.name.startswith(".")
    ]
    landing = list((world.lake / LANDING).rglob("*")) if (world.lake / LANDING).exists() else []
    found = [f"left behind: {path.relative_to(world.folder)}" for path in (*hidden, *landing)]
    return found + [f"still claimed: {folder}" for folder in world.batches if _is_held(folder)]


def delivered_again(world: World, explained: int, *, at_most: bool = False) -> list[str]:
    """Each event was delivered once, plus the deliveries that a kill explains.

    A kill explains those that were only in the memory of the killed process.

    :param explained: extra deliveries that the kills explain.
    :param at_most: accept fewer extra deliveries than explained.
    """
    extra = world.bus.deliveries(world.topic) - len(world.replay_ids)
    if extra == explained or (at_most and 0 <= extra <= explained):
        return []
    return [
        f"{extra} extra deliveries for {len(world.replay_ids)} events; {explained} are explained"
    ]


def overcounted(world: World, delivered: int) -> list[str]:
    """At every moment: the manifests count no more deliveries than were made.

    They may count fewer: of a killed process they know only what its last lease heartbeat recorded.

    :param delivered: deliveries that the bus has counted.
    """
    manifests = [path / layout.MANIFEST for path in world.batches]
    counted = [
        Manifest.from_json(path.read_text(), str(path)) for path in manifests if path.exists()
    ]
    said = sum(one.events + sum(one.extra_deliveries.values()) for one in counted)
    return [f"the manifests count {said} deliveries, and {delivered} were made"] * (
        said > delivered
    )


def _newest_landed(world: World) -> str:
    return next(
        (batch.name for batch in reversed(world.batches) if (batch / layout.RECEIPT).exists()), ""
    )


def _is_held(folder: Path) -> bool:
    leases = sorted((folder / layout.LEASES).glob("*.json"))
    if not leases or leases[-1].with_suffix(".released").exists():
        return False
    return lease_holder.is_alive(LeaseHolder.from_json(leases[-1].read_text())) is not False
