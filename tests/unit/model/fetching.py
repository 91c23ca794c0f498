"""A task's fetch, in the order of `batches.fetch`, `fallback` and `carry_over`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.positions.record import EVENT, KEEPALIVE
from tests.unit.model import decisions, leasing, managed, rules as broken
from tests.unit.model.attempts import Step, checked, ended, failed, released
from tests.unit.model.filing import (
    closed,
    closed_files,
    delivered,
    kept_alive,
    subscribed,
    waited,
)
from tests.unit.model.world import UNKNOWN, Worker, World, manifest, place, places, position
from tests.unit.model.writing import to_pin, to_write, unpinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.batches import recovery
    from tests.unit.model.rules import Rules


def to_fetch(rules: Rules, world: World, me: Worker, plan: recovery.FetchPlan) -> Step:
    """Subscribe at the freshest replay point that the bus knows; otherwise fall back."""
    batch = world.areas[me.area].batch(me.key)
    after = me._replace(
        at="fetch",
        start=plan.start.to_text(),
        kept=plan.kept,
        staged=closed_files(plan.start.to_text(), batch),
    )
    if rules.managed:
        return f"is to fetch after {plan.subscribe_at}", world.worker(
            after._replace(at="make up", since=place(plan.subscribe_at.to_text()))
        )
    points = (one.to_text() for one in (*plan.keepalive_points, plan.resume))
    asks = [one for one in points if not _is_gone(world, one)]
    if asks:
        after = after._replace(
            since=max(place(asks[0]), world.gone) if _is_place(asks[0]) else UNKNOWN
        )
        return f"keeps {plan.events} events and fetches after {asks[0]}", world.worker(after)
    if plan.kept:
        return "is refused, and lands what is staged", world.worker(after._replace(at="end"))
    lost = decisions.fallen_back(me.seen, rules.replay_fallback)
    if not lost:
        return failed(world, me, "is refused, and nothing was chosen")
    if position(lost).is_pinned:
        return "is refused, and falls back", world.worker(to_write(me, me.seen, lost, "look"))
    after = after._replace(
        seen=lost, base=me.seen, start=position(lost).start.to_text(), since=UNKNOWN
    )
    return "is refused, and falls back to latest", world.worker(after)


def _is_gone(world: World, replay_id: str) -> bool:
    return replay_id != "earliest" and _is_place(replay_id) and place(replay_id) < world.gone


def _is_place(replay_id: str) -> bool:
    return place(replay_id) != UNKNOWN


def _fetch(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if me.since == UNKNOWN:
        yield subscribed(world, me)
    elif me.memory and unpinned(me):
        replay_id = f"{me.memory[0]:02x}"
        after = to_pin(me, replay_id, EVENT, managed.before_first_file(rules, me))
        yield f"is to pin event {replay_id}", world.worker(after)
    else:
        yield from _receive(rules, world, me)
        yield from _close_or_end(rules, world, me)


def _may_go_on(rules: Rules, world: World, me: Worker) -> bool:
    return waited(me) < rules.max_events and me.since < len(world.bus)


def _receive(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if _may_go_on(rules, world, me):
        label, changed = delivered(world, me)
        yield label, managed.with_first_event(rules, changed, me)
    elif rules.carries and waited(me) and me.since < len(world.bus) and not me.beyond:
        yield delivered(world, me, beyond=True)


def _close_or_end(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if me.memory:
        # A file may be closed at any time, because its age closes it, too.
        label, changed, after = closed(world, me)
        at = "keep first" if rules.managed and managed.is_pinning_file(after) else "fetch"
        yield label, changed.worker(after._replace(at=at))
    elif _may_go_on(rules, world, me) and not (rules.ends_early and me.kept):
        return
    elif me.kept:
        yield "ends the fetch", world.worker(me._replace(at="end"))
    else:
        yield from _nothing_came(world, me)


def _nothing_came(world: World, me: Worker) -> Iterator[Step]:
    if world.keepalives:
        yield kept_alive(world, me)
    if unpinned(me):
        yield failed(world, me, "has received nothing that would pin latest")
    else:
        yield ended(world, me, "nothing came")


def _note(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """A keepalive came before any event: it pins `latest`, or goes into the position."""
    changed = managed.kept_alive(world, me) if me.managed else world
    if unpinned(me):
        after = to_pin(me, me.text, KEEPALIVE, "fetch")
        yield f"is to pin keepalive {me.text}", changed.worker(after)
        return
    text = decisions.moved_on(me.seen, me.text)
    yield "is to keep the keepalive", changed.worker(to_write(me, me.seen, text, "quiet"))


def _quiet(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    yield ended(world, me, "nothing came")


def _end(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """A run that was killed may have left a position whose epoch the staging area does not know."""
    after = me._replace(at="check manifest")
    if position(me.seen).batch_number:
        yield "has the origin", world.worker(after)
    else:
        changed = decisions.with_origin(world, me.area, me.seen)
        yield "makes sure of the origin", changed.worker(after)


def _check_manifest(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    text = decisions.staged(me.seen, me.kept, world.ticks, me.run, me.life)
    changed = world._replace(ticks=world.ticks + 1)
    after = me._replace(at="manifest", text=text, kept=(), staged=frozenset(), known=frozenset())
    yield checked(rules, changed, me, after)


def _write_manifest(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    batch = area.batch(me.key)
    if batch.manifest:
        after = _staged(rules, me, batch.manifest)
        yield "finds a manifest there", world.worker(after)
    elif rules.exclusive_create:
        changed = world.area(me.area, area.put(batch._replace(manifest=me.text)))
        yield (
            f"creates the manifest ({_events(me.text)})",
            changed.worker(_staged(rules, me, me.text)),
        )
    else:
        yield "finds no manifest there", world.worker(me._replace(at="overwrite"))


def _overwrite(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    changed = world.area(me.area, area.put(area.batch(me.key)._replace(manifest=me.text)))
    yield (
        f"writes the manifest ({_events(me.text)})",
        changed.worker(_staged(rules, me, me.text)),
    )


def _staged(rules: Rules, me: Worker, text: str) -> Worker:
    """The worker with the batch's manifest, which another attempt may have written."""
    counts = manifest(text).end == manifest(me.text).end or not rules.keeps(broken.CARRY_END)
    beyond = me.beyond if counts else ()
    after = me._replace(text=text, beyond=beyond, base="")
    if rules.managed:
        return managed.to_take(after, text, "check launch")
    return after._replace(at="carry" if beyond else "check launch")


