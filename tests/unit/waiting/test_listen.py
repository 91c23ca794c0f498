"""A wait with a fake service: deliveries, keepalives and other processes, in any order."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from upath import UPath

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.next_batch import NextBatch, look
from airflow_provider_sfevents.batches.position.position_writes import Pin
from airflow_provider_sfevents.exceptions import ReplayIdRefusedError
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import FetchResult
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import Manifest, Run
from airflow_provider_sfevents.waiting.batch_status import read_status
from airflow_provider_sfevents.waiting.listen import listen
from tests.unit.batches.building import position
from tests.unit.staging.building import Delivered, replay_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_sfevents.waiting.wait_result import WaitResult

COMING = NextBatch(
    org_id="00D000000000001AAA",
    consumer="orders",
    topic="/event/Order__e",
    epoch="e1",
    batch_number=4,
    position_start="0a",
    start=ReplayPoint("0a"),
)
SENSOR = Run(dag="orders", run="r1", task="wait")
TASK = Run(dag="orders", run="r1", task="land")


class Came(Delivered):
    """A delivery of so many events."""

    def __len__(self) -> int:
        return self.count


@dataclass
class Service:
    """A client whose fetch brings a script of deliveries, keepalives as hex, and calls."""

    moments: list[Came | str | Callable[[], object]]
    refuses: str = ""
    asked: list[str] = field(default_factory=list)

    async def fetch(
        self,
        topic: str,
        start: ReplayPoint,
        bounds: Bounds,
        receive: Any,
        *,
        already: Any,
        stop: asyncio.Event,
        on_keepalive: Any,
        equal_points: Any,
        outlast: bool,
    ) -> FetchResult:
        self.asked.append(start.to_text())
        if start == ReplayPoint(self.refuses):
            raise ReplayIdRefusedError(f"{start} is refused")
        events = 0
        for moment in self.moments:
            if isinstance(moment, str):
                await on_keepalive(moment)
            elif isinstance(moment, Came):
                events += len(moment)
                await receive(moment)
            else:
                moment()
        return FetchResult(
            ended_by="stopped" if stop.is_set() else "idle_seconds",
            events=events,
            bytes=0,
            last_replay_id=b"",
            latest_replay_id=b"",
            last_event_at=None,
            deliveries=events,
        )


@pytest.fixture
def area(tmp_path: Path) -> StagingArea:
    return StagingArea(UPath(tmp_path))


def plan(area: StagingArea, next_batch: NextBatch = COMING) -> recovery.FetchPlan:
    found = recovery.plan(look(next_batch, next_batch.topic_folder(area), sound=True))
    assert isinstance(found, recovery.FetchPlan)
    return found


def heard_of(area: StagingArea, *moments: Any, **how: Any) -> WaitResult:
    """Run one wait on the current content of the folder, and return its result."""
    service: Any = how.pop("service", None) or Service(list(moments))
    found = how.pop("plan", None) or plan(area)
    return asyncio.run(listen(COMING, found, service, area, Bounds(), run=SENSOR, **how))


def keepalive_point(area: StagingArea) -> KeepalivePoint | None:
    return COMING.topic_folder(area).read_keepalive_point()


def leased(area: StagingArea) -> Any:
    return COMING.folder(area).take_lease(LeaseHolder.here(TASK, "now"))


def test_what_comes_is_staged_and_the_batch_let_go(area: StagingArea) -> None:
    """A wait leaves a chain of closed files from the position on, and a released lease."""
    waited = heard_of(area, Came(1, 2), Came(3, 1))
    assert (waited.events, waited.staged, waited.held_by) == (3, True, "")
    assert (plan(area).events, plan(area).resume.to_text()) == (3, replay_id(3).hex())
    leased(area).release()


def test_a_wait_goes_on_after_the_one_before(area: StagingArea) -> None:
    """A wait subscribes after the last staged file, and counts the events of earlier waits too."""
    heard_of(area, Came(1, 2))
    service = Service([Came(3, 1)])
    assert heard_of(area, service=service).events == 3
    assert service.asked == [replay_id(2).hex()]
    assert plan(area).events == 3


def test_a_second_delivery_is_dropped(area: StagingArea) -> None:
    """Events that another wait has staged meanwhile are reported, and not staged a second time."""
    begun = plan(area)
    heard_of(area, Came(1, 2))
    waited = heard_of(area, Came(1, 3), plan=begun)
    assert (waited.events, waited.ended_by) == (2, "overtaken")
    assert len(COMING.folder(area).parts()) == 1


def test_a_batch_that_is_whole_by_now_is_left_alone(area: StagingArea) -> None:
    """A wait adds no file to a batch that a task has staged meanwhile, and reports its events."""
    begun = plan(area)
    whole = staged(area)
    waited = heard_of(area, Came(1, 3), plan=begun)
    assert (waited.events, waited.ended_by) == (whole.events, "overtaken")
    assert COMING.folder(area).parts() == []


def test_a_whole_batch_is_not_listened_for(area: StagingArea) -> None:
    """A wait for a batch with a manifest makes no request to the bus."""
    manifest = staged(area)
    service = Service([])
    waited = heard_of(area, plan=recovery.ReusePlan(manifest=manifest), service=service)
    assert (waited.events, waited.staged, service.asked) == (7, True, [])


def test_a_leased_batch_is_left_to_its_holder(area: StagingArea) -> None:
    """A wait that finds the lease taken names the holder, and counts none of its own events."""
    with leased(area):
        waited = heard_of(area, Came(1, 3))
    assert (waited.events, waited.ended_by) == (0, "held")
    assert "task orders.land of run r1" in waited.held_by


def test_a_keepalive_after_an_event_left_to_another_is_not_kept(area: StagingArea) -> None:
    """A keepalive after an event that another process stages is not recorded: it may die."""
    with leased(area):
        heard_of(area, Came(1, 1), "0f")
    assert keepalive_point(area) is None


def test_the_first_keepalive_is_kept_and_the_next_is_not(area: StagingArea) -> None:
    """A wait records the first keepalive, and then at most one an hour."""
    heard_of(area, "0e", "0f")
    kept = keepalive_point(area)
    assert kept is not None
    assert (kept.replay_id, kept.batch_number, kept.after) == ("0e", 3, "0a")
    assert plan(area).subscribe_at.to_text() == "0e"


def test_a_keepalive_after_kept_files_says_so(area: StagingArea) -> None:
    """A keepalive after staged files records their end, and counts only with those files."""
    heard_of(area, Came(1, 2))
    heard_of(area, "0f")
    kept = keepalive_point(area)
    assert kept is not None
    assert kept.after == replay_id(2).hex()
    assert (plan(area).subscribe_at.to_text(), plan(area).resume.to_text()) == ("0f", kept.after)


def test_a_wait_of_long_ago_takes_no_newer_keepalive_point(area: StagingArea) -> None:
    """A wait for an old batch does not overwrite the keepalive point of a later one."""
    newer = KeepalivePoint(
        epoch="e1", batch_number=4, replay_id="0c", seen_at=datetime.now(UTC).isoformat(), after=""
    )
    COMING.topic_folder(area).write_keepalive_point(newer)
    heard_of(area, "0f")
    assert keepalive_point(area) == newer


def test_a_wait_of_long_ago_stages_nothing(area: StagingArea) -> None:
    """A wait stages nothing for a batch that has a successor, because it was committed."""
    later = COMING.topic_folder(area).batch("e1", 5)
    later.take_lease(LeaseHolder.here(TASK, "now")).release()
    waited = heard_of(area, Came(1, 3))
    assert (waited.events, waited.ended_by) == (0, "moved")
    assert COMING.topic_folder(area).batch_numbers("e1") == [5]


def test_a_refused_keepalive_point_is_left_aside(area: StagingArea) -> None:
    """A wait whose keepalive point is refused fails only if the position is refused too."""
    heard_of(area, "0f")
    service = Service([Came(1, 1)], refuses="0f")
    assert heard_of(area, service=service).events == 1
    assert service.asked == ["0f", "0a"]
    with pytest.raises(ReplayIdRefusedError):
        heard_of(area, service=Service([], refuses=replay_id(1).hex()))


class Beginning:
    """A first run at `latest`, which is in no store yet."""

    def __init__(self, area: StagingArea) -> None:
        self.area = area
        self.kept: dict[str, str] = {}
        self.store = MappingStore(self.kept, "orders")
        self.draft = position(batch_number=0, replay_id="latest", initial_replay="latest")
        self.next_batch = NextBatch.after(self.draft)
        self.pin = Pin(
            draft=self.draft,
            stored=None,
            store=self.store,
            folder=self.next_batch.topic_folder(area),
            staging_id=area.staging_id(),
        )

    def hears(self, *moments: Any, **how: Any) -> WaitResult:
        service: Any = Service(list(moments))
        begun = plan(self.area, self.next_batch)
        waits = {"run": SENSOR, "pin": self.pin, "store": self.store, **how}
        return asyncio.run(listen(self.next_batch, begun, service, self.area, Bounds(), **waits))

    @property
    def position(self) -> Position:
        return Position.from_json(self.kept["orders"], "here")


@pytest.fixture
def beginning(area: StagingArea) -> Beginning:
    return Beginning(area)


def test_at_latest_the_batch_is_held_until_a_keepalive(beginning: Beginning) -> None:
    """A wait at `latest` holds the lease until a keepalive's replay id is in the position."""
    held: list[bool] = []
    look_now = held_now(beginning.next_batch, beginning.area, held)
    waited = beginning.hears(look_now, "0e", look_now, Came(1, 1))
    assert (held, waited.events, waited.staged) == ([True, False], 1, True)
    begun = beginning.position
    assert (begun.replay_id, begun.pinned_by, begun.initial_replay) == ("0e", "keepalive", "latest")
    assert (begun.staging_id, begun.staged_events) == (beginning.area.staging_id(), 1)
    assert plan(beginning.area, NextBatch.after(begun)).events == 1


