"""Invariants: of every world, of every step, and of the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_provider_sfevents.positions.record import EVENT
from tests.unit.model.world import UNKNOWN, File, place, position, remember

if TYPE_CHECKING:
    from tests.unit.model.rules import Rules
    from tests.unit.model.world import World


def broken_in(rules: Rules, world: World) -> str:
    """Name the fault of a world; empty: there is none."""
    files = world.table.files
    if len(world.areas) > 1 and (world.jobs or world.table.folders):
        # Files of a form that has not landed are replaced one by one.
        rows = _by_batch(files)
    else:
        rows = tuple(file.rows for file in files)
    return _doubled(world.bus, rows) or _passed_in(world, rows) or _exceeded(rules, world)


def broken_on_the_way(before: World, after: World) -> str:
    """Name the fault of a step: an event of a closed file was delivered again."""
    if before.delivered == after.delivered or len(before.bus) != len(after.bus):
        return ""
    for one, then in zip(before.workers, after.workers, strict=True):
        if one.memory != then.memory and then.memory[-1] in then.staged:
            return f"event {then.memory[-1]} is paid for twice"
    return ""


def broken_at_the_end(rules: Rules, world: World) -> str:
    """Name the fault of a world in which nothing is left to do."""
    rows = tuple(file.rows for file in world.table.files)
    if fault := _doubled(world.bus, rows) or _passed_in(world, rows):
        return fault
    there = {world.bus[row - 1] for file in world.table.files for row in file.rows}
    due = _due(world.bus, world.beginning, len(world.bus), _windows(world.store, world.gone))
    if lost := set(due) - there:
        return f"lost: {sorted(lost)}"
    at_the_end = bool(world.store) and place(position(world.store).start.to_text()) == len(
        world.bus
    )
    if due and not at_the_end:
        return "the position does not come to the end"
    return ""


@remember
def _due(
    bus: tuple[str, ...], beginning: int, end: int, windows: frozenset[int]
) -> tuple[str, ...]:
    """Identities of the events that have to land; none as long as `latest` is not pinned."""
    if beginning == UNKNOWN:
        return ()
    return tuple(bus[one - 1] for one in range(beginning + 1, end + 1) if one not in windows)


@remember
def _windows(store: str, gone: int) -> frozenset[int]:
    """Numbers of the events in the recorded loss windows of a position."""
    stands = position(store) if store else None
    windows = (*stands.losses, *([stands.loss] if stands.loss else [])) if stands else ()
    found: set[int] = set()
    for one in windows:
        end = gone if one.start == "earliest" else place(one.resumes_at)
        found.update(range(place(one.after) + 1, end + 1))
    return frozenset(found)


Rows = tuple[tuple[int, ...], ...]
"""Numbers of events, file by file or batch by batch."""


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


def _passed_in(world: World, rows: Rows) -> str:
    for store in (world.store, *(text for _, text in world.late)):
        if store and (fault := _passed(world.bus, rows, store, world.beginning, world.gone)):
            return fault
    return ""


@remember
def _passed(bus: tuple[str, ...], rows: Rows, store: str, beginning: int, gone: int) -> str:
    stands = position(store)
    # An event that pins `latest` is in the area's files, and lands with the first batch.
    end = place(stands.start.to_text()) - (stands.pinned_by == EVENT)
    if stands.resume_after:
        end = max(end, place(stands.resume_after))
    passed = set(_due(bus, beginning, end, _windows(store, gone)))
    missing = sorted(passed - {bus[row - 1] for some in rows for row in some})
    return f"the position is past what has not landed: {missing}" if missing else ""


def _exceeded(rules: Rules, world: World) -> str:
    for one in world.workers:
        if sum(part.events for part in one.kept) + len(one.memory) > rules.max_events:
            return "a batch has more events than it may hold"
    return ""
