from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.exceptions import LeaseHeldError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from tests.integration.batches.conftest import publish, staged_ids
from tests.integration.batches.killed import kill_at
from tests.integration.batches.managing import (
    ManagedConsumer,
    at_step,
    commits_lost,
    define,
    managed_bus,
)

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator


def test_salesforce_keeps_the_place(bus: Emulator, consumer: ManagedConsumer) -> None:
    """Each run's batch end is committed to Salesforce, and no event is delivered twice."""
    define(bus)
    first = publish(bus, 1, 25)
    one = consumer.run_once()
    assert staged_ids(consumer, one) == first
    assert consumer.committed == first[-1]
    second = publish(bus, 26, 7)
    two = consumer.run_once()
    assert staged_ids(consumer, two) == second
    assert consumer.committed == second[-1]
    assert (consumer.position.batch_number, consumer.position.replay_id) == (2, second[-1])
    assert isinstance(two, Staged)
    assert (two.manifest.start, two.manifest.ended_by) == (first[-1], "idle_seconds")
    assert bus.deliveries() == 32


@pytest.mark.full
def test_a_keepalive_renews_the_place(bus: Emulator, consumer: ManagedConsumer) -> None:
    """Without events, a keepalive's replay id is committed to Salesforce and to the position."""
    define(bus)
    publish(bus, 1, 3)
    consumer.run_once()
    before = consumer.committed
    consumer.bounds = Bounds(idle_seconds=0.6)
    assert isinstance(consumer.run_once(), Empty)
    assert consumer.committed != before
    assert consumer.position.resume_after == consumer.committed
    assert consumer.position.replay_id == before
    later = publish(bus, 4, 2)
    assert staged_ids(consumer, consumer.run_once()) == later
    assert bus.deliveries() == 5