def test_at_latest_the_first_event_begins_the_position(beginning: Beginning) -> None:
    """If an event comes before a keepalive, its replay id pins the position, and it is staged."""
    assert beginning.hears(Came(1, 2)).events == 2
    begun = beginning.position
    assert (begun.replay_id, begun.pinned_by) == (replay_id(1).hex(), "event")
    planned = plan(beginning.area, NextBatch.after(begun))
    assert (planned.events, planned.kept[0].start) == (2, "latest")


def test_a_position_that_another_has_begun_is_not_replaced(beginning: Beginning) -> None:
    """A wait at `latest` gives way, and stages nothing, if another task has begun the position."""
    other = position(batch_number=0, replay_id="0d", epoch="e2").to_json()

    def begin() -> None:
        beginning.kept["orders"] = other

    waited = beginning.hears(begin, Came(1, 2))
    assert (waited.events, waited.ended_by) == (0, "moved")
    assert (beginning.kept["orders"], plan(beginning.area, beginning.next_batch).events) == (
        other,
        0,
    )


def test_a_position_begun_before_the_batch_is_leased_is_found(beginning: Beginning) -> None:
    """A wait at `latest` makes no request if the position was begun before it took the lease."""
    beginning.kept["orders"] = position(batch_number=0, replay_id="0d").to_json()
    service: Any = Service([Came(1, 1)])
    begun = plan(beginning.area, beginning.next_batch)
    waits = listen(
        beginning.next_batch,
        begun,
        service,
        beginning.area,
        Bounds(),
        run=SENSOR,
        pin=beginning.pin,
    )
    assert (asyncio.run(waits).ended_by, service.asked) == ("moved", [])


