"""A wait, in the order of `waiting`: a sensor's poke on a worker, or a watcher.

A wait never commits. It stages its events as the first file of the next batch, under a lease that
it takes when the first event has come. A keepalive goes beside the batches without a lease, and
into the position under one. At `latest` the wait takes the lease before it subscribes, and pins the
position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.positions.record import EVENT, KEEPALIVE
from airflow_provider_sfevents.staging.lease_holder import LeaseState
from tests.unit.model import decisions, leasing, rules as broken
from tests.unit.model.attempts import Step, ended, failed, goes_on, holds_lease, released
from tests.unit.model.filing import (
    anchored,
    closed,
    closed_files,
    delivered,
    kept_alive,
    subscribed,
    waited,
)
from tests.unit.model.world import UNKNOWN, Batch, Worker, World, place, position, staging_id
from tests.unit.model.writing import to_pin, to_write, unpinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.rules import Rules


def _sight(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Look for a lease holder, which would have the same events delivered."""
    leases = world.areas[me.area].leases(me.key)
    after = me._replace(at="plan")
    if not leases or not rules.keeps(broken.STAND_BACK):
        yield "sees no holder", world.worker(after)
        return
    found = decisions.verdict(world, rules, leases[-1], stopped=False)
    if found is not LeaseState.ALIVE:
        yield f"sees no holder (lease {leases[-1].number}: {found.value})", world.worker(after)
        return
    yield failed(world, me, f"stands back: lease {leases[-1].number} is held")
    if (
        world.pauses
        and decisions.verdict(world, rules, leases[-1], stopped=True) is LeaseState.DEAD
    ):
        yield (
            f"takes the stopped holder of lease {leases[-1].number} for dead",
            world.worker(after)._replace(pauses=world.pauses - 1),
        )


