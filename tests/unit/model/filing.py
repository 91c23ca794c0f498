"""What attempts and waits hear, and what they leave of it in the staging area: closed files, and anchors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging.marks import Anchor
from tests.unit.model import decisions, rules as broken
from tests.unit.model.attempts import checked
from tests.unit.model.world import (
    LATEST,
    UNKNOWN,
    Batch,
    Worker,
    World,
    of_keepalive,
    place,
    places,
    position,
)

if TYPE_CHECKING:
    from tests.unit.model.attempts import Step
    from tests.unit.model.rules import Rules


def subscribed(world: World, me: Worker) -> Step:
    """Where `latest` is, is known from now on, and to nobody else."""
    after = me._replace(since=len(world.bus))
    return f"subscribes at latest, after event {after.since}", world.worker(after)


def asked_in_time(rules: Rules, world: World, me: Worker, after: Worker) -> Step:
    """Whoever takes a claim over asks later. So once something was heard, the claim tells whether ours is the earlier `latest`."""
    if rules.keeps(broken.CHECK_LATEST):
        return checked(rules, world, me, after)
    return "does not check its claim", world.worker(after)


def delivered(world: World, me: Worker) -> Step:
    """The next event, into memory."""
    times = list(world.delivered)
    times[me.since] += 1
    after = me._replace(memory=(*me.memory, me.since + 1), since=me.since + 1)
    label = f"is delivered event {after.since}"
    return label, world._replace(delivered=tuple(times)).worker(after)


def kept_alive(world: World, me: Worker) -> Step:
    """A keepalive, which the bus sends where there is nothing else to send."""
    text = of_keepalive(me.since, world.keepalives)
    changed = world._replace(keepalives=world.keepalives - 1)
    return f"hears keepalive {text}", changed.worker(me._replace(at="note", text=text))


def heard(me: Worker) -> int:
    """Events of the batch that it knows of."""
    return sum(part.events for part in me.kept) + len(me.memory)


def lying(batch: Batch) -> frozenset[int]:
    """Events in closed files that are worth keeping.

    Not those of a file that hangs in the air, as the one before it was damaged; nor of a second `latest`, which is another moment.
    """
    found: set[int] = set()
    ends: set[str] = set()
    starts: set[str] = set()
    for part in sorted(batch.parts, key=lambda one: (one.first_ordinal, one.path)):
        is_first = part.first_ordinal == 0 and not (part.start == LATEST and LATEST in starts)
        if is_first or part.start in ends:
            found.update(places(part))
            ends.add(part.end)
            starts.add(part.start)
    return frozenset(found)


def closed(world: World, me: Worker) -> tuple[str, World, Worker]:
    """Close a file with what is in memory; the caller says what is next."""
    start = me.kept[-1].end if me.kept else me.start
    part = decisions.part(me.claim, sum(part.events for part in me.kept), start, me.memory)
    area = world.areas[me.area]
    batch = area.batch(me.key)
    others = tuple(one for one in batch.parts if one.path != part.path)
    parts = tuple(sorted((*others, part), key=lambda one: one.path))
    changed = world.area(me.area, area.put(batch._replace(parts=parts)))
    if start == LATEST:
        changed = _known(changed, me, me.memory[0] - 1)
    label = f"closes a file with {list(me.memory)}"
    return label, changed, me._replace(memory=(), kept=(*me.kept, part))


def anchored(world: World, me: Worker, after: str) -> tuple[str, World]:
    """Write the keepalive's replay id down.

    :param after: end of the last closed file that it follows; empty where it follows the position.
    """
    stands = position(me.seen)
    anchor = Anchor(
        epoch=stands.epoch, sequence=stands.sequence, replay_id=me.text, seen_at="", after=after
    )
    changed = world.area(me.area, world.areas[me.area]._replace(anchor=anchor))
    if stands.start == LATEST and not after:
        changed = _known(changed, me, place(me.text))
    return f"writes anchor {me.text}" + f", after {after}" * bool(after), changed


def _known(world: World, me: Worker, since: int) -> World:
    """Where `latest` is has been noted down: from now on nothing that was published since may be lost.

    What somebody says whose claim was taken over, or who lets it go too late, does not count.
    """
    claims = world.areas[me.area].claims(me.key)
    if world.beginning != UNKNOWN or (claims and claims[-1].by != me.me):
        return world
    return world._replace(beginning=since)
