"""A managed subscription, in the order of `batches.managed_supply`: Salesforce keeps a replay id.

The commit to Salesforce follows the manifest, not the landing. Only tasks read by it here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from airflow_provider_sfevents.batches.managed import redelivery
from airflow_provider_sfevents.batches.managed.managed_source import ManagedSource
from airflow_provider_sfevents.batches.next_batch import NextBatch
from airflow_provider_sfevents.batches.recovery import FetchPlan
from airflow_provider_sfevents.replay_point import ReplayPoint
from tests.unit.model import beside, decisions, rules as broken
from tests.unit.model.attempts import Step, failed
from tests.unit.model.world import (
    LATEST,
    UNKNOWN,
    Key,
    Worker,
    World,
    manifest,
    place,
    places,
    position,
    staging_id,
)
from tests.unit.model.writing import to_write, unpinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.managed.managed_subscription import ManagedSubscription
    from airflow_provider_sfevents.staging.manifest import Part
    from tests.unit.model.rules import Rules


def _supply(rules: Rules, world: World, me: Worker) -> ManagedSource:
    """The package's event source of the next batch; only its reading methods are called."""
    next_batch = NextBatch.after(position(me.seen), "orders")
    if not rules.keeps(broken.LAST_PLACE):
        next_batch = replace(next_batch, staging_since=1)
    before = world.areas[me.area].batch((next_batch.epoch, next_batch.batch_number - 1))
    if not rules.keeps(broken.OWED) and before.manifest:
        next_batch = replace(next_batch, position_start=manifest(before.manifest).end)
    return ManagedSource(
        cast("PubSubClient", None),
        cast("ManagedSubscription", None),
        next_batch,
        beside.folder(world.areas[me.area]),
        staging_id(me.area),
    )


def kept_alive(world: World, me: Worker) -> World:
    """The world once Salesforce keeps a keepalive's replay id, which may pin `latest` here."""
    changed = world._replace(kept_place=place(me.text))
    return _confirmed(changed, me, me.key, me.text) if unpinned(me) else changed


def _confirmed(world: World, me: Worker, key: Key, replay_id: str) -> World:
    area = world.areas[me.area]
    return world.area(me.area, area.put(area.batch(key)._replace(confirmed=replay_id)))


def _slot_is_taken(world: World, me: Worker) -> bool:
    """Return whether another worker has the only stream that a managed subscription may have."""
    return any(one.managed for one in world.workers if one.slot != me.slot)


def before_first_file(rules: Rules, me: Worker) -> str:
    """The step after an event came, or was pinned: the first file is begun only after a check."""
    begun = not rules.managed or _own(me.kept, me)
    return "fetch" if begun or not rules.keeps(broken.FIRST_FILE) else "may begin"


def with_first_event(rules: Rules, world: World, me: Worker) -> World:
    """The world once an event was delivered; the first one is staged only after a check."""
    after = next(one for one in world.workers if one.slot == me.slot)
    if me.memory or not after.memory or unpinned(me):
        return world
    return world.worker(after._replace(at=before_first_file(rules, me)))


