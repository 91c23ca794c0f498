"""Writes of a position, step by step, in the order of `batches.position_writes` and `stores.write`.

A write checks the lease, finds the record as it was, sets the new one, and reads it back. Between
these steps anything may happen. A write may be late: its writer reads it back, other readers still
see the old record, and once visible it replaces the record that is there by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.positions.record import EVENT
from tests.unit.model import decisions, rules as broken
from tests.unit.model.attempts import Step, failed, holds_lease, stands
from tests.unit.model.world import UNKNOWN, Worker, World, place, position, staging_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.rules import Rules


def to_write(me: Worker, base: str, text: str, further: str) -> Worker:
    """The worker about to write a record, if the store still holds `base`.

    :param further: the step after it.
    """
    return me._replace(at="unchanged", base=base, text=text, further=further)


def to_pin(me: Worker, replay_id: str, by: str, further: str) -> Worker:
    """The worker about to replace `latest` by a replay id."""
    text = decisions.pinned(me.seen, replay_id, by, staging_id(me.area))
    base = me.base or ("" if me.drafts else me.seen)
    return to_write(me, base, text, further)


def unpinned(me: Worker) -> bool:
    return not position(me.seen).is_pinned


def put(world: World, me: Worker, further: str) -> Iterator[Step]:
    """Set the record `text`; at once, or late."""
    others = tuple(one for one in world.late if one[0] != me.me)
    after = me._replace(at=further)
    label = f"writes the position ({stands(me.text)})"
    yield label, world._replace(store=me.text, late=others).worker(after)
    if world.delays:
        late = tuple(sorted((*others, (me.me, me.text))))
        changed = world._replace(late=late, delays=world.delays - 1)
        yield f"{label}, which is not visible yet", changed.worker(after)


def visible(world: World, index: int) -> World:
    """The world once a late write is visible; it replaces what was written meanwhile."""
    late = (*world.late[:index], *world.late[index + 1 :])
    return world._replace(store=world.late[index][1], late=late)


def pinned(world: World, text: str) -> World:
    """The world once a task has read the pinned record back: later events must not be missed."""
    if world.beginning != UNKNOWN or not position(text).is_pinned:
        return world
    return world._replace(beginning=place(position(text).start.to_text()))


def _unchanged(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    found = world.read(me.me)
    if not holds_lease(rules, world, me):
        yield _gives_way(world, me, "finds its lease taken over")
    elif rules.keeps(broken.UNCHANGED) and not decisions.same_but_hint(found, me.base):
        yield _gives_way(world, me, f"finds another position ({stands(found)})")
    else:
        yield "finds the position as it was", world.worker(me._replace(at="put"))


def _put(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if rules.keeps(broken.SWAP) and not decisions.same_but_hint(world.store, me.base):
        yield _gives_way(world, me, "finds another position")
        return
    yield from put(world, me, "put back" if rules.keeps(broken.READ_BACK) else "written")


def _put_back(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if rules.keeps(broken.SETTLE) and any(one.at in ("put", "set") for one in world.workers):
        return
    if world.read(me.me) != me.text:
        yield _gives_way(world, me, "reads back another position")
    else:
        yield from _written(rules, world, me)


def _written(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    is_first = not me.base
    pins = not me.optional and (is_first or not position(me.base).is_pinned)
    after = me._replace(seen=me.text, base="", text="", drafts=False)
    after = after._replace(at="origin") if is_first else after._replace(at=me.further, further="")
    if pins and not _holds_pin(rules, me.text):
        after = after._replace(start=position(me.text).start.to_text())
    changed = pinned(world, me.text) if pins else world
    yield "reads the position back", changed.worker(after)


def _holds_pin(rules: Rules, text: str) -> bool:
    """Return whether the next file starts at `latest`, because it holds the pinning event."""
    return rules.keeps(broken.HOLDS_PIN) and position(text).pinned_by == EVENT


def _origin(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    changed = decisions.with_origin(world, me.area, me.seen)
    after = me._replace(at=me.further, further="")
    yield f"writes the origin of epoch {position(me.seen).epoch}", changed.worker(after)


def _gives_way(world: World, me: Worker, why: str) -> Step:
    if not me.optional:
        return failed(world, me, f"{why}, and gives way")
    after = me._replace(at=me.further, base="", text="", further="")
    return f"{why}, and leaves it", world.worker(after)


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "unchanged": _unchanged,
    "put": _put,
    "put back": _put_back,
    "written": _written,
    "origin": _origin,
}