def test_the_batch_lands_though_its_end_was_not_kept(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """A batch lands although its commit had no answer, and redelivered events are left out."""
    define(bus)
    first = publish(bus, 1, 5)
    with commits_lost(bus):
        assert staged_ids(consumer, consumer.run_once()) == first
        second = publish(bus, 6, 4)
        assert staged_ids(consumer, consumer.run_once()) == second
    third = publish(bus, 10, 3)
    assert staged_ids(consumer, consumer.run_once()) == third
    assert consumer.committed == third[-1]
    assert (consumer.position.batch_number, consumer.position.events_total) == (3, 12)
    assert bus.deliveries() == 5 + (5 + 4) + (5 + 4 + 3)  # counted, and said in the log


def test_what_comes_again_does_not_count_for_the_bounds(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """Redelivered events do not count for a batch's bounds."""
    define(bus)
    ids = publish(bus, 1, 20)
    consumer.bounds = Bounds(max_events=12, idle_seconds=0.3)
    with commits_lost(bus):
        assert staged_ids(consumer, consumer.run_once()) == ids[:12]
    consumer.bounds = Bounds(max_events=3, idle_seconds=0.3)
    assert staged_ids(consumer, consumer.run_once()) == ids[12:15]


def test_a_lost_stream_ends_the_batch(bus: Emulator, consumer: ManagedConsumer) -> None:
    """A lost stream ends the batch, and its end is committed on a stream of its own."""
    define(bus)
    ids = publish(bus, 1, 30)
    bus.fail_next("ManagedSubscribe", status="UNAVAILABLE", after=10)
    one = consumer.run_once()
    assert isinstance(one, Staged)
    assert (one.manifest.ended_by, one.manifest.error) == ("lost", "")
    taken = staged_ids(consumer, one)
    assert taken == ids[: len(taken)]
    assert staged_ids(consumer, consumer.run_once()) == ids[len(taken) :]
    assert consumer.position.events_total == 30


def test_a_task_stages_nothing_once_another_has_written_the_position(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """A task gives way before its first file if another task has written the position."""
    define(bus)
    publish(bus, 1, 3)
    consumer.run_once()
    publish(bus, 4, 2)

    def taken() -> None:
        record = json.loads(consumer.positions["orders"])
        consumer.positions["orders"] = json.dumps(record | {"staging_id": "elsewhere"})

    with at_step(steps.DELIVERED, taken), pytest.raises(LeaseHeldError, match="has written it"):
        consumer.run_once()
    batch = consumer.topic_folder.batch(consumer.position.epoch, 2)
    assert not batch.parts()


@pytest.mark.full
def test_where_the_service_takes_late_commits_nothing_is_paid_twice(tmp_path: Path) -> None:
    """A late commit before the fetch, where Salesforce accepts it, prevents extra deliveries."""
    with managed_bus(commit_reach="subscription") as bus:
        consumer = ManagedConsumer(bus=bus, root=tmp_path / "staging")
        define(bus)
        ids = publish(bus, 1, 30)
        bus.fail_next("ManagedSubscribe", status="UNAVAILABLE", after=10)
        taken = staged_ids(consumer, consumer.run_once())
        assert consumer.committed == taken[-1]
        assert staged_ids(consumer, consumer.run_once()) == ids[len(taken) :]
        assert bus.deliveries() == 30


def test_a_first_run_at_latest_has_a_place_at_once(
    bus: Emulator, consumer: ManagedConsumer
) -> None:
    """A first run at `latest` commits a keepalive or the end of its first file at once."""
    define(bus, default_replay="LATEST")
    publish(bus, 1, 3)
    assert isinstance(consumer.run_once(), Empty)
    assert consumer.committed
    later = publish(bus, 4, 2)
    assert staged_ids(consumer, consumer.run_once()) == later
    assert consumer.position.batch_number == 1


@pytest.mark.full
def test_an_expired_place_brings_all_that_is_left(bus: Emulator, consumer: ManagedConsumer) -> None:
    """After an expired replay id, errorRecoveryReplay EARLIEST brings all that the bus holds."""
    define(bus)
    publish(bus, 1, 5)
    consumer.run_once()
    bus.clock.advance(hours=80)
    later = publish(bus, 6, 4)
    assert staged_ids(consumer, consumer.run_once()) == later


@pytest.mark.full
def test_a_cleared_place_brings_all_again(bus: Emulator, consumer: ManagedConsumer) -> None:
    """After a STOP, redelivered events are known if they come first; landing sorts out others."""
    define(bus)
    publish(bus, 1, 5)
    consumer.run_once()
    bus.set_managed_subscription("Orders", state="STOP")
    bus.set_managed_subscription("Orders", state="RUN")
    later = publish(bus, 6, 2)
    assert staged_ids(consumer, consumer.run_once()) == later


@pytest.mark.full
@pytest.mark.parametrize(
    "step",
    [
        steps.DELIVERED,
        steps.PART_CLOSED,
        steps.SCHEMA_KEPT,
        steps.MANIFEST_NEXT,
        steps.MANIFEST_WRITTEN,
        steps.MANAGED_COMMIT_NEXT,
        steps.MANAGED_COMMITTED,
    ],
)
def test_killed_between_any_two_steps(bus: Emulator, consumer: ManagedConsumer, step: str) -> None:
    """After a kill at any step, every event is staged once, in order, and the batches chain."""
    define(bus)
    first = publish(bus, 1, 4)
    consumer.run_once()
    second = publish(bus, 5, 9)
    kill_at(consumer, step)
    third = publish(bus, 14, 3)
    found: list[str] = []
    while isinstance(staged := consumer.run_once(), Staged):
        found += staged_ids(consumer, staged)
        assert staged.reused == (step in AFTER_MANIFEST and not found[len(second) :])
    assert found == second + third
    assert consumer.position.events_total == len(first + second + third)
    assert consumer.committed >= third[-1]  # or a later keepalive's replay id


AFTER_MANIFEST = {steps.MANIFEST_WRITTEN, steps.MANAGED_COMMIT_NEXT, steps.MANAGED_COMMITTED}