def test_latest_is_not_waited_for_without_the_store(beginning: Beginning) -> None:
    """A wait at `latest` without the store ends at once, because a worker has to pin first."""
    assert beginning.hears(Came(1, 1), pin=None).ended_by == "moved"


def test_a_keepalive_goes_into_the_position(area: StagingArea) -> None:
    """A wait with the store records a keepalive in the position, in case the area is lost."""
    kept = {"orders": position(replay_id="0a").to_json()}
    store = MappingStore(kept, "orders")
    assert heard_of(area, "0e", store=store).resume_after == "0e"
    moved = Position.from_json(kept["orders"], "here")
    assert (moved.batch_number, moved.replay_id, moved.resume_after) == (3, "0a", "0e")
    heard_of(area, "0f", store=store)
    assert Position.from_json(kept["orders"], "here") == moved, "one an hour is enough"


@pytest.mark.parametrize("taken", ["files", "lease"])
def test_a_keepalive_behind_events_stays_out_of_the_position(area: StagingArea, taken: str) -> None:
    """A keepalive stays out of the position if events are staged or a task has the batch."""
    kept = {"orders": position(replay_id="0a").to_json()}
    store = MappingStore(kept, "orders")
    if taken == "files":
        heard_of(area, Came(1, 1))
        heard_of(area, "0e", store=store)
    else:
        with leased(area):
            heard_of(area, "0e", store=store)
    assert Position.from_json(kept["orders"], "here").resume_after == ""


