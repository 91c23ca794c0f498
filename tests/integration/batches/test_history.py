"""The history of batches, written by commits of batches that were fetched from the emulator."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from upath import UPath

from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.positions import history
from airflow_provider_sfevents.positions.activity import Commit
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from tests.integration.batches.conftest import publish

if TYPE_CHECKING:
    import pytest

    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.staging.area import TopicFolder
    from tests.integration.batches.conftest import Consumer


def run_batches(bus: Emulator, consumer: Consumer, count: int) -> None:
    """Publish so many events, and run as many batches of one event."""
    consumer.bounds = Bounds(max_events=1, idle_seconds=60)
    publish(bus, 1, count)
    for _ in range(count):
        assert isinstance(consumer.run_once(), Staged)


def folder_of(consumer: Consumer) -> TopicFolder:
    position = consumer.position
    area = StagingArea(UPath(consumer.root))
    return area.topic(position.org_id, position.consumer, position.topic)


def older(consumer: Consumer) -> list[tuple[str, int]]:
    """Read the history of a position to its end: epoch and batch number, newest first."""
    position, found = consumer.position, []
    cursor = history.before_recent(position)
    while cursor is not None:
        answer = history.older(folder_of(consumer), cursor, position)
        batches = [one for one in answer.entries if isinstance(one, Commit)]
        found += [(one.batch_id.rpartition("-")[0], one.batch_number) for one in batches]
        cursor = answer.next
    return found


def test_swept_batches_stay_in_the_history(bus: Emulator, consumer: Consumer) -> None:
    """Of 45 batches the last ten are staged; the record and the history together have all."""
    run_batches(bus, consumer, 45)
    position = consumer.position
    assert folder_of(consumer).batch_numbers(position.epoch) == list(range(36, 46))
    assert [one.batch_number for one in position.recent] == list(range(26, 46))
    assert older(consumer) == [(position.epoch, number) for number in range(25, 0, -1)]


def test_a_history_that_cannot_be_written_fails_no_batch(
    bus: Emulator, consumer: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    """The fifth batch is committed with a warning; the tenth adds what is missing."""
    run_batches(bus, consumer, 4)
    epoch = consumer.position.epoch
    place = folder_of(consumer).folder / layout.history_file(epoch, 1)
    place.parent.write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        run_batches(bus, consumer, 1)
    assert consumer.position.batch_number == 5
    [warning] = [one for one in caplog.messages if "history" in one]
    assert "could not be written" in warning
    assert "commit 10 or a later one tries again" in warning
    place.parent.unlink()
    run_batches(bus, consumer, 20)
    assert older(consumer) == [(epoch, number) for number in range(5, 0, -1)]


def test_a_folder_that_is_no_epoch_is_not_followed(bus: Emulator, consumer: Consumer) -> None:
    """After a position was forgotten, a folder with a name that no epoch has is passed over."""
    run_batches(bus, consumer, 1)
    folder = folder_of(consumer)
    epoch = consumer.position.epoch
    (folder.folder / epoch).rename(folder.folder / "my notes")
    folder.forget("2026-01-01T00:00:00+00:00")
    forgotten = folder.forgotten()
    assert forgotten is not None
    assert forgotten.epochs == [epoch, "my notes"]
    consumer.positions.clear()
    run_batches(bus, consumer, 2)
    assert (consumer.position.previous_epoch, consumer.position.batch_number) == (epoch, 2)


def test_the_history_of_a_forgotten_position_stays(bus: Emulator, consumer: Consumer) -> None:
    """The next first run knows where the forgotten epoch ended."""
    run_batches(bus, consumer, 10)
    before, folder = consumer.position, folder_of(consumer)
    at = "2026-01-01T00:00:00+00:00"
    folder.forget(at, before.epoch, before.last_event_at, before.batch_number)
    consumer.positions.clear()
    run_batches(bus, consumer, 1)
    after = consumer.position
    assert (after.previous_epoch, after.previous_batch_number) == (before.epoch, 10)
    assert older(consumer) == [(before.epoch, number) for number in range(10, 0, -1)]
