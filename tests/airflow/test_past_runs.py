"""Past runs that are cleared, backfilled or deleted: they land their own batch or are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic
    from tests.harness.airflow_runs import Run

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


def test_an_old_run_and_the_newest_one_cleared(here: Deployment) -> None:
    """A cleared run lands its own batch again, and the position stays at the latest batch."""
    topic = here.topic("Cleared")
    oldest, newest = _runs(here, "landing", topic, 3, 2)
    for run in (oldest, newest):
        _clear(topic, run, of="landing")
    here.land("landing", topic)
    assert topic.landed("landing") == topic.published
    assert (topic.batch_number("landing"), topic.deliveries()) == (3, 9)


def test_a_cleared_run_whose_batch_was_swept(here: Deployment) -> None:
    """A cleared run whose batch was swept is refused with the reason, without a delivery."""
    topic = here.topic("ClearSwept")
    oldest, _, _ = _runs(here, "keeping_one", topic, 3, 2, 4)
    topic.publish(2)
    before, landings = _what_stands(topic, "keeping_one"), topic.landings()
    oldest.clear("land")
    oldest.wait("failed")
    assert "is not in the staging area any more (swept, see `keep_batches`)" in oldest.log()
    assert (_what_stands(topic, "keeping_one"), topic.landings()) == (before, landings)


def test_a_cleared_run_that_had_found_nothing(here: Deployment) -> None:
    """A skipped run has no batch, so clearing it later is refused and consumes no live event."""
    topic = here.topic("ClearEmpty")
    empty = here.land("landing", topic)
    assert empty.tasks() == {"land": "skipped"}
    _runs(here, "landing", topic, 3)
    topic.publish(2)
    before = topic.deliveries()
    empty.clear("land")
    empty.wait("failed")
    assert topic.deliveries() == before


def test_a_run_deleted(here: Deployment) -> None:
    """The next run continues where the deleted one ended, and nothing is delivered again."""
    topic = here.topic("Deleted")
    _, newest = _runs(here, "landing", topic, 3, 2)
    newest.delete()
    topic.publish(2)
    here.land("landing", topic)
    assert topic.landed("landing") == topic.published
    assert topic.deliveries() == len(topic.published)
    assert len(topic.landings()) == 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """A topic, its runs of a backfill by day of January, and what stood before."""

    topic: Topic
    runs: dict[int, Run]
    before: tuple[object, ...]
    landings: list[str]

    def succeeded(self) -> list[int]:
        return [day for day, run in self.runs.items() if run.state() == "success"]

    def logs(self) -> str:
        return "\n".join(run.log() for run in self.runs.values())


@pytest.fixture(scope="module")
def backfills(here: Deployment) -> dict[str, Backfill]:
    """Backfill six days of a DAG that ran on four, and two days of a DAG that never ran.

    The first DAG keeps two batches, and events wait on both topics.
    """
    topics = {"daily": here.topic("Backfilled"), "never_ran": here.topic("NeverRan")}
    for day in (10, 11, 12, 13):
        topics["daily"].publish(2)
        _run_of_day(here, "daily", topics["daily"], day)
    days = {"daily": range(8, 14), "never_ran": range(8, 10)}
    before = {}
    with here.airflow.without("scheduler", "dag-processor", "triggerer"):
        for dag_id, topic in topics.items():
            topic.publish(3)
            before[dag_id] = (_what_stands(topic, dag_id), topic.landings())
            first, last = (f"2026-01-{days[dag_id][end]:02}T00:00:00Z" for end in (0, -1))
            here.airflow.backfill(dag_id, first, last, {"topic": topic.name})
    found = {}
    for dag_id, topic in topics.items():
        runs = here.airflow.runs(dag_id)
        of_days = {day: runs[f"2026-01-{day:02}"] for day in days[dag_id]}
        for run in of_days.values():
            run.wait()
        stood, landings = before[dag_id]
        found[dag_id] = Backfill(topic=topic, runs=of_days, before=stood, landings=landings)
    return found


def test_a_backfill_lands_what_is_kept(backfills: dict[str, Backfill]) -> None:
    """A backfill lands kept batches again, refuses all other intervals, and takes no live event."""
    seen = backfills["daily"]
    assert seen.succeeded() == [12, 13], seen.logs()
    assert seen.topic.landings() == [*seen.landings, *seen.landings[-2:]]
    assert _what_stands(seen.topic, "daily") == seen.before
    assert seen.logs().count("is a backfill, and no batch of its interval") == 4


def test_a_backfill_before_the_first_run_is_refused(
    here: Deployment, backfills: dict[str, Backfill]
) -> None:
    """A backfill before the first run is refused, and the first run is unaffected."""
    seen = backfills["never_ran"]
    assert seen.succeeded() == [], seen.logs()
    assert _what_stands(seen.topic, "never_ran") == seen.before
    _run_of_day(here, "never_ran", seen.topic, 20)
    assert seen.topic.landed("never_ran") == seen.topic.published


def _runs(here: Deployment, dag_id: str, topic: Topic, *events: int) -> list[Run]:
    """One run for each of these numbers of events."""
    runs = []
    for count in events:
        topic.publish(count)
        runs.append(here.land(dag_id, topic))
    return runs


def _clear(topic: Topic, run: Run, *, of: str) -> None:
    """Clear a run while events are waiting: its batch is landed again, and that is all."""
    batch = run.result("land")["batch_id"]
    topic.publish(2)
    before = _what_stands(topic, of)
    landings = topic.landings()
    run.clear("land")
    run.wait("success")
    assert topic.landings() == [*landings, batch]
    assert _what_stands(topic, of) == before
    assert run.result("land")["batch_id"] == batch


def _run_of_day(here: Deployment, dag_id: str, topic: Topic, day: int) -> None:
    date = f"2026-01-{day}T00:00:00Z"
    here.airflow.trigger(dag_id, {"topic": topic.name}, date).wait("success")


def _what_stands(topic: Topic, consumer: str) -> tuple[object, ...]:
    return topic.position(consumer), topic.deliveries(), topic.landed(consumer)
