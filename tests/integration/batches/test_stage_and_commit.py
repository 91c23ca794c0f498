from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import Empty, Staged
from airflow_provider_sfevents.exceptions import (
    LeaseHeldError,
    NotLandedError,
    PositionConflictError,
    StagingError,
    StoppedError,
    TopicError,
)
from airflow_provider_sfevents.positions.record import move_on
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging.manifest import Run
from tests.integration.batches.conftest import TOPIC, Consumer, publish, write_receipt

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator


def staged_replay_ids(staged: Staged) -> list[str]:
    tables = [
        pq.read_table(str(staged.folder.folder / part.path)) for part in staged.manifest.parts
    ]
    return [value.hex() for table in tables for value in table["replay_id"].to_pylist()]


def test_each_run_takes_what_came_since(bus: Emulator, consumer: Consumer) -> None:
    """Two runs stage every event once, in order, and the position ends at the last one."""
    first = publish(bus, 1, 25)
    one = consumer.run_once()
    second = publish(bus, 26, 7)
    two = consumer.run_once()
    assert isinstance(one, Staged)
    assert isinstance(two, Staged)
    assert staged_replay_ids(one) == first
    assert staged_replay_ids(two) == second
    assert (
        consumer.position.batch_number,
        consumer.position.replay_id,
        consumer.position.events_total,
    ) == (2, second[-1], 32)
    assert bus.deliveries(TOPIC) == 32
    assert bus.open_streams == 0


def test_position_is_kept_before_anything_is_asked_for(bus: Emulator, consumer: Consumer) -> None:
    """The position is stored with batch number 0 even if the first fetch has no event."""
    assert isinstance(consumer.run_once(), Empty)
    assert (consumer.position.batch_number, consumer.position.start.to_text()) == (0, "earliest")


@pytest.mark.parametrize(
    ("bounds", "ended_by", "most"),
    [
        (Bounds(max_events=10, idle_seconds=120), "max_events", 10),
        (Bounds(max_bytes=200, idle_seconds=120), "max_bytes", 299),
        (Bounds(max_seconds=0.5, idle_seconds=120), "max_seconds", 300),
        (Bounds(until=datetime(2026, 1, 1, tzinfo=UTC), idle_seconds=120), "until", 299),
        (Bounds(idle_seconds=0.5), "idle_seconds", 300),
    ],
)
def test_each_bound_ends_a_batch_alone(
    bus: Emulator, consumer: Consumer, bounds: Bounds, ended_by: str, most: int
) -> None:
    """The manifest names the bound that ended the batch, and the next batch takes the rest."""
    ids = publish(bus, 1, 300)
    consumer.bounds = bounds
    first = consumer.run_once()
    assert isinstance(first, Staged)
    assert first.manifest.ended_by == ended_by
    assert 1 <= first.manifest.events <= most
    consumer.bounds = Bounds(idle_seconds=0.3)
    second = consumer.run_once()
    rest = staged_replay_ids(second) if isinstance(second, Staged) else []
    assert staged_replay_ids(first) + rest == ids
    assert bus.deliveries(TOPIC) == 300


def test_a_staged_batch_is_reused_and_not_fetched_again(bus: Emulator, consumer: Consumer) -> None:
    """A try that died after its manifest costs no delivery."""
    publish(bus, 1, 5)
    before = consumer.stage()
    before.release()
    publish(bus, 6, 5)
    after = consumer.stage()
    assert isinstance(before, Staged)
    assert isinstance(after, Staged)
    assert (after.reused, after.landed, after.manifest) == (True, False, before.manifest)
    assert bus.deliveries(TOPIC) == 5


def test_without_a_receipt_that_adds_up_nothing_moves(bus: Emulator, consumer: Consumer) -> None:
    """The position stays if a successful Spark job has not landed all events."""
    publish(bus, 1, 5)
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    before = dict(consumer.positions)
    with pytest.raises(NotLandedError, match=r"left no receipt at .* the position stays"):
        commit_batch(staged, consumer.run, keep_batches=10)
    write_receipt(staged, missing=1)
    with pytest.raises(NotLandedError, match="do not add up to the 5 events"):
        commit_batch(staged, consumer.run, keep_batches=10)
    assert consumer.positions == before


def test_a_second_one_gives_way(bus: Emulator, consumer: Consumer) -> None:
    """A second run of a batch gives way without a delivery, naming the lease holder."""
    publish(bus, 1, 5)
    holding = consumer.stage()
    delivered = bus.deliveries(TOPIC)
    consumer.run = replace(consumer.run, run="r2")
    with pytest.raises(LeaseHeldError, match=r"orders\.land of run r1"):
        consumer.stage()
    holding.release()
    assert bus.deliveries(TOPIC) == delivered


