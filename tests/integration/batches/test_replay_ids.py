"""Replay ids that the bus refuses, positions that get old, and the user's choice of a fallback."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.exceptions import ReplayIdRefusedError, TransportError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from tests.integration.batches.conftest import TOPIC, age_records, expire, publish, staged_ids

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.batches.conftest import Consumer


def test_the_default_asks_and_names_the_commands(bus: Emulator, consumer: Consumer) -> None:
    """By default a refused replay id moves nothing, and the error names the choices."""
    expire(bus, consumer)
    publish(bus, 6, 5)
    with pytest.raises(
        ReplayIdRefusedError, match=rf"`airflow sfevents position set orders {TOPIC} earliest`"
    ):
        consumer.run_once()
    assert (consumer.position.batch_number, bus.deliveries(TOPIC)) == (1, 5)


def test_a_fallback_to_earliest_takes_what_is_left_and_says_what_is_lost(
    bus: Emulator, consumer: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    """A fallback to `earliest` fetches all that is left, and records a loss window everywhere."""
    old, before = expire(bus, consumer), consumer.position
    ids = publish(bus, 6, 5)
    consumer.replay_fallback = "earliest"
    with caplog.at_level(logging.WARNING):
        staged = consumer.run_once()
    assert staged_ids(consumer, staged) == ids
    assert isinstance(staged, Staged)
    (window,) = staged.manifest.losses
    assert (window.after, window.after_event_at, window.start) == (
        old,
        before.last_event_at,
        "earliest",
    )
    assert window.first_event_at > window.after_event_at
    assert "replayid.corrupted" in window.why
    assert consumer.position.losses == (window,)
    assert (consumer.position.epoch, consumer.position.batch_number) == (before.epoch, 2)
    assert staged.manifest.overlaps
    assert "LOSS WINDOW" in caplog.text


def test_a_fallback_to_latest_takes_what_comes_from_then_on(
    bus: Emulator, consumer: Consumer
) -> None:
    """A fallback to `latest` is pinned, so that the next run misses nothing."""
    expire(bus, consumer)
    publish(bus, 6, 5)
    consumer.replay_fallback = "latest"
    assert isinstance(consumer.run_once(), Empty)
    assert (consumer.position.batch_number, consumer.position.losses) == (1, ())
    ids = publish(bus, 11, 5)
    staged = consumer.run_once()
    assert staged_ids(consumer, staged) == ids
    assert [window.start for window in consumer.position.losses] == ["latest"]
    assert bus.deliveries(TOPIC) == 10


def test_a_choice_stands_for_every_attempt_at_the_batch(bus: Emulator, consumer: Consumer) -> None:
    """An attempt that fell back and died is continued at its replay point, with one loss window."""
    expire(bus, consumer)
    ids = publish(bus, 6, 5)
    consumer.replay_fallback = "earliest"
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    staged.release()
    (staged.folder.folder / layout.MANIFEST).unlink()  # as if the task had died just before
    consumer.replay_fallback = "fail"
    rerun = consumer.run_once()
    assert staged_ids(consumer, rerun) == ids
    assert [window.start for window in consumer.position.losses] == ["earliest"]


def test_batches_overlap_until_a_later_event_is_committed(
    bus: Emulator, consumer: Consumer
) -> None:
    """Batches are marked as overlapping until an event newer than the fallback is committed."""
    publish(bus, 1, 5)
    consumer.run_once()
    consumer.positions["orders"] = json.dumps(
        json.loads(consumer.positions["orders"]) | {"replay_id": "ff" * 10}
    )
    consumer.replay_fallback = "earliest"
    consumer.bounds = replace(consumer.bounds, max_events=3)
    overlapping = [consumer.run_once(), consumer.run_once()]
    assert all(isinstance(one, Staged) and one.manifest.overlaps for one in overlapping)
    bus.clock.advance(hours=1)
    publish(bus, 6, 1)
    newer = consumer.run_once()
    publish(bus, 7, 1)
    after = consumer.run_once()
    assert isinstance(newer, Staged)
    assert isinstance(after, Staged)
    assert (newer.manifest.overlaps, after.manifest.overlaps) == (True, False)


def test_a_refused_keepalive_point_is_no_loss(bus: Emulator, consumer: Consumer) -> None:
    """An invalid keepalive point is replaced by the position, and no event is lost or doubled."""
    publish(bus, 1, 5)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    position = consumer.position
    staged.topic_folder.write_keepalive_point(
        KeepalivePoint(
            epoch=position.epoch,
            batch_number=position.batch_number,
            replay_id="ff" * 10,
            seen_at=position.committed_at,
            after=position.replay_id,
        )
    )
    consumer.replay_fallback = "latest"
    ids = publish(bus, 6, 2)
    assert staged_ids(consumer, consumer.run_once()) == ids
    assert consumer.position.losses == ()
    assert bus.deliveries(TOPIC) == 7


def test_latest_without_a_keepalive_is_a_retry(bus: Emulator, consumer: Consumer) -> None:
    """A first run at `latest` without a keepalive or event fails for a retry."""
    consumer.initial_replay = "latest"
    consumer.bounds = Bounds(idle_seconds=0.05, max_seconds=2.0)
    bus.pause_keepalives()
    with pytest.raises(TransportError, match="set max_seconds to 300 or more"):
        consumer.run_once()


def test_three_silent_days_expire_nothing(bus: Emulator, consumer: Consumer) -> None:
    """Three days with only keepalives expire no replay id, and the next event is fetched."""
    publish(bus, 1, 1)
    consumer.run_once()
    for hours in (1, 20, 40, 60):
        bus.clock.advance(hours=hours)
        age_records(consumer, hours)
        assert isinstance(consumer.run_once(), Empty)
    ids = publish(bus, 2, 1)
    assert staged_ids(consumer, consumer.run_once()) == ids
    assert (consumer.position.batch_number, consumer.position.losses) == (2, ())
