"""The worlds that are explored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.model import attempts, decisions, landing, worker
from tests.unit.model.world import Area, Worker, World, place, staging_id

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
    delays: int = 0,
    expiries: int = 0,
    refusals: int = 0,
) -> World:
    """Workers before a bus.

    :param bus: identities of the events that are published; `later`: of those still to come.
    :param areas: staging areas that do not share their files.
    :param begun: area 0 has begun the position; otherwise it is a first run.
    :param start: replay point of the position.
    """
    store = decisions.begun(0, "e", 0, start, staging_id(0)) if begun else ""
    empty = World((), (), "", (Area(),), ())
    area = decisions.with_origin(empty, 0, store).areas[0] if begun else Area()
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
        delays=delays,
        expiries=expiries,
        refusals=refusals,
        beginning=place(start),
        later=tuple(later),
    )


def run(slot: str, *, tries: int = 0, area: int = 0) -> Worker:
    """A run of its own, with so many further tries."""
    return Worker(slot=slot, run=ord(slot), tries=tries, area=area)


def retry(slot: str, *, of: Worker, tries: int = 0, area: int = 0) -> Worker:
    """The next try of a run; an earlier one may still run."""
    return Worker(slot=slot, run=of.run, life=2, tries=tries, area=area)


def wait(
    slot: str, *, enough: int = 1, then: bool = False, tries: int = 0, area: int = 0
) -> Worker:
    """A wait for so many events.

    :param then: the operator of its run follows, as it follows a sensor.
    """
    return Worker(slot=slot, run=ord(slot), tries=tries, enough=enough, then=then, area=area)


def driven(rules: Rules, world: World, slot: str, at: str) -> World:
    """The world once one worker has come to a step, alone, and by the first choice each time."""
    while (one := next(one for one in world.workers if one.slot == slot)).at != at:
        jobs = [index for index, job in enumerate(world.jobs) if job.by == one.me]
        choices = [step for index in jobs for step in landing.steps(rules, world, index)]
        _, after = (choices or list(worker.steps(rules, world, one)))[0]
        world = landing.forgotten(after)
    return world


def killed_at(rules: Rules, world: World, slot: str, at: str) -> World:
    """The world once one worker, alone, was killed at a step."""
    reached = driven(rules, world._replace(kills=1), slot, at)
    victim = next(one for one in reached.workers if one.slot == slot)
    return attempts.killed(reached, victim)._replace(kills=world.kills)


def at_work(rules: Rules, first: World) -> World:
    """The world once its first worker holds the batch's lease and is about to fetch."""
    return driven(rules, first, first.workers[0].slot, "fetch")


def each_paid_once(world: World) -> str:
    """Check that each event was delivered once, and each batch moved the position once."""
    if any(times > 1 for times in world.delivered):
        return f"deliveries: {world.delivered}"
    moved = len(world.moves) - len(set(world.moves))
    return f"{moved} moves of the position are made again" if moved else ""
