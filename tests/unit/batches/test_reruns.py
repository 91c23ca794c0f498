from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.batches import reruns
from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.positions.activity import Commit
from tests.unit.batches.building import manifest, position, request, run

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.manifest import Run

KEPT = [manifest(day, run(day)) for day in (3, 2, 1)]


@pytest.mark.parametrize(
    ("asked", "looks"),
    [
        (request(run(1)), False),
        (request(run(1), cleared=True), True),
        (request(run(1), backfill=True), True),
        (request(run(1, try_number=2)), True),
    ],
    ids=["first try", "cleared", "backfill", "retry"],
)
def test_only_a_run_that_may_have_been_there_looks_back(asked: BatchRequest, looks: bool) -> None:
    """The first try of a new run does not look for old batches."""
    assert reruns.may_own_a_batch(asked) is looks


@pytest.mark.parametrize("day", [1, 2, 3])
def test_a_run_finds_its_batch(day: int) -> None:
    """A rerun finds the batch that its run staged, the newest or an old one."""
    own = reruns.own_batch(request(run(day), cleared=True), position(), KEPT)
    assert own == manifest(day, run(day))


def test_a_batch_not_committed_yet_is_not_past() -> None:
    """The batch after the position is no rerun's batch; it is reused in the ordinary way."""
    staged = manifest(4, run(4))
    assert reruns.own_batch(request(run(4, try_number=2)), position(), [staged, *KEPT]) is None


@pytest.mark.parametrize(
    "other",
    [run(1, dag="others"), run(1, task="fetch"), run(1, run="manual")],
    ids=["dag", "task", "run"],
)
def test_the_batch_of_another_run_is_not_reused(other: Run) -> None:
    """A cleared run gets no batch of another task, run or DAG, even for the same interval."""
    assert reruns.own_batch(request(other, cleared=True), position(), KEPT) is None


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (request(run(1, task="wait"), cleared=True, owns=False), 1),
        (request(run(1, task="wait", run="b"), backfill=True, owns=False), 1),
        (request(run(1, task="wait", dag="others"), cleared=True, owns=False), 0),
        (request(run(1, task="wait", run="manual"), cleared=True, owns=False), 0),
    ],
    ids=["its run", "its interval", "another dag", "another run"],
)
def test_a_sensor_finds_the_batch_of_its_dags_task(asked: BatchRequest, found: int) -> None:
    """A sensor finds the batch that its DAG's task staged in the same run."""
    own = reruns.own_batch(asked, position(), KEPT)
    assert own == (manifest(1, run(1)) if found else None)


def test_a_mapped_task_is_known_by_its_topic() -> None:
    """A mapped task finds its batch after its index in the list has changed."""
    staged = [manifest(1, run(1, map_index=0))]
    assert reruns.own_batch(request(run(1, map_index=5), cleared=True), position(), staged)


def test_without_an_interval_nothing_is_the_same() -> None:
    """Two runs without a data interval do not share a batch."""
    nowhere = {"data_interval_start": "", "data_interval_end": ""}
    asked = request(run(2, run="backfill", **nowhere), backfill=True)
    assert reruns.own_batch(asked, position(), [manifest(1, run(1, **nowhere))]) is None


def test_a_batch_committed_by_a_run_is_its_own() -> None:
    """A batch belongs to the run that committed it, even if another run staged it."""
    commit = Commit(batch_number=3, batch_id="e1-3", replay_id="03", events=1, at="", run="day-4")
    at = position(recent=(commit,), committed_by=run(4))
    assert reruns.own_batch(request(run(4), cleared=True), at, KEPT) == manifest(3, run(3))


@pytest.mark.parametrize("at", [None, position(epoch="e2", batch_number=0, replay_id="latest")])
def test_an_epoch_left_behind_is_past(at: Position | None) -> None:
    """An old run finds its batch after the position was reset by hand."""
    assert reruns.own_batch(request(run(3), cleared=True), at, KEPT) == manifest(3, run(3))


@pytest.mark.parametrize(
    ("asked", "at", "message"),
    [
        (request(run(1), cleared=True), position(), "day-1 was cleared, but run day-3"),
        (request(run(9), backfill=True), position(), "never fetches"),
        (request(run(9), backfill=True), None, "never fetches"),
    ],
    ids=["old and cleared", "backfill", "backfill before the first run"],
)
def test_a_run_of_the_past_fetches_nothing(
    asked: BatchRequest, at: Position | None, message: str
) -> None:
    """A rerun whose batch is gone is refused, and fetches no live events."""
    with pytest.raises(PositionConflictError, match=message):
        reruns.refuse_past(asked, at, "Variable 'x'")


@pytest.mark.parametrize(
    ("asked", "changes"),
    [
        (request(run(1, try_number=3)), {}),
        (request(run(3), cleared=True), {}),
        (request(run(4), cleared=True), {}),
        (request(run(1), cleared=True), {"committed_by": replace(run(3), dag="others")}),
        (request(run(1), cleared=True), {"committed_by": replace(run(3), run_after="")}),
        (request(run(1, run_after=""), cleared=True), {}),
    ],
    ids=["a retry", "the last run", "a newer run", "another DAG's commit", "by hand", "no time"],
)
def test_others_go_on(asked: BatchRequest, changes: dict[str, Any]) -> None:
    """A run that is not known to be past takes the next batch."""
    reruns.refuse_past(asked, position(**changes), "Variable 'x'")
