"""How an attempt comes by the position, in the order of `batches.past` and `batches.opening`: read, looked at again, or begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging.marks import Origin
from tests.unit.model import decisions, rules as broken
from tests.unit.model.attempts import Step, checked, failed, released, stands
from tests.unit.model.world import Worker, World, position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.rules import Rules


def _begin(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if me.life == 1:
        yield from _receipts(rules, world, me)
        return
    own = decisions.own_batch(world.areas[me.area], world.store, me.run, me.life)
    if own is None:
        yield "has no batch of its own", world.worker(me._replace(at="receipts"))
        return
    after = me._replace(at="claim", key=(own.epoch, own.sequence))
    yield f"finds batch {own.batch_id}, which its run had committed", world.worker(after)


def _receipts(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    newest = decisions.newest_landed(world.areas[me.area])
    after = me._replace(at="position", landed=newest)
    said = f"{newest.epoch}-{newest.sequence}" if newest else "nothing"
    yield f"looks what has landed ({said})", world.worker(after)


def _reread(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if rules.keeps(broken.REREAD):
        yield from _receipts(rules, world, me)
    else:
        yield "does not read the position again", world.worker(me._replace(at="look"))


def _position(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if not world.store:
        at = "claim" if rules.keeps(broken.BEGIN_ONCE) else "ask again"
        yield "finds no position", world.worker(me._replace(at=at, landed=None))
    elif why := decisions.stale(me.landed, world.store):
        yield failed(world, me, f"refused: {why[:60]}")
    else:
        yield _go_on(world, me)


def _ask_again(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if world.store:
        yield _go_on(world, me)
    else:
        yield "still finds no position", world.worker(me._replace(at="begin epoch"))


def _go_on(world: World, me: Worker) -> Step:
    """To the claim of the batch after the position; or, where that is what is claimed, to what lies there."""
    key = decisions.next_key(world.store)
    same = bool(me.claim) and key == me.key
    area = world.areas[me.area] if same else released(world.areas[me.area], me)
    after = me._replace(landed=None, seen=world.store, key=key)
    after = after._replace(at="look") if same else _turned_to_batch(after)
    label = f"reads the position ({stands(world.store)})"
    return label, world.area(me.area, area).worker(after)


def _begin_epoch(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if why := decisions.lost(world.areas[me.area]):
        yield failed(world, me, f"refused: {why[:60]}")
        return
    epoch = "first" if rules.keeps(broken.ONE_EPOCH) else f"{me.slot}{me.life}"
    text = decisions.begun(me.run, epoch, world.ticks, rules.initial_replay)
    area = world.areas[me.area]
    if rules.keeps(broken.ONE_BEGINNING):
        text = area.first or text
        world = world.area(me.area, area._replace(first=text))
    at = "check beginning" if rules.keeps(broken.BEGIN_ONCE) else "set first"
    changed = world._replace(ticks=world.ticks + 1)
    yield f"is to begin epoch {position(text).epoch}", changed.worker(me._replace(at=at, text=text))


def _check_beginning(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    yield checked(rules, world, me, me._replace(at="set first"))


def _set_first(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    changed = world._replace(store=me.text)
    yield f"writes the position ({stands(me.text)})", changed.worker(me._replace(at="read first"))


def _read_first(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if world.store == me.text:
        yield "reads the position back", world.worker(me._replace(at="origin"))
    else:
        yield failed(world, me, "reads back another position")


def _write_origin(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    changed = with_origin(world, me.area, me.text)
    area = released(changed.areas[me.area], me)
    after = me._replace(seen=me.text, text="", key=decisions.next_key(me.text))
    label = f"writes the origin of epoch {position(me.text).epoch}"
    yield label, changed.area(me.area, area).worker(_turned_to_batch(after))


def _turned_to_batch(me: Worker) -> Worker:
    """An attempt claims the batch; a wait looks whether somebody else has."""
    return me._replace(at="sight" if me.enough else "claim", claim=0)


def with_origin(world: World, index: int, text: str) -> World:
    """The world once an area knows how a position's epoch began; a second time changes nothing."""
    area, first = world.areas[index], position(text)
    if any(one.epoch == first.epoch for one in area.origins):
        return world
    origin = Origin(epoch=first.epoch, created_at=first.committed_at, position=text)
    return world.area(index, area._replace(origins=(*area.origins, origin)))


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "begin": _begin,
    "receipts": _receipts,
    "reread": _reread,
    "position": _position,
    "ask again": _ask_again,
    "begin epoch": _begin_epoch,
    "check beginning": _check_beginning,
    "set first": _set_first,
    "read first": _read_first,
    "origin": _write_origin,
}