def test_what_was_received_before_a_kill_is_kept(bus: Emulator, consumer: Consumer) -> None:
    """A stopped fetch stages its events, and the next try continues after them."""
    publish(bus, 1, 20)
    consumer.bounds = Bounds(idle_seconds=30)

    async def stage_and_kill() -> None:
        stopping = asyncio.Event()
        staging = asyncio.create_task(consumer.stage_until(stopping))
        while bus.deliveries(TOPIC) < 20:  # noqa: ASYNC110 - the emulator counts in another thread
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        stopping.set()
        await staging

    with pytest.raises(StoppedError, match=r"what came \(20 events\) stays staged"):
        asyncio.run(stage_and_kill())
    consumer.bounds = Bounds(idle_seconds=0.3)
    publish(bus, 21, 3)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (23, 23)


def test_a_quiet_topic_goes_on_from_a_keepalive(bus: Emulator, consumer: Consumer) -> None:
    """A quiet topic's next fetch starts at the last keepalive, and no batch is committed."""
    publish(bus, 1, 5)
    consumer.run_once()
    committed = consumer.position
    consumer.bounds = Bounds(idle_seconds=1)
    for _ in range(4):
        bus.clock.advance(hours=40)
        assert isinstance(consumer.run_once(), Empty)
    waited = consumer.position
    assert waited.resume_after not in ("", committed.replay_id)
    assert move_on(committed, waited.resume_after, waited.resume_after_at) == waited
    ids = publish(bus, 6, 5)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged_replay_ids(staged) == ids


def test_first_run_at_latest_learns_its_place(bus: Emulator, consumer: Consumer) -> None:
    """Events published after a first run at `latest` without events are fetched by the next one."""
    publish(bus, 1, 5)
    consumer.initial_replay = "latest"
    assert isinstance(consumer.run_once(), Empty)
    ids = publish(bus, 6, 5)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged_replay_ids(staged) == ids


def test_an_expired_position_written_anew_begins_an_epoch(
    bus: Emulator, consumer: Consumer
) -> None:
    """An expired position that is set as the error says begins an epoch with all that is left."""
    publish(bus, 1, 5)
    consumer.run_once()
    bus.clock.advance(hours=80)
    ids = publish(bus, 6, 5)
    record = json.loads(consumer.positions["orders"])
    record |= {"epoch": "anew", "batch_number": 0, "replay_id": "earliest"}
    consumer.positions["orders"] = json.dumps(record)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged_replay_ids(staged) == ids
    assert (consumer.position.batch_id, consumer.position.batch_number) == ("anew-1", 1)
    assert [origin.epoch for origin in staged.topic_folder.origins()][-1] == "anew"


def test_an_unknown_topic_begins_nothing(bus: Emulator, consumer: Consumer) -> None:
    """A mistyped topic leaves neither position nor folder behind."""
    consumer.topic = "/event/Oder__e"
    with pytest.raises(TopicError, match="/event/Oder__e"):
        consumer.stage()
    assert consumer.positions == {}
    assert not consumer.root.exists()


def test_a_topic_twice_in_one_mapping_is_refused(bus: Emulator, consumer: Consumer) -> None:
    """The second of two mapped tasks of one run on one topic is refused."""
    publish(bus, 1, 5)
    consumer.run = Run(dag="orders", run="r1", task="land", map_index=0)
    consumer.run_once()
    publish(bus, 6, 5)
    consumer.run = Run(dag="orders", run="r1", task="land", map_index=1)
    with pytest.raises(PositionConflictError, match="twice, at map index 0 and 1"):
        consumer.run_once()
    consumer.run = Run(dag="orders", run="r2", task="land", map_index=1)
    assert isinstance(consumer.run_once(), Staged)


def test_old_batches_are_swept(bus: Emulator, consumer: Consumer) -> None:
    """The staging area keeps only the last batches."""
    for number in range(4):
        publish(bus, number, 1)
        staged = consumer.stage()
        assert isinstance(staged, Staged)
        write_receipt(staged)
        commit_batch(staged, consumer.run, keep_batches=2)
        staged.release()
    kept = sorted(int(path.name) for path in consumer.root.glob("*/*/*/*/0*"))
    assert kept == [3, 4]


def test_a_damaged_file_is_noticed_before_spark(bus: Emulator, consumer: Consumer) -> None:
    """A staged batch with a damaged file is refused by name, and stays as it is."""
    publish(bus, 1, 5)
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    staged.release()
    (part,) = staged.manifest.parts
    file = consumer.root / staged.folder.folder.relative_to(consumer.root) / part.path
    file.unlink()
    with pytest.raises(StagingError, match=part.path):
        consumer.stage()
    assert bus.deliveries(TOPIC) == 5
