"""What a wait does, step by step, in the order of `batches.waiting`: a sensor's poke, a deferred sensor's trigger, a watcher.

It never moves a position. What it hears of it stages as the first file of the coming batch, under a claim that it takes once the first
event is there; a keepalive goes to the anchor without one. Only at `latest` it claims before it listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.staging.holders import Verdict
from tests.unit.model import decisions, rules as broken
from tests.unit.model.attempts import Step, ended, failed, goes_on, released
from tests.unit.model.filing import (
    anchored,
    asked_in_time,
    closed,
    delivered,
    heard,
    kept_alive,
    lying,
    subscribed,
)
from tests.unit.model.world import LATEST, UNKNOWN, Batch, Worker, World, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.rules import Rules


def _sight(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Whether somebody is at work on the batch, who would be delivered the same."""
    claims = world.areas[me.area].claims(me.key)
    after = me._replace(at="plan")
    if not claims or not rules.keeps(broken.STAND_BACK):
        yield "sees nobody at work", world.worker(after)
        return
    found = decisions.verdict(world, rules, claims[-1], stopped=False)
    if found is not Verdict.ALIVE:
        yield f"sees nobody at work (claim {claims[-1].number}: {found.value})", world.worker(after)
        return
    yield failed(world, me, f"stands back: claim {claims[-1].number} is at work")
    if world.pauses and decisions.verdict(world, rules, claims[-1], stopped=True) is Verdict.DEAD:
        yield (
            f"takes the holder of claim {claims[-1].number}, who is only stopped, for dead",
            world.worker(after)._replace(pauses=world.pauses - 1),
        )


def _plan(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    batch = area.batch(me.key)
    plan = decisions.plan(me.seen, batch, batch.parts, area.anchor)
    if plan is None:
        yield failed(world, me, "refused: the position was changed by hand")
    elif not isinstance(plan, restart.Fetch) or plan.events >= me.enough:
        label, done = goes_on(world, me)
        yield f"finds that enough is staged, and {label}", done
    else:
        after = _listening(me, batch, plan)
        if after.since == UNKNOWN and rules.keeps(broken.CLAIM_LATEST):
            after = after._replace(at="claim")
        yield f"is to listen after {plan.ask}", world.worker(after)


def _listening(me: Worker, batch: Batch, plan: restart.Fetch) -> Worker:
    return me._replace(
        at="listen",
        start=plan.start,
        kept=plan.kept,
        since=place(plan.ask),
        staged=lying(batch),
    )


def _look_again(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Under the claim: what lies there now may be more than was there when it began to listen."""
    if not rules.keeps(broken.LOOK_AGAIN):
        yield "does not look again", world.worker(me._replace(at="listen"))
        return
    area = world.areas[me.area]
    batch = area.batch(me.key)
    plan = decisions.plan(me.seen, batch, batch.parts, area.anchor)
    overtaken = any(one.key[0] == me.key[0] and one.key[1] > me.key[1] for one in area.batches)
    if overtaken or not isinstance(plan, restart.Fetch):
        yield failed(world, me, "finds that others have gone on with the batch")
    elif me.memory and (plan.start, plan.kept) != (me.start, me.kept):
        yield failed(world, me, "finds more staged meanwhile, and drops what it heard")
    elif me.memory or place(plan.ask) == UNKNOWN:
        yield "finds nothing new", world.worker(me._replace(at="listen"))
    else:
        after = _listening(me, batch, plan)
        yield f"is to listen after {plan.ask} now", _let_go(world, after)


def _listen(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if me.since == UNKNOWN:
        yield subscribed(world, me)
        return
    if me.since < len(world.bus) and heard(me) < me.enough:
        yield delivered(world, me)
    elif world.keepalives and (not me.memory or not rules.keeps(broken.ANCHOR_BEHIND_FILES)):
        yield kept_alive(world, me)
    if me.memory:
        yield "is to stage what it heard", world.worker(me._replace(at=_to_stage(me)))
    elif me.since == len(world.bus) or rules.ends_early:
        yield ended(world, me, "the time is over")


def _to_stage(me: Worker) -> str:
    if not me.claim:
        return "claim"
    return "write" if me.kept or me.start != LATEST else "check latest"


def _check_latest(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    yield asked_in_time(rules, world, me, me._replace(at="write"))


def _note(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    after = me._replace(at="anchor")
    if me.claim:
        yield asked_in_time(rules, world, me, after)
    else:
        yield "holds no claim", world.worker(after)


def _anchor(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    there = world.areas[me.area].anchor
    after = me._replace(text="")
    if there and there.epoch == me.key[0] and there.sequence >= me.key[1]:
        yield "finds an anchor of a later position", _let_go(world, after)
        return
    follows = me.kept[-1].end if me.kept and rules.keeps(broken.ANCHOR_AFTER) else ""
    label, changed = anchored(world, me, follows)
    yield label, _let_go(changed, after)


def _write(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    label, changed, after = closed(world, me)
    yield label, changed.worker(after._replace(at="release"))


def _release(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if heard(me) >= me.enough:
        yield goes_on(world, me)
        return
    changed = world.area(me.area, released(world.areas[me.area], me))
    again = me._replace(at="sight", claim=0, start="", since=UNKNOWN, kept=(), staged=frozenset())
    yield "releases the batch, and looks anew", changed.worker(again)


def _let_go(world: World, me: Worker) -> World:
    """Whoever has noted down where it is needs no claim to listen."""
    changed = world.area(me.area, released(world.areas[me.area], me))
    return changed.worker(me._replace(at="listen", claim=0))


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "sight": _sight,
    "plan": _plan,
    "look again": _look_again,
    "listen": _listen,
    "note": _note,
    "anchor": _anchor,
    "check latest": _check_latest,
    "write": _write,
    "release": _release,
}
