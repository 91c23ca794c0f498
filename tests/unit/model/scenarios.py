"""The worlds that are explored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging.marks import Origin
from tests.unit.model import decisions, worker
from tests.unit.model.world import Area, Worker, World, at_time, place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.model.rules import Rules


def world(
    *workers: Worker,
    bus: Sequence[str] = "ab",
    later: Sequence[str] = "",
    areas: int = 1,
    begun: bool = True,
    start: str = "earliest",
    kills: int = 0,
    pauses: int = 0,
    resets: int = 0,
    keepalives: int = 0,
    damages: int = 0,
) -> World:
    """Workers before a bus.

    :param bus: identities of the events that are published; `later`: of those that may come at any time.
    :param areas: staging areas that do not know of each other.
    :param begun: there is a position, at sequence 0; otherwise it is everybody's first run. `start` is where that begins.
    """
    store = decisions.begun(0, "e", 0, start) if begun else ""
    origin = Origin(epoch="e", created_at=at_time(0), position=store)
    area = Area(origins=(origin,) if begun else ())
    return World(
        bus=tuple(bus),
        delivered=(0,) * len(bus),
        store=store,
        areas=(area,) * areas,
        workers=workers,
        ticks=1,
        kills=kills,
        pauses=pauses,
        resets=resets,
        keepalives=keepalives,
        damages=damages,
        beginning=place(start),
        later=tuple(later),
    )


def run(slot: str, *, tries: int = 0, area: int = 0) -> Worker:
    """A run of its own; it is tried again so often."""
    return Worker(slot=slot, run=ord(slot), tries=tries, area=area)


def retry(slot: str, *, of: Worker, tries: int = 0, area: int = 0) -> Worker:
    """The next try of a run whose earlier one may still be at work."""
    return Worker(slot=slot, run=of.run, life=2, tries=tries, area=area)


def wait(slot: str, *, enough: int = 1, then: bool = False, tries: int = 0) -> Worker:
    """A wait for so many events.

    :param then: the operator of its run follows, as it does a sensor; a watcher's does not wait for it.
    """
    return Worker(slot=slot, run=ord(slot), tries=tries, enough=enough, then=then)


def at_work(rules: Rules, first: World) -> World:
    """The world once its first worker has the batch and is about to fetch."""
    one = first.workers[0]
    while one.at != "fetch":
        _, first = next(worker.steps(rules, first, one))
        one = first.workers[0]
    return first


def each_paid_once(world: World) -> str:
    """Where nothing goes wrong each event is delivered once, and each move of the position is made once."""
    if any(times > 1 for times in world.delivered):
        return f"deliveries: {world.delivered}"
    moved = len(world.moves) - len(set(world.moves))
    return f"{moved} moves of the position are made again" if moved else ""
