"""Cleared runs, retries after a commit, and backfills: their own batch or a refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.exceptions import LeaseHeldError, PositionConflictError
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Run
from tests.integration.batches.conftest import TOPIC, publish, write_receipt

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.batches.conftest import Consumer


def run_of(day: int, *, task: str = "land") -> Run:
    at = f"2026-01-{day:02}T00:00:00+00:00"
    return Run(
        dag="orders",
        run=f"scheduled__{day}",
        task=task,
        try_number=1,
        logical_date=at,
        data_interval_start=at,
        data_interval_end=at,
        run_after=at,
    )


def run_days(bus: Emulator, consumer: Consumer, days: int) -> list[Staged]:
    """Run once a day, each time with two events."""
    done = []
    for day in range(1, days + 1):
        publish(bus, day * 10, 2)
        consumer.run = run_of(day)
        staged = consumer.run_once()
        assert isinstance(staged, Staged)
        done.append(staged)
    return done


def clear(consumer: Consumer, day: int) -> None:
    """Return the request of a task of a cleared run."""
    consumer.cleared, consumer.run = True, replace(run_of(day), try_number=2)


@pytest.mark.parametrize("day", [1, 3])
def test_a_cleared_run_lands_its_own_batch_again(
    bus: Emulator, consumer: Consumer, day: int
) -> None:
    """A cleared run, new or old, lands its own batch again; the position stays."""
    done = run_days(bus, consumer, 3)
    publish(bus, 40, 2)
    before = consumer.position
    clear(consumer, day)
    rerun = consumer.stage()
    assert isinstance(rerun, Staged)
    assert rerun.manifest == done[day - 1].manifest
    assert (rerun.landed, rerun.reused, rerun.rerun) == (False, True, True)
    write_receipt(rerun)
    commit_batch(rerun, consumer.run, keep_batches=10)
    rerun.release()
    assert consumer.position == before
    assert bus.deliveries(TOPIC) == 6


def test_a_retry_of_what_had_committed_spends_nothing(bus: Emulator, consumer: Consumer) -> None:
    """A retry after a commit has the same result, without Spark or a delivery."""
    (done,) = run_days(bus, consumer, 1)
    publish(bus, 40, 2)
    consumer.run = replace(run_of(1), try_number=2)
    rerun = consumer.stage()
    assert isinstance(rerun, Staged)
    rerun.release()
    assert rerun.manifest == done.manifest
    assert (rerun.landed, rerun.rerun) == (True, False)
    assert bus.deliveries(TOPIC) == 2


def test_a_retry_without_a_batch_goes_on_as_its_first_try(
    bus: Emulator, consumer: Consumer
) -> None:
    """A retry without a batch fetches what its first try did not."""
    run_days(bus, consumer, 1)
    publish(bus, 40, 2)
    consumer.run = replace(run_of(2), try_number=2)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, consumer.position.batch_number) == (2, 2)


def test_a_retry_fetches_beside_a_damaged_old_manifest(
    bus: Emulator, consumer: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged manifest of an old batch is named in the log, and fails no retry."""
    oldest, _ = run_days(bus, consumer, 2)
    damaged = consumer.root / oldest.folder.folder / layout.MANIFEST
    damaged.write_text('{"version": 1, "org')
    publish(bus, 40, 2)
    consumer.run = replace(run_of(3), try_number=2)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, consumer.position.batch_number) == (2, 3)
    assert f"left out: {damaged} is not readable as JSON" in caplog.text


def test_a_cleared_run_whose_manifest_is_damaged_is_refused(
    bus: Emulator, consumer: Consumer
) -> None:
    """A cleared run whose manifest is damaged fetches no live events, as if it were swept."""
    done = run_days(bus, consumer, 2)
    (consumer.root / done[0].folder.folder / layout.MANIFEST).write_text("")
    publish(bus, 40, 2)
    clear(consumer, 1)
    with pytest.raises(PositionConflictError, match="Live events are not fetched for a past run"):
        consumer.stage()


def test_a_cleared_run_that_is_the_newest_fetches(bus: Emulator, consumer: Consumer) -> None:
    """A cleared run without events fetches if it is the newest run."""
    run_days(bus, consumer, 1)
    consumer.run = run_of(2)
    assert isinstance(consumer.run_once(), Empty)
    publish(bus, 40, 2)
    clear(consumer, 2)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged.manifest.events == 2


def test_a_backfill_lands_what_its_interval_had(bus: Emulator, consumer: Consumer) -> None:
    """A backfill lands the batch of its interval, whichever run had staged it."""
    done = run_days(bus, consumer, 2)
    publish(bus, 40, 2)
    consumer.backfill, consumer.run = True, replace(run_of(1), run="backfill__1")
    rerun = consumer.run_once()
    assert isinstance(rerun, Staged)
    assert rerun.manifest == done[0].manifest
    assert (consumer.position.batch_number, bus.deliveries(TOPIC)) == (2, 4)


@pytest.mark.parametrize("days", [0, 2], ids=["before the first run", "of another interval"])
def test_a_backfill_without_a_batch_is_refused(
    bus: Emulator, consumer: Consumer, days: int
) -> None:
    """A backfill without a batch is refused, with or without a position."""
    run_days(bus, consumer, days)
    publish(bus, 40, 2)
    positions = dict(consumer.positions)
    consumer.backfill, consumer.run = True, replace(run_of(9), run="backfill__9")
    with pytest.raises(PositionConflictError, match="never fetches live events"):
        consumer.stage()
    assert consumer.positions == positions
    assert bus.deliveries(TOPIC) == 2 * days


def test_two_that_land_one_batch_again_give_way(bus: Emulator, consumer: Consumer) -> None:
    """Of two reruns of one batch, the second gives way."""
    run_days(bus, consumer, 2)
    clear(consumer, 1)
    first = consumer.stage()
    assert isinstance(first, Staged)
    with pytest.raises(LeaseHeldError, match="scheduled__1"):
        consumer.stage()
    first.release()


def test_a_position_forgotten_on_purpose_begins_anew(bus: Emulator, consumer: Consumer) -> None:
    """A position that was forgotten begins again, marked to overlap, in spite of old receipts."""
    (done,) = run_days(bus, consumer, 1)
    consumer.positions.clear()
    with pytest.raises(PositionConflictError, match=r"`airflow sfevents position forget orders"):
        consumer.stage()
    done.topic_folder.forget("2999-01-01T00:00:00+00:00")
    consumer.run = run_of(2)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged.manifest.epoch != done.manifest.epoch
    assert (staged.manifest.events, staged.manifest.overlaps) == (2, True)
    assert (done.folder.folder / layout.RECEIPT).exists()
