"""Ends of an attempt, and the check of its lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.model import rules as broken
from tests.unit.model.world import Area, Worker, World, position

if TYPE_CHECKING:
    from tests.unit.model.rules import Rules

Step = tuple[str, World]

ENOUGH = "enough is pending"


def killed(world: World, me: Worker) -> World:
    """The world after a SIGKILL: the lease stays, the memory is lost, the Spark job continues."""
    return world._replace(kills=world.kills - 1).worker(_tried_again(me, "killed"))


def holds_lease(rules: Rules, world: World, me: Worker) -> bool:
    """Return whether `Lease.check` passes: no lease has a higher number."""
    leases = world.areas[me.area].leases(me.key)
    return not rules.keeps(broken.CHECK) or (bool(leases) and leases[-1].number == me.lease)


def checked(rules: Rules, world: World, me: Worker, after: Worker) -> Step:
    """`Lease.check`; without its lease the attempt fails."""
    if holds_lease(rules, world, me):
        return "checks its lease", world.worker(after)
    return failed(world, me, "finds its lease taken over")


def failed(world: World, me: Worker, why: str) -> Step:
    area = released(world.areas[me.area], me)
    return why, world.area(me.area, area).worker(_tried_again(me, why))


def ended(world: World, me: Worker, outcome: str) -> Step:
    area = released(world.areas[me.area], me)
    done = _anew(me)._replace(at="done", outcome=outcome, tries=0, enough=0, then=False)
    return f"ends: {outcome}", world.area(me.area, area).worker(done)


def goes_on(world: World, me: Worker) -> Step:
    """The world once a wait has enough: the operator of its run follows, if there is one."""
    if not me.then:
        return ended(world, me, ENOUGH)
    area = released(world.areas[me.area], me)
    operator = _anew(me)._replace(enough=0, then=False)
    return f"ends: {ENOUGH}; its operator begins", world.area(me.area, area).worker(operator)


def released(area: Area, me: Worker) -> Area:
    """The area without this attempt's lease."""
    leases = area.leases(me.key)
    if not any(one.by == me.me for one in leases):
        return area
    let_go = (one._replace(released=True) if one.by == me.me else one for one in leases)
    return area.put_leases(me.key, tuple(let_go))


def stands(text: str) -> str:
    """A position, described in few words for the story."""
    if not text:
        return "none"
    one = position(text)
    further = f", or {one.resume_after}" if one.resume_after else ""
    return f"{one.epoch}-{one.batch_number} at {one.start}{further}"


def _tried_again(me: Worker, outcome: str) -> Worker:
    fresh = _anew(me)._replace(outcome=outcome)
    if not me.tries:
        return fresh._replace(at="done")
    return fresh._replace(life=me.life + 1, tries=me.tries - 1)


def _anew(me: Worker) -> Worker:
    """The same task without any knowledge."""
    return Worker(
        slot=me.slot,
        run=me.run,
        life=me.life,
        tries=me.tries,
        area=me.area,
        enough=me.enough,
        then=me.then,
    )
