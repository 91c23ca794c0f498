"""Deliveries of the bus, and the files and keepalives that they leave in a staging area."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.positions.record import EVENT
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from tests.unit.model import decisions
from tests.unit.model.world import Batch, Worker, World, of_keepalive, place, places, position

if TYPE_CHECKING:
    from tests.unit.model.attempts import Step


def subscribed(world: World, me: Worker) -> Step:
    """Subscribe at `latest`: from now on this subscription receives each event."""
    after = me._replace(since=len(world.bus))
    return f"subscribes at latest, after event {after.since}", world.worker(after)


def delivered(world: World, me: Worker, *, beyond: bool = False) -> Step:
    """Deliver the next event into memory.

    :param beyond: the batch is full already.
    """
    event = me.since + 1
    changed = world._replace(delivered=_once_more(world.delivered, event))
    if event in me.known:
        after = me._replace(since=event)
        return f"drops event {event}, which is staged before", changed.worker(after)
    if beyond:
        after = me._replace(beyond=(*me.beyond, event), since=event)
        return f"is delivered event {event}, beyond the batch", changed.worker(after)
    after = me._replace(memory=(*me.memory, event), since=event)
    return f"is delivered event {event}", changed.worker(after)


def _once_more(times: tuple[int, ...], event: int) -> tuple[int, ...]:
    return (*times[: event - 1], times[event - 1] + 1, *times[event:])


def kept_alive(world: World, me: Worker) -> Step:
    """A keepalive, which the bus sends while it has no event to send."""
    text = of_keepalive(me.since, world.keepalives)
    changed = world._replace(keepalives=world.keepalives - 1)
    return f"receives keepalive {text}", changed.worker(me._replace(at="note", text=text))


def waited(me: Worker) -> int:
    """Events of the batch that are kept or in memory."""
    return sum(part.events for part in me.kept) + len(me.memory)


def closed_files(start: str, batch: Batch) -> frozenset[int]:
    """Events in the closed files that the next attempt keeps."""
    kept = decisions.kept_files(start, batch.parts)
    return frozenset(event for part in kept for event in places(part))


def closed(world: World, me: Worker) -> tuple[str, World, Worker]:
    """Close a file with the events in memory; the caller sets the next step."""
    start = me.kept[-1].end if me.kept else me.start
    part = decisions.part(me.lease, sum(part.events for part in me.kept), start, me.memory)
    area = world.areas[me.area]
    batch = area.batch(me.key)
    others = tuple(one for one in batch.parts if one.path != part.path)
    parts = tuple(sorted((*others, part), key=lambda one: one.path))
    changed = world.area(me.area, area.put(batch._replace(parts=parts)))
    label = f"closes a file with {list(me.memory)}"
    after = me._replace(memory=(), kept=(*me.kept, part), start=position(me.seen).start.to_text())
    return label, _with_pinning_event(changed, me), after


def _with_pinning_event(world: World, me: Worker) -> World:
    """An event that pinned the position has to land once the batch's holder has staged it."""
    stands = position(world.store) if world.store else None
    leases = world.areas[me.area].leases(me.key)
    if (
        stands is None
        or leases[-1].by != me.me
        or (stands.pinned_by, stands.start) != (EVENT, position(me.seen).start)
        or world.beginning != place(stands.start.to_text())
        or me.memory[0] != world.beginning
    ):
        return world
    return world._replace(beginning=world.beginning - 1)


def anchored(world: World, me: Worker, after: str) -> tuple[str, World]:
    """Write a keepalive's replay id beside the batches.

    :param after: replay point that the keepalive followed.
    """
    stands = position(me.seen)
    keepalive_point = KeepalivePoint(
        epoch=stands.epoch,
        batch_number=stands.batch_number,
        replay_id=me.text,
        seen_at="",
        after=after,
    )
    changed = world.area(me.area, world.areas[me.area]._replace(keepalive_point=keepalive_point))
    return f"writes keepalive point {me.text}, after {after}", changed
