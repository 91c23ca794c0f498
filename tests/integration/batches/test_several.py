"""One consumer with several first runs, Airflows, staging areas, and manual changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.batches.commit import check_before_landing, commit_batch
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import LeaseHeldError, PositionConflictError
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import Receipt
from tests.integration.batches.conftest import TOPIC, publish

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.batches.conftest import Consumer


def test_of_two_first_runs_one_gives_way(bus: Emulator, consumer: Consumer) -> None:
    """A first run gives way, without a delivery, while another one begins the position."""
    publish(bus, 1, 2)
    area = StagingArea(UPath(consumer.root)).topic(bus.org.org_id, "orders", TOPIC)
    with (
        area.take_beginning_lease(LeaseHolder.here(consumer.run, "now")),
        pytest.raises(LeaseHeldError),
    ):
        consumer.stage()
    assert (consumer.positions, bus.deliveries(TOPIC)) == ({}, 0)
    assert isinstance(consumer.run_once(), Staged)
    assert len(area.origins()) == 1


def test_a_batch_commits_to_where_it_landed(
    bus: Emulator, consumer: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch that landed shorter from another worker commits that end; the rest comes next."""
    ids = publish(bus, 1, 5)
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    receipt = Receipt(
        batch_id=staged.manifest.batch_id,
        events=2,
        tables={"lake/Order__e": 2},
        quarantined=0,
        written_at="now",
        end=ids[1],
    )
    (staged.folder.folder / layout.RECEIPT).write_text(receipt.to_json())
    commit_batch(staged, consumer.run, keep_batches=10)
    staged.release()
    assert (consumer.position.replay_id, consumer.position.events_total) == (ids[1], 2)
    assert "Give all workers one staging area" in caplog.text
    rest = consumer.run_once()
    assert isinstance(rest, Staged)
    assert (rest.manifest.start, rest.manifest.events, rest.manifest.end) == (ids[1], 3, ids[4])


@pytest.mark.parametrize(
    ("changed", "stands"),
    [({"epoch": "anew"}, "anew-0 "), ({"replay_id": "ff"}, r"-0 \(ff\)")],
    ids=["another epoch", "another replay id"],
)
def test_a_position_reset_meanwhile_keeps_spark_from_starting(
    bus: Emulator, consumer: Consumer, changed: dict[str, str], stands: str
) -> None:
    """A position that was reset after staging keeps Spark from starting."""
    publish(bus, 1, 2)
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    check_before_landing(staged)
    record = json.loads(consumer.positions["orders"])
    consumer.positions["orders"] = json.dumps(record | changed)
    with pytest.raises(PositionConflictError, match=f"is at batch .*{stands}.*by now"):
        check_before_landing(staged)
    staged.release()
