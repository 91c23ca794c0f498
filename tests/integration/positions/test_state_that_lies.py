from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override
from upath import UPath

from airflow_provider_sfevents.batches.commit import commit_batch
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import (
    PositionConflictError,
    TransportError,
)
from airflow_provider_sfevents.staging.storage import durable_files
from tests.integration.batches.conftest import TOPIC, Consumer, publish, write_receipt

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator


class Lying(dict[str, str]):
    """A store of one position that can fail, hide or forget it.

    :ivar down: calls that fail: `get`, `set`, or `get after set`.
    :ivar shadow: record that is read instead of the written one.
    :ivar forgets: writes are acknowledged and lost.
    """

    down = ""
    shadow: str | None = None
    forgets = False

    @override
    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        if self.down == "get":
            raise OSError("502 Bad Gateway")
        return self.shadow if self.shadow is not None else super().get(key, default)

    @override
    def __setitem__(self, key: str, value: str) -> None:
        if self.down == "set":
            raise OSError("502 Bad Gateway")
        if not self.forgets:
            super().__setitem__(key, value)
        if self.down == "get after set":
            self.down = "get"


@pytest.fixture
def state(consumer: Consumer) -> Lying:
    lying = Lying()
    consumer.positions = lying
    return lying


def run_once(consumer: Consumer) -> Staged:
    """Run a whole task, which always releases its batch."""
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    write_receipt(staged)
    commit(consumer, staged)
    return staged


def commit(consumer: Consumer, staged: Staged) -> None:
    try:
        commit_batch(staged, consumer.run, keep_batches=10, commit_seconds=0)
    finally:
        staged.release()


def landed(consumer: Consumer, bus: Emulator, batches: int) -> list[str]:
    """Land and commit batches of two events; return the record after each."""
    records = []
    for n in range(batches):
        publish(bus, 1 + 2 * n, 2)
        run_once(consumer)
        records.append(consumer.positions["orders"])
    return records


@pytest.mark.parametrize("down", ["get", "set", "get after set"])
def test_a_first_run_without_an_answer_fetches_nothing(
    bus: Emulator, consumer: Consumer, state: Lying, down: str
) -> None:
    """A first run fetches nothing while the store fails; the next one continues its epoch."""
    publish(bus, 1, 3)
    state.down = down
    with pytest.raises(TransportError, match="does not answer: OSError: 502 Bad Gateway"):
        consumer.stage()
    assert bus.deliveries(TOPIC) == 0
    state.down = ""
    staged = run_once(consumer)
    assert [staged.manifest.epoch] == staged.topic_folder.epochs()
    assert bus.deliveries(TOPIC) == 3


@pytest.mark.parametrize("down", ["get", "set", "get after set"])
def test_a_commit_without_an_answer_is_repeated_and_nothing_else(
    bus: Emulator, consumer: Consumer, state: Lying, down: str
) -> None:
    """After a commit without an answer, the next run only commits, and fetches nothing."""
    landed(consumer, bus, 1)
    publish(bus, 3, 2)
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    write_receipt(staged)
    state.down = down
    with pytest.raises(TransportError, match="does not answer"):
        commit(consumer, staged)
    state.down = ""
    found = consumer.stage()
    if isinstance(found, Staged):
        assert found.landed
        commit(consumer, found)
    assert (consumer.position.batch_number, consumer.position.replay_id) == (2, staged.manifest.end)
    assert bus.deliveries(TOPIC) == 4


def test_a_shadow_over_nothing_fails_at_the_first_write(
    bus: Emulator, consumer: Consumer, state: Lying
) -> None:
    """A run whose first position is hidden by another record fails before it fetches."""
    publish(bus, 1, 3)
    state.forgets = True
    for _ in range(2):
        with pytest.raises(PositionConflictError, match="reads nothing right after it was written"):
            consumer.stage()
    assert bus.deliveries(TOPIC) == 0


def test_a_shadow_of_long_ago_is_refused(bus: Emulator, consumer: Consumer, state: Lying) -> None:
    """A position that is behind the landed batches is refused, with the replay id to set."""
    records = landed(consumer, bus, 3)
    end = json.loads(records[-1])["replay_id"]
    state.shadow = records[0]
    with pytest.raises(
        PositionConflictError,
        match=r"is at batch \w+-1, but batch \w+-3 has landed: .*environment variable.*"
        rf"`airflow sfevents position set orders {TOPIC} {end}`",
    ):
        consumer.stage()
    assert (bus.deliveries(TOPIC), state["orders"]) == (6, records[-1])


def test_a_shadow_of_just_now_fails_at_the_write_and_fetches_nothing(
    bus: Emulator, consumer: Consumer, state: Lying
) -> None:
    """A hidden position that is one batch behind fails at the repeated commit."""
    records = landed(consumer, bus, 2)
    state.shadow = records[0]
    for _ in range(2):
        with pytest.raises(PositionConflictError, match="reads something else right after"):
            run_once(consumer)
    assert bus.deliveries(TOPIC) == 4
    state.shadow = None
    assert (consumer.position.batch_number, consumer.position.replay_id) == (
        2,
        json.loads(records[-1])["replay_id"],
    )


def test_a_position_that_is_gone_is_no_first_run(
    bus: Emulator, consumer: Consumer, state: Lying
) -> None:
    """A deleted position is refused if a batch has landed, with the commands for a remedy."""
    (record,) = landed(consumer, bus, 1)
    end = json.loads(record)["replay_id"]
    state.clear()
    with pytest.raises(PositionConflictError) as refused:
        consumer.stage()
    said = str(refused.value)
    assert "is missing, but batch" in said
    assert f"`airflow sfevents position set orders {TOPIC} {end}`" in said
    assert f"`airflow sfevents position forget orders {TOPIC}`" in said
    assert (bus.deliveries(TOPIC), dict(state)) == (2, {})


def test_two_airflows_on_one_staging_area(bus: Emulator, consumer: Consumer) -> None:
    """A second Airflow on one staging area is refused once the first has landed a batch."""
    landed(consumer, bus, 1)
    second = replace(consumer, positions={})
    publish(bus, 3, 2)
    with pytest.raises(
        PositionConflictError, match="another Airflow works with the same staging area"
    ):
        second.stage()
    assert (bus.deliveries(TOPIC), second.positions) == (2, {})


def test_two_airflows_that_begin_together(bus: Emulator, consumer: Consumer) -> None:
    """A second Airflow on one staging area is refused even before the first has landed a batch."""
    second = replace(consumer, positions={})
    publish(bus, 1, 2)
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    for _ in range(2):
        with pytest.raises(
            PositionConflictError, match="another Airflow works with the same staging"
        ):
            second.stage()
    write_receipt(staged)
    commit(consumer, staged)
    assert (consumer.position.batch_number, second.positions) == (1, {})
    assert bus.deliveries(TOPIC) == 2


def test_a_staging_area_lost_between_runs_costs_nothing(bus: Emulator, consumer: Consumer) -> None:
    """After the staging area is lost between runs, nothing is fetched again."""
    landed(consumer, bus, 2)
    durable_files.remove(UPath(consumer.root))
    publish(bus, 5, 2)
    assert run_once(consumer).manifest.batch_number == 3
    assert (consumer.position.batch_number, bus.deliveries(TOPIC)) == (3, 6)
