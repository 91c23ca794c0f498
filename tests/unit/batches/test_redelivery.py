"""All orders of deaths, refused commits and cleared replay ids, with the package's rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.managed import redelivery
from airflow_provider_sfevents.batches.managed.redelivery import Before
from airflow_provider_sfevents.batches.recovery import FetchPlan
from airflow_provider_sfevents.pubsub.managed.managed_rules import leading_known
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt
from tests.unit.batches.building import manifest as made, run

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS = 4
CLOSED, MANIFEST, COMMITTED, LANDED = "closed files", "manifest", "committed", "landed"


@dataclass(frozen=True)
class World:
    """One consumer of a managed subscription.

    :param place: event after which the service starts.
    :param staged: batches, each the numbers of its events.
    :param marks: batches of which the service has confirmed that it keeps their end.
    :param kept: events in closed files without a manifest.
    :param recognises: redelivered events are left out; False breaks the rules.
    :param waits: the last batch is staged and has not landed.
    :param cleared: number of times that the committed replay id may still be cleared.
    """

    place: int = 0
    staged: tuple[tuple[int, ...], ...] = ()
    marks: frozenset[int] = frozenset()
    kept: tuple[int, ...] = ()
    waits: bool = False
    cleared: int = 0
    was_cleared: bool = False
    recognises: bool = True


def a_manifest() -> Manifest:
    return made(1, run(1))


def hex_of(number: int) -> str:
    return f"{number:02x}"


def before(world: World) -> list[Before]:
    return [
        Before(
            manifest=replace(a_manifest(), end=hex_of(events[-1])),
            committed=index in world.marks,
        )
        for index, events in reversed(list(enumerate(world.staged)))
    ]


def told(world: World, place: int, batch: int, outcome: str) -> World:
    """Return the worlds after a commit that is accepted, refused, or accepted unanswered."""
    if outcome == "refused":
        return world
    marks = world.marks | {batch} if outcome == "taken" else world.marks
    return replace(world, place=max(world.place, place), marks=marks)


def runs(world: World, size: int) -> Iterator[World]:
    """Return the worlds that a run may leave."""
    if world.cleared:
        yield replace(world, place=0, cleared=world.cleared - 1, was_cleared=True)
    last = len(world.staged) - 1
    if world.waits:
        for outcome in ("taken", "refused", "unanswered"):
            yield replace(told(world, world.staged[-1][-1], last, outcome), waits=False)
        return
    for late, outcome, death in product(
        ("taken", "refused"),
        ("taken", "refused", "unanswered"),
        (CLOSED, MANIFEST, COMMITTED, LANDED),
    ):
        yield from fetched(world, size, late, outcome, death)


def fetched(world: World, size: int, late: str, outcome: str, death: str) -> Iterator[World]:
    batches = before(world)
    owed = redelivery.to_commit_first(next(iter(batches), None), moved_on=False)
    if owed:
        world = told(world, int(owed, 16), len(world.staged) - 1, late)
    known = {hex_of(one): "" for one in world.kept} | {
        hex_of(one): ""
        for index in range(len(redelivery.may_come_again(batches)))
        for one in world.staged[-1 - index]
    }
    delivered = range(world.place + 1, EVENTS + 1)
    drop = world.recognises and leading_known(
        [hex_of(one).encode() for one in delivered],
        ["" for _ in delivered],
        {key.encode(): value for key, value in known.items()},
    )
    taken = tuple(delivered[drop:][: max(0, size - len(world.kept))])
    batch = world.kept + taken
    if not batch:
        return
    if death == CLOSED:
        yield replace(world, kept=batch)
        return
    world = replace(world, staged=(*world.staged, batch), kept=(), waits=True)
    if death == MANIFEST:
        yield world
        return
    world = told(world, batch[-1], len(world.staged) - 1, outcome)
    yield replace(world, waits=death == COMMITTED)


def explored(first: World, size: int, depth: int) -> set[World]:
    found, edge = {first}, {first}
    for _ in range(depth):
        edge = {after for world in edge for after in runs(world, size)} - found
        found |= edge
    return found


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_event_is_staged_once_and_in_order(size: int) -> None:
    """The batches hold each event once, in order, after any deaths and refused commits."""
    worlds = explored(World(), size, depth=7)
    assert len(worlds) > 20
    for world in worlds:
        held = [one for batch in (*world.staged, world.kept) for one in batch]
        assert held == list(range(1, len(held) + 1))
        assert world.place <= max([0, *(batch[-1] for batch in world.staged)])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_cleared_place_loses_nothing(size: int) -> None:
    """No event is skipped when a committed replay id is cleared and all events come again."""
    worlds = explored(World(cleared=1), size, depth=7)
    assert any(world.was_cleared and world.staged for world in worlds)
    for world in worlds:
        held = [one for batch in (*world.staged, world.kept) for one in batch]
        assert set(held) == set(range(1, max(held, default=0) + 1))


def test_without_recognising_events_come_twice() -> None:
    """The exploration finds events staged twice if redelivered events are not recognised."""
    worlds = explored(World(recognises=False), size=2, depth=4)
    held = [[one for batch in world.staged for one in batch] for world in worlds]
    assert any(len(set(one)) < len(one) for one in held)


def test_only_what_may_come_again_is_read() -> None:
    """The last batch is compared, and those before it up to one that Salesforce committed."""
    batches = [Before(manifest=a_manifest(), committed=committed) for committed in (True, False)]
    assert redelivery.may_come_again(batches) == (batches[0],)
    assert redelivery.may_come_again(batches[::-1]) == tuple(batches[::-1])
    assert redelivery.may_come_again([]) == ()


def test_a_form_that_did_not_land_says_nothing() -> None:
    """A batch that landed with another end decides nothing about redelivered events."""
    manifest = a_manifest()
    receipt = Receipt(
        batch_id=manifest.batch_id,
        events=1,
        tables={},
        quarantined=0,
        written_at="2026-01-01T00:00:00+00:00",
        end="ff",
    )
    other = Before(manifest=manifest, receipt=receipt)
    assert redelivery.may_come_again([other]) == ()
    assert redelivery.may_come_again([other, Before(manifest=manifest, committed=True)]) == ()
    assert redelivery.to_commit_first(other, moved_on=False) == ""


def test_a_receipt_without_an_end_is_of_this_form() -> None:
    """A receipt without an end, from a user's own job, means that the staged form has landed."""
    manifest = a_manifest()
    receipt = Receipt(
        batch_id=manifest.batch_id, events=1, tables={}, quarantined=0, written_at="now"
    )
    last = Before(manifest=manifest, receipt=receipt)
    assert redelivery.may_come_again([last]) == (last,)
    assert redelivery.to_commit_first(last, moved_on=False) == manifest.end


def test_the_end_of_the_last_batch_is_committed_before_a_fetch() -> None:
    """The last batch's end is committed before a fetch, unless it or a keepalive is already."""
    last = Before(manifest=a_manifest())
    first = redelivery.to_commit_first
    assert first(last, moved_on=False) == last.manifest.end
    assert first(last, moved_on=True) == ""
    assert first(replace(last, committed=True), moved_on=False) == ""
    assert first(None, moved_on=False) == ""


@pytest.mark.parametrize(
    ("start", "keepalive_point", "kept"),
    [
        ("earliest", "", ""),
        ("latest", "", ""),
        ("01", "", "01"),
        ("01", "02", "02"),
        ("latest", "02", "02"),
    ],
)
def test_only_a_replay_id_that_is_staged_is_committed_again(
    start: str, keepalive_point: str, kept: str
) -> None:
    """A commit that keeps the stream open never moves beyond the staged events."""
    keepalive_points = (ReplayPoint(keepalive_point),) if keepalive_point else ()
    plan = FetchPlan(start=ReplayPoint(start), keepalive_points=keepalive_points)
    assert redelivery.kept_replay_id(plan) == kept