def _plan(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    batch = area.batch(me.key)
    plan = decisions.plan(me.seen, batch, batch.parts, area.keepalive_point)
    if plan is None:
        yield failed(world, me, "refused: the position was changed by hand")
    elif not isinstance(plan, recovery.FetchPlan) or plan.events >= me.enough:
        label, done = goes_on(world, me)
        yield f"finds that enough is staged, and {label}", done
    else:
        after = _listening(me, batch, plan)
        if unpinned(me):
            after = after._replace(at="lease")
        yield f"is to listen after {plan.subscribe_at}", world.worker(after)


def _listening(me: Worker, batch: Batch, plan: recovery.FetchPlan) -> Worker:
    return me._replace(
        at="listen",
        start=plan.start.to_text(),
        kept=plan.kept,
        since=place(plan.subscribe_at.to_text()),
        staged=closed_files(plan.start.to_text(), batch),
    )


def _look_again(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Read the batch again under the lease: more may be staged than when listening began."""
    if not rules.keeps(broken.LOOK_AGAIN):
        yield "does not look again", world.worker(me._replace(at="listen"))
        return
    area = world.areas[me.area]
    batch = area.batch(me.key)
    base = "" if me.drafts else me.seen
    if unpinned(me) and not decisions.same_but_hint(world.read(me.me), base):
        yield failed(world, me, "finds the position begun or pinned meanwhile")
        return
    plan = decisions.plan(me.seen, batch, batch.parts, area.keepalive_point)
    overtaken = any(one.key[0] == me.key[0] and one.key[1] > me.key[1] for one in area.batches)
    if overtaken or not isinstance(plan, recovery.FetchPlan):
        yield failed(world, me, "finds the batch continued by another process")
    elif plan.kept != me.kept:
        yield failed(world, me, "finds more staged meanwhile, and drops its events")
    else:
        yield "finds nothing new", world.worker(me._replace(at="listen"))


def _listen(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if me.since == UNKNOWN:
        yield subscribed(world, me)
        return
    if me.since < len(world.bus) and waited(me) < me.enough:
        yield delivered(world, me)
    elif world.keepalives and (
        not me.memory or not rules.keeps(broken.KEEPALIVE_POINT_BEHIND_FILES)
    ):
        yield kept_alive(world, me)
    if me.memory:
        yield "is to stage its events", world.worker(me._replace(at=_to_stage(me)))
    elif me.since == len(world.bus) or rules.ends_early:
        yield ended(world, me, "the time is over")


def _to_stage(me: Worker) -> str:
    if not me.lease:
        return "lease"
    return "pin" if unpinned(me) else "write"


def _pin(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    replay_id = f"{me.memory[0]:02x}"
    yield f"is to pin event {replay_id}", world.worker(to_pin(me, replay_id, EVENT, "write"))


def _note(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if unpinned(me):
        after = to_pin(me, me.text, KEEPALIVE, "let go")
        yield f"is to pin keepalive {me.text}", world.worker(after)
        return
    there = world.areas[me.area].keepalive_point
    if there and there.epoch == me.key[0] and there.batch_number >= me.key[1]:
        yield "finds a keepalive point of a later position", world.worker(me._replace(at="let go"))
        return
    follows = me.kept[-1].end if me.kept and rules.keeps(broken.KEEPALIVE_POINT_AFTER) else me.start
    label, changed = anchored(world, me, follows)
    at = "keep" if not me.kept or not rules.keeps(broken.RESUME_EMPTY) else "let go"
    yield label, changed.worker(me._replace(at=at))


def _keep(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Read the position for a keepalive, and take the batch's lease."""
    found = world.read(me.me)
    here = (me.key, position(me.seen).start)
    if not found or (decisions.next_key(found), position(found).start) != here:
        yield "finds another position", world.worker(me._replace(at="let go"))
        return
    for label, changed, number in leasing.leased_at_once(rules, world, me, me.key):
        after = me._replace(at="keep look" if number else "let go", lease=number, base=found)
        yield label, changed.worker(after if number else after._replace(base=""))


def _keep_look(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    batch = world.areas[me.area].batch(me.key)
    if (batch.manifest or batch.parts) and rules.keeps(broken.RESUME_EMPTY):
        yield "finds something staged", world.worker(me._replace(at="kept", base=""))
        return
    text = decisions.moved_on(me.base, me.text)
    yield "is to keep the keepalive", world.worker(to_write(me, me.base, text, "kept"))


def _kept(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Listen again; the plan stays, though the position may have another keepalive now."""
    yield "listens again", _let_go(world, me)


def _write(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    label, changed, after = closed(world, me)
    yield label, changed.worker(after._replace(at="hint" if len(world.areas) > 1 else "release"))


def _hint(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Record in the position how much is staged, for another area."""
    found = world.read(me.me)
    if not found or decisions.next_key(found) != me.key or not holds_lease(rules, world, me):
        yield "leaves no hint", world.worker(me._replace(at="release"))
        return
    text = decisions.noted(found, staging_id(me.area), waited(me))
    yield "is to leave a hint", world.worker(to_write(me, found, text, "noted"))


def _release(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if waited(me) >= me.enough:
        yield goes_on(world, me)
        return
    changed = world.area(me.area, released(world.areas[me.area], me))
    again = Worker(slot=me.slot, run=me.run, life=me.life, tries=me.tries, area=me.area)
    again = again._replace(at="receipts", enough=me.enough, then=me.then)
    yield "releases the batch, and looks again", changed.worker(again)


def _let_go(world: World, me: Worker) -> World:
    changed = world.area(me.area, released(world.areas[me.area], me))
    return changed.worker(me._replace(at="listen", lease=0, text=""))


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "sight": _sight,
    "plan": _plan,
    "look again": _look_again,
    "listen": _listen,
    "pin": _pin,
    "note": _note,
    "keep": _keep,
    "keep look": _keep_look,
    "kept": _kept,
    "let go": _kept,
    "write": _write,
    "hint": _hint,
    "noted": _release,
    "release": _release,
}