def held_now(next_batch: NextBatch, area: StagingArea, seen: list[bool]) -> Callable[[], None]:
    """Return a moment that records whether the lease is held."""
    return lambda: seen.append(bool(read_status(next_batch, area).held_by))


def staged(area: StagingArea) -> Manifest:
    """Write the manifest of a task's batch of seven events."""
    manifest = Manifest(
        **{name: getattr(COMING, name) for name in ("org_id", "consumer", "topic", "epoch")},
        instance_url="https://acme.my.salesforce.com",
        batch_number=4,
        batch_id=COMING.batch_id,
        position_start="0a",
        start="0a",
        end="0b",
        events=7,
        bytes=70,
        ended_by="idle_seconds",
        parts=(),
        schemas=(),
        created_at="2026-01-01T00:00:00+00:00",
    )
    return COMING.folder(area).create_manifest(manifest)


def test_what_cannot_be_written_keeps_no_task_out(area: StagingArea) -> None:
    """A wait that cannot write its events releases the lease, and continues without it."""
    held: list[bool] = []
    attempts = COMING.folder(area).folder / "attempts"
    attempts.parent.mkdir(parents=True)
    attempts.write_text("a file where a folder must be")
    # Enough rows that the first must be written before the last are taken.
    moments = [Came(number, 5_000, size=1) for number in range(1, 25_000, 5_000)]
    waited = heard_of(area, *moments, attempts.unlink, held_now(COMING, area, held))
    assert (waited.staged, waited.events, held) == (False, 25_000, [False])


def test_what_is_heard_fits_into_a_triggers_event(area: StagingArea) -> None:
    """The result of a wait is plain JSON, and is equal after a round trip."""
    waited = heard_of(area, Came(1, 2))
    assert type(waited)(**json.loads(json.dumps(asdict(waited)))) == waited


def test_a_wait_whose_lease_fails_late_goes_on_until_it_has_enough(tmp_path: Path) -> None:
    """`max_wait` does not end a wait whose lease failed late: its events would come once more."""
    area = StagingArea(UPath(tmp_path))
    folder = COMING.folder(area).folder
    folder.mkdir(parents=True)
    (folder / "leases").write_text("a file where a folder must be")
    waited = heard_of(area, Came(1, 2), Came(3, 1), max_wait=0.0, until_enough=True)
    assert (waited.events, waited.staged, waited.ended_by) == (3, False, "idle_seconds")
