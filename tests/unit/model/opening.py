"""Opening of a position, in the order of `batches.reruns` and `batches.position.open_position`.

An epoch at `latest` is a draft until its first keepalive or event (`writing.to_pin`). A task that
drafts reads the store again under the batch's lease. The model leaves out its second lease, on the
beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.model import decisions, rules as broken, writing
from tests.unit.model.attempts import Step, failed, released, stands
from tests.unit.model.world import Worker, World, position, staging_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.rules import Rules


def _begin(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if me.life == 1:
        yield from _receipts(rules, world, me)
        return
    own = decisions.own_batch(world.areas[me.area], world.read(me.me), me.run, me.life)
    if own is None:
        yield "has no batch of its own", world.worker(me._replace(at="receipts"))
        return
    after = me._replace(at="lease", key=(own.epoch, own.batch_number))
    yield f"finds batch {own.batch_id}, which its run had committed", world.worker(after)


def _receipts(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    newest = decisions.newest_landed(world.areas[me.area])
    after = me._replace(at="position", landed=newest)
    said = f"{newest.epoch}-{newest.batch_number}" if newest else "nothing"
    yield f"reads the newest receipt ({said})", world.worker(after)


def _reread(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if me.drafts or rules.keeps(broken.REREAD):
        yield from _receipts(rules, world, me)
    else:
        yield "does not read the position again", world.worker(me._replace(at="look"))


def _position(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    found = world.read(me.me)
    if not found:
        yield _none_found(rules, world, me)
    elif why := _refused(rules, me, found):
        yield failed(world, me, f"refused: {why[:60]}")
    else:
        yield _go_on(world, me, found)


def _refused(rules: Rules, me: Worker, found: str) -> str:
    """Reason to refuse the position; empty: it is not refused."""
    if why := decisions.stale(me.landed, found):
        return why
    return decisions.elsewhere(found, staging_id(me.area)) if rules.keeps(broken.ELSEWHERE) else ""


def _none_found(rules: Rules, world: World, me: Worker) -> Step:
    if me.lease and me.drafts:
        if why := decisions.lost(world.areas[me.area]):
            return failed(world, me, f"refused: {why[:60]}")
        return "still finds no position", world.worker(me._replace(at="look", landed=None))
    at = "lease" if rules.keeps(broken.BEGIN_ONCE) else "ask again"
    return "finds no position", world.worker(me._replace(at=at, landed=None))


def _ask_again(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if found := world.read(me.me):
        yield _go_on(world, me, found)
    else:
        yield "still finds no position", world.worker(me._replace(at="begin epoch"))


def _go_on(world: World, me: Worker, found: str) -> Step:
    """Continue with the batch after the position; another attempt may hold its lease already."""
    key = decisions.next_key(found)
    same = bool(me.lease) and key == me.key
    area = world.areas[me.area] if same else released(world.areas[me.area], me)
    after = me._replace(landed=None, seen=found, drafts=False, key=key)
    after = after._replace(at="look") if same else _turned_to_batch(after)
    label = f"reads the position ({stands(found)})"
    return label, world.area(me.area, area).worker(after)


def _begin_epoch(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if why := decisions.lost(world.areas[me.area]):
        yield failed(world, me, f"refused: {why[:60]}")
        return
    text = decisions.begun(
        me.run, _epoch(rules, me), world.ticks, rules.initial_replay, staging_id(me.area)
    )
    area = world.areas[me.area]
    if rules.keeps(broken.ONE_BEGINNING):
        text = area.first or text
        world = world.area(me.area, area._replace(first=text))
    changed = world._replace(ticks=world.ticks + 1)
    label = f"is to begin epoch {position(text).epoch}"
    if not position(text).is_pinned:
        yield f"{label}, a draft", _drafted(changed, me, text)
        return
    after = writing.to_write(me, "", text, "begun")
    yield (
        label,
        changed.worker(after if rules.keeps(broken.BEGIN_ONCE) else after._replace(at="put")),
    )


def _epoch(rules: Rules, me: Worker) -> str:
    """A new epoch's id: random, and one per area because its first record is written once there."""
    if rules.keeps(broken.ONE_EPOCH):
        return "first"
    return f"first{me.area}" if rules.keeps(broken.ONE_BEGINNING) else f"{me.slot}{me.life}"


def _drafted(world: World, me: Worker, text: str) -> World:
    area = released(world.areas[me.area], me)
    after = me._replace(seen=text, drafts=True, key=decisions.next_key(text))
    return world.area(me.area, area).worker(_turned_to_batch(after))


def _begun(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = released(world.areas[me.area], me)
    after = me._replace(key=decisions.next_key(me.seen), start="")
    yield "turns to its first batch", world.area(me.area, area).worker(_turned_to_batch(after))


def _turned_to_batch(me: Worker) -> Worker:
    """The task takes the batch's lease; a wait looks for another holder first."""
    return me._replace(at="sight" if me.enough else "lease", lease=0)


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "begin": _begin,
    "receipts": _receipts,
    "reread": _reread,
    "position": _position,
    "ask again": _ask_again,
    "begin epoch": _begin_epoch,
    "begun": _begun,
}
