from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.operators.batch_commit import (
    notices,
    report,
    require_committed,
    tell_error,
)
from airflow_provider_sfevents.positions.record import advance
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from tests.unit.positions.building import FETCH, TOPIC, batch_after, begun

if TYPE_CHECKING:
    from upath import UPath


@pytest.fixture
def place(tmp_path: Any) -> UPath:
    from upath import UPath

    return UPath(tmp_path)


def landed(place: UPath, *, rerun: bool = False, **changes: Any) -> Staged:
    """A batch that has landed, with a fetch that ended as given."""
    manifest = batch_after(begun(), **changes)
    topic_folder = StagingArea(place).topic(manifest.org_id, "load", TOPIC)
    folder = topic_folder.batch(manifest.epoch, manifest.batch_number)
    return Staged(
        manifest=manifest,
        topic_folder=topic_folder,
        folder=folder,
        lease=folder.take_lease(LeaseHolder.here(FETCH, "")),
        store=MappingStore({}, "load"),
        staging_id="s1",
        rerun=rerun,
    )


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "airflow_provider_sfevents")
    return caplog


def test_an_outage_that_ended_the_fetch_is_a_warning(
    place: UPath, told: pytest.LogCaptureFixture
) -> None:
    """An outage that ended the fetch is a warning, and later tasks run."""
    staged = landed(place, ended_by="lost", error="upstream connect error")
    tell_error(staged)
    staged.release()
    [warning] = told.messages
    assert "the next run fetches them. upstream connect error" in warning


def test_an_error_that_does_not_pass_fails_the_task_for_good(place: UPath) -> None:
    """An error that does not pass fails the task for good, as a retry would meet it again."""
    staged = landed(place, ended_by="error", error="the allowance is used up")
    with pytest.raises(AirflowFailException, match=r"is landed and committed.*the allowance"):
        tell_error(staged)
    staged.release()


@pytest.mark.parametrize("changes", [{"ended_by": "idle_seconds"}, {"ended_by": "max_events"}])
def test_a_fetch_without_an_error_is_silent(
    place: UPath, told: pytest.LogCaptureFixture, changes: dict[str, Any]
) -> None:
    """A fetch that ended at a bound logs no warning."""
    staged = landed(place, **changes)
    tell_error(staged)
    staged.release()
    assert told.messages == []


def test_a_rerun_does_not_repeat_an_error_of_the_past(
    place: UPath, told: pytest.LogCaptureFixture
) -> None:
    """A rerun does not report the error of its earlier fetch again."""
    staged = landed(place, rerun=True, ended_by="error", error="the allowance is used up")
    tell_error(staged)
    staged.release()
    assert told.messages == []


@pytest.mark.parametrize("batch_number", [3, 4, 9])
def test_a_batch_that_was_swept_after_its_commit_needs_none(batch_number: int) -> None:
    """A retried commit succeeds if the position is at or beyond its swept batch."""
    store = MappingStore(
        {"load": begun(batch_number=batch_number, replay_id="0a").to_json()}, "load"
    )
    require_committed({"batch_id": "e1-3", "batch_number": 3, "manifest": "file:///m"}, store)


@pytest.mark.parametrize(
    "position",
    [
        None,
        begun(batch_number=2, replay_id="0a"),
        begun(batch_number=9, replay_id="0a", epoch="e2"),
    ],
    ids=["none", "before the batch", "of another epoch"],
)
def test_a_batch_that_is_gone_before_its_commit_is_an_error(position: Any) -> None:
    """A missing batch that was not committed is an error."""
    records = {} if position is None else {"load": position.to_json()}
    with pytest.raises(
        StagingError, match=r"No batch is staged at file:///m.*not passed batch e1-3"
    ):
        require_committed(
            {"batch_id": "e1-3", "batch_number": 3, "manifest": "file:///m"},
            MappingStore(records, "load"),
        )


DONE: dict[str, Any] = {
    "org_id": "00D",
    "consumer": "load",
    "topic": TOPIC,
    "batch_id": "e1-1",
    "events": 3,
    "quarantined": 2,
    "losses": [{"after": "0a"}],
    "extra_deliveries": {},
}


def test_a_batch_with_losses_or_quarantine_is_worth_a_notice() -> None:
    """Each has a notice of its own; a batch without either has none."""
    assert [(one["kind"], one["batch_id"]) for one in notices(DONE)] == [
        ("loss_window", "e1-1"),
        ("quarantine", "e1-1"),
    ]
    assert notices({**DONE, "losses": [], "quarantined": 0}) == []


def test_a_notifier_that_raises_fails_no_batch(
    place: UPath, told: pytest.LogCaptureFixture
) -> None:
    """The notifiers are called after the commit, with the task's context and the notice."""
    staged, now = landed(place), datetime.now(UTC)
    position = advance(begun(), staged.manifest, now.isoformat(), FETCH)
    staged.store.set(position.to_json())
    seen: list[Any] = []

    def broken(context: Any) -> None:
        raise OSError("no route to the pager")

    context: Any = {"run_id": "r1"}
    report(staged, DONE, now, context, [broken, seen.append])
    report(staged, DONE, now + timedelta(seconds=1), context, [seen.append])  # an earlier try's
    staged.release()

    assert [(one["run_id"], one["sfevents"]["kind"]) for one in seen] == [
        ("r1", "loss_window"),
        ("r1", "quarantine"),
    ]
    assert [one for one in told.messages if "no route to the pager" in one]
