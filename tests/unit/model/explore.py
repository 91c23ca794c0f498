"""Breadth-first exploration of worlds; a fault comes with its shortest story."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

from tests.unit.model import attempts, decisions, landing, worker as work, writing
from tests.unit.model.invariants import broken_at_the_end, broken_in, broken_on_the_way
from tests.unit.model.world import Worker, position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.model.rules import Rules
    from tests.unit.model.world import World

Step = tuple[str, "World"]


Check = Callable[["World"], str]
"""Names the fault of a world; empty: there is none."""


def nothing_more(world: World) -> str:
    return ""


class Explored(NamedTuple):
    """Result of an exploration: its size, and the story of the first fault, if there is one."""

    worlds: int
    ends: int
    fault: str = ""
    story: tuple[str, ...] = ()

    @override
    def __str__(self) -> str:
        lines = (f"{number:3}. {line}" for number, line in enumerate(self.story, 1))
        told = "\n".join((f"{self.fault}:", *lines)) if self.fault else "no fault"
        return f"{self.worlds} worlds, {self.ends} ends. {told}"


def holds(explored: Explored, at_least: int) -> None:
    """Check that no world is wrong, and that the model has not become smaller unnoticed."""
    assert not explored.fault, str(explored)
    assert explored.worlds >= at_least, str(explored)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Switch off the search for cycles: worlds have none, and it takes a quarter of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_uncollected()
def explore(rules: Rules, first: World, at_the_end: Check = nothing_more) -> Explored:
    """Visit all worlds.

    :param at_the_end: a further check of worlds in which all workers have ended.
    """
    came_from: dict[World, Step | None] = {first: None}
    next_batch = deque([first])
    ends = 0
    while next_batch:
        world = next_batch.popleft()
        following = list(steps(rules, world))
        if not following:
            ends += 1
            alone, fault = _let_run(rules, world)
            if own := at_the_end(world):
                alone, fault = [], own
            if fault:
                return Explored(len(came_from), ends, fault, (*_story(came_from, world), *alone))
        for label, after in following:
            fault = broken_on_the_way(world, after)
            step = label, world
            if came_from.setdefault(after, step) is step:  # hashing a world takes long: once
                fault = fault or broken_in(rules, after)
                next_batch.append(after)
            if fault:
                told = (*_story(came_from, world), label)
                return Explored(len(came_from), ends, fault, told)
    return Explored(len(came_from), ends)


def steps(rules: Rules, world: World) -> Iterator[Step]:
    """Everything that may happen next."""
    living = [one for one in world.workers if one.at != "done"]
    for one in living[:1] if rules.one_at_a_time else living:
        yield from _of_worker(rules, world, one)
    for index in range(len(world.jobs)):
        yield from _of_job(rules, world, index)
    if world.later and living:
        yield f"event {len(world.bus) + 1} is published", published(world)
    for index, (writer, _) in enumerate(world.late):
        yield f"the write of {writer[0]}{writer[1]} is visible", writing.visible(world, index)
    if world.expiries and world.gone < len(world.bus):
        gone = world.gone + 1
        yield f"event {gone} leaves the bus", world._replace(gone=gone, expiries=world.expiries - 1)
    if world.damages:
        yield from _damaged(world)
    if world.resets and world.jobs:
        yield "a user sets the position back to earliest", reset(world)


def _of_worker(rules: Rules, world: World, one: Worker) -> Iterator[Step]:
    name = f"{one.slot}{one.life}"
    for label, after in work.steps(rules, world, one):
        yield f"{name} {label}", landing.forgotten(after)
    if world.kills and one.at != "begin":
        yield f"{name} is killed", landing.forgotten(attempts.killed(world, one))


def _of_job(rules: Rules, world: World, index: int) -> Iterator[Step]:
    job = world.jobs[index]
    name = f"Spark of {job.by[0]}{job.by[1]}"
    for label, after in landing.steps(rules, world, index):
        yield f"{name} {label}", after
    if world.kills and job.at not in landing.ENDS:
        yield f"{name} is killed", landing.killed(world, index)


def _damaged(world: World) -> Iterator[Step]:
    """A closed file that is in no manifest yet is damaged, and left out from now on."""
    for index, area in enumerate(world.areas):
        for batch in area.batches:
            for part in () if batch.manifest else batch.parts:
                parts = tuple(one for one in batch.parts if one is not part)
                after = world.area(index, area.put(batch._replace(parts=parts)))
                yield f"{part.path} is damaged", after._replace(damages=world.damages - 1)


def published(world: World) -> World:
    identity, *further = world.later
    return world._replace(
        bus=(*world.bus, identity), delivered=(*world.delivered, 0), later=tuple(further)
    )


def reset(world: World) -> World:
    """As `airflow sfevents position set` does, in a new epoch."""
    previous = position(world.store).epoch if world.store else ""
    store = decisions.begun(0, "reset", world.ticks, previous=previous)
    changed = world._replace(store=store, ticks=world.ticks + 1, resets=world.resets - 1)
    for index in range(len(world.areas)):
        changed = decisions.with_origin(changed, index, store)
    return changed


def _let_run(rules: Rules, world: World) -> tuple[list[str], str]:
    """Let runs without kills follow until no work is left; return the fault then."""
    story: list[str] = []
    while world.late:
        world = writing.visible(world, 0)
    while world.later:
        world = published(world)
    places = len(world.areas)
    idle = 0
    for run in range(100, 110):
        waiting = (*world.workers, Worker(slot="Z", run=run, area=run % places))
        world = world._replace(workers=waiting, kills=0, pauses=0, delays=0)
        if world.gone:
            world = world._replace(keepalives=1)  # for a run that falls back to latest
        while following := _alone(rules, world):
            label, after = following
            story.append(label)
            if fault := broken_on_the_way(world, after) or broken_in(rules, after):
                return story, fault
            world = after
        idle = 0 if world.workers[-1].outcome == "committed" else idle + 1
        world = world._replace(workers=world.workers[:-1])
        if idle == places:
            break
    return story, broken_at_the_end(rules, world)


def _alone(rules: Rules, world: World) -> Step | None:
    """The next step of the last worker, or of its job."""
    one = world.workers[-1]
    following = [
        (f"{one.slot} {label}", landing.forgotten(after))
        for label, after in work.steps(rules, world, one)
    ]
    for index, job in enumerate(world.jobs):
        if job.by == one.me:
            following += [
                (f"Spark of {one.slot} {label}", after)
                for label, after in landing.steps(rules, world, index)
            ]
    return following[0] if following else None


def _story(came_from: dict[World, Step | None], world: World) -> tuple[str, ...]:
    told: list[str] = []
    while (step := came_from[world]) is not None:
        label, world = step
        told.append(label)
    return tuple(reversed(told))