def _may_begin(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Check the position: if another task wrote it, Salesforce's replay id may be too late."""
    if decisions.same_but_hint(world.read(me.me), me.seen):
        yield (
            "finds the position as it was, and begins a file",
            world.worker(me._replace(at="fetch")),
        )
    else:
        yield failed(world, me, "finds another position, and stages nothing")


def _own(parts: tuple[Part, ...], me: Worker) -> tuple[Part, ...]:
    return tuple(one for one in parts if one.path.startswith(f"attempts/{me.lease:04d}/"))


def is_pinning_file(me: Worker) -> bool:
    """Return whether the file just closed holds the event that pinned the position."""
    return len(me.kept) == 1 and me.kept[0].start == LATEST


def to_take(me: Worker, text: str, goal: str) -> Worker:
    """The worker about to record its area in the position, and then to commit a batch's end."""
    return me._replace(at="take", text=text, goal=goal)


def _make_up(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Commit the replay id that an earlier attempt could not commit."""
    owed = _supply(rules, world, me)._owed()
    after = me._replace(at="place")
    if owed and _slot_is_taken(world, me):
        yield "finds the slot taken, and makes nothing up", world.worker(after)
        return
    if not owed:
        yield "has nothing to make up", world.worker(after)
        return
    changed = _confirmed(world, me, (me.key[0], me.key[1] - 1), owed)
    changed = changed._replace(kept_place=place(owed))
    yield f"commits {owed} of the batch before", changed.worker(after)
    if world.refusals:
        refused = world._replace(refusals=world.refusals - 1).worker(after)
        yield f"cannot commit {owed} of the batch before", refused


def _place(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Read after Salesforce's replay id, unless that might be beyond what this area holds."""
    supply = _supply(rules, world, me)
    plan = FetchPlan(start=ReplayPoint(me.start), kept=me.kept)
    if me.since == UNKNOWN:
        plan = FetchPlan(start=ReplayPoint(LATEST))
    if rules.keeps(broken.NO_PLACE) and supply._has_no_place(plan):
        offered = "" if world.kept_place == UNKNOWN else f"{world.kept_place + 1:02x}"
        after = me._replace(at="fetch", offered=offered or "01")
        yield (
            "does not know Salesforce's replay id, and reads after the position",
            world.worker(after),
        )
        return
    if _slot_is_taken(world, me):
        yield failed(world, me, "finds the slot taken")
        return
    start = world.kept_place
    if start == UNKNOWN and rules.initial_replay == "earliest":
        start = 0
    known = frozenset(_events(me.kept))
    for before in redelivery.may_come_again(supply._before()):
        known |= _events(before.manifest.parts)
    after = me._replace(at="fetch", since=start, known=known, managed=True)
    yield f"reads after Salesforce's replay id, {start}", world.worker(after)


def _events(parts: tuple[Part, ...]) -> frozenset[int]:
    return frozenset(event for part in parts for event in places(part))


def _take(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Record this area in the position, before Salesforce keeps the end of its batch."""
    after = me._replace(at="keep")
    named = position(me.seen).staging_id == staging_id(me.area)
    if not rules.keeps(broken.TAKE_AREA) or (named and not rules.keeps(broken.SAME_AREA)):
        yield "has its area in the position", world.worker(after)
        return
    if named:
        if decisions.same_but_hint(world.read(me.me), me.seen):
            yield "finds its area in the position", world.worker(after)
        else:
            yield failed(world, me, "finds another position, and gives way")
        return
    text = decisions.taken(me.seen, staging_id(me.area))
    yield "is to name its area", world.worker(to_write(me, me.seen, text, "keep"))


def _keep(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Commit the batch's end to Salesforce."""
    batch = world.areas[me.area].batch(me.key)
    staged = manifest(batch.manifest)
    after = me._replace(
        at=me.goal, goal="", text=batch.manifest, offered="", managed=False, known=frozenset()
    )
    if batch.confirmed == staged.end:
        yield "finds its end committed at Salesforce", world.worker(after)
        return
    if _slot_is_taken(world, me):
        yield "finds the slot taken, and commits nothing at Salesforce", world.worker(after)
        return
    mine = _events(_own(staged.parts, me))
    is_ours = bool(me.offered) and place(me.offered) in mine
    keeps = me.offered if is_ours else staged.end
    changed = _confirmed(world, me, me.key, keeps)._replace(kept_place=place(keeps))
    yield f"commits {keeps} at Salesforce", changed.worker(after)
    if world.refusals:
        refused = world._replace(refusals=world.refusals - 1).worker(after)
        yield "is refused by Salesforce, and lands nevertheless", refused


def _keep_first(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Commit the event that pinned `latest`: Salesforce has no replay id yet."""
    end = me.kept[0].end
    changed = _confirmed(world, me, me.key, end)._replace(kept_place=place(end))
    yield f"commits {end} at Salesforce", changed.worker(me._replace(at="fetch"))


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "make up": _make_up,
    "place": _place,
    "may begin": _may_begin,
    "take": _take,
    "keep": _keep,
    "keep first": _keep_first,
}
