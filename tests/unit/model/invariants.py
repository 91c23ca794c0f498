"""What must hold: in every world, over every step, and when everybody has come to an end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.unit.model.world import UNKNOWN, File, place, position, remember

if TYPE_CHECKING:
    from tests.unit.model.rules import Rules
    from tests.unit.model.world import World


def broken_in(rules: Rules, world: World) -> str:
    """What is wrong with this world; empty: nothing."""
    files = world.table.files
    if len(world.areas) > 1 and (world.jobs or world.table.folders):
        # What a form of a batch that has not landed left behind is replaced file by file.
        rows = _by_batch(files)
    else:
        rows = tuple(file.rows for file in files)
    return (
        _doubled(world.bus, rows)
        or _passed(world.bus, rows, world.store, world.beginning)
        or _exceeded(rules, world)
    )


def broken_on_the_way(before: World, after: World) -> str:
    """What is wrong with this step: an event was delivered again that lay in a closed file when the fetch began."""
    if before.delivered == after.delivered or len(before.bus) != len(after.bus):
        return ""
    for one, then in zip(before.workers, after.workers, strict=True):
        if one.memory != then.memory and then.memory[-1] in then.staged:
            return f"event {then.memory[-1]} is paid for twice"
    return ""


def broken_at_the_end(rules: Rules, world: World) -> str:
    """What is wrong with a world in which nobody has anything left to do."""
    rows = tuple(file.rows for file in world.table.files)
    if fault := _doubled(world.bus, rows) or _passed(world.bus, rows, world.store, world.beginning):
        return fault
    there = {world.bus[row - 1] for file in world.table.files for row in file.rows}
    if lost := set(_that_count(world.bus, world.beginning)) - there:
        return f"lost: {sorted(lost)}"
    if not world.store or place(position(world.store).start) not in _ends(world):
        return "the position does not come to the end"
    return ""


def _that_count(bus: tuple[str, ...], beginning: int) -> tuple[str, ...]:
    """Identities of the events that have to land; none as long as nobody has noted down where `latest` is."""
    return () if beginning == UNKNOWN else bus[beginning:]


def _ends(world: World) -> set[int]:
    """Where the position may stand in the end: behind the last event; or still at `latest`, with nothing after it."""
    nothing = not _that_count(world.bus, world.beginning)
    return {len(world.bus), UNKNOWN} if nothing else {len(world.bus)}


Rows = tuple[tuple[int, ...], ...]
"""Places of events, file by file or batch by batch."""


def _by_batch(files: tuple[File, ...]) -> Rows:
    batches: dict[str, set[int]] = {}
    for file in files:
        batches.setdefault(file.batch_id, set()).update(file.rows)
    return tuple(tuple(sorted(rows)) for rows in batches.values())


@remember
def _doubled(bus: tuple[str, ...], rows: Rows) -> str:
    seen = Counter(bus[row - 1] for some in rows for row in some)
    doubled = sorted(identity for identity, times in seen.items() if times > 1)
    return f"a reader sees twice: {doubled}" if doubled else ""


@remember
def _passed(bus: tuple[str, ...], rows: Rows, store: str, beginning: int) -> str:
    end = place(position(store).start) if store else UNKNOWN
    passed = set(_that_count(bus[: max(end, 0)], beginning))
    missing = sorted(passed - {bus[row - 1] for some in rows for row in some})
    return f"the position is past what has not landed: {missing}" if missing else ""


def _exceeded(rules: Rules, world: World) -> str:
    for one in world.workers:
        if sum(part.events for part in one.kept) + len(one.memory) > rules.max_events:
            return "a batch has more events than it may hold"
    return ""