def _carry(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """Take the next batch's lease for the events beyond this one; if it is held, drop them."""
    key = (me.key[0], me.key[1] + 1)
    for label, changed, number in leasing.leased_at_once(rules, world, me, key):
        after = me._replace(at="carry look", key=key, lease=number, start=str(me.lease))
        yield label, changed.worker(after if number else _carried(me))


def _carry_look(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    batch = world.areas[me.area].batch(me.key)
    begun = (batch.manifest or batch.parts) and rules.keeps(broken.CARRY_EMPTY)
    at = "carry end" if begun else "carry write"
    yield (
        "finds the next batch begun" if begun else "finds it empty",
        world.worker(me._replace(at=at)),
    )


def _carry_write(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    batch = area.batch(me.key)
    part = decisions.part(me.lease, 0, manifest(me.text).end, me.beyond)
    parts = tuple(sorted((*batch.parts, part), key=lambda one: one.path))
    changed = world.area(me.area, area.put(batch._replace(parts=parts)))
    yield f"keeps {list(me.beyond)} in it", changed.worker(me._replace(at="carry end"))


def _carry_end(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    changed = world.area(me.area, released(world.areas[me.area], me))
    own = me._replace(key=(me.key[0], me.key[1] - 1), lease=int(me.start))
    yield "releases the next batch", changed.worker(_carried(own))


def _carried(me: Worker) -> Worker:
    return me._replace(at="check launch", beyond=(), start="")


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "fetch": _fetch,
    "note": _note,
    "quiet": _quiet,
    "end": _end,
    "check manifest": _check_manifest,
    "manifest": _write_manifest,
    "overwrite": _overwrite,
    "carry": _carry,
    "carry look": _carry_look,
    "carry write": _carry_write,
    "carry end": _carry_end,
}


def _events(text: str) -> str:
    return ", ".join(str(list(places(part))) for part in manifest(text).parts)
