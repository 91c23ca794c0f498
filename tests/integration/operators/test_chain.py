"""Fetch and commit around a job that is not Spark: the test leaves the receipt."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Receipt
from tests.integration.operators.conftest import ORDERS, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sfevents.orders.event.Order__e"


@pytest.fixture
def bus() -> Iterator[Emulator]:
    """An org of the test's own, with one event per response."""
    knobs = Knobs(half_close_seconds=0.01, response_events=1)
    with Emulator(sample=True, knobs=knobs) as bus:
        yield bus
        bus.check()


def publish(bus: Emulator, count: int) -> list[str]:
    return [one.hex() for one in bus.publish(ORDERS, [{"Order_Number__c": "A-1"}] * count)]


def fetch(task: Task, **arguments: Any) -> dict[str, Any]:
    result = task.execute(SfEventsFetchOperator, task_id="fetch", **arguments)
    assert isinstance(result, dict)
    return result


def commit(task: Task, batch: Any) -> dict[str, Any]:
    result = task.commit(SfEventsCommitOperator, batch)
    assert isinstance(result, dict)
    return result


def land(fetched: dict[str, Any]) -> None:
    """Leave the receipt of a job that has landed every event."""
    receipt = Receipt(
        batch_id=fetched["batch_id"],
        events=fetched["events"],
        tables={"Order__e": fetched["events"]},
        quarantined=0,
        written_at=datetime.now(UTC).isoformat(),
    )
    file_of(fetched["manifest"]).with_name(layout.RECEIPT).write_text(receipt.to_json())


def file_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def stands_at(task: Task) -> tuple[int, str]:
    position = json.loads(task.positions[KEY])
    return position["batch_number"], position["replay_id"]


def test_the_fetch_says_where_everything_is(task: Task, bus: Emulator) -> None:
    """Manifest, job and modules are at the result's URLs, in Spark's spelling."""
    publish(bus, 3)
    fetched = fetch(task)
    assert json.loads(file_of(fetched["spark_manifest"]).read_text())["events"] == 3
    assert fetched["spark_manifest"].startswith("file:///")
    assert file_of(fetched["application"]).is_file()
    assert file_of(fetched["py_files"]).is_file()
    assert (fetched["tables"], fetched["quarantined"]) == ({}, 0)


def test_the_end_of_a_chain_says_whether_its_batch_was_reused(task: Task, bus: Emulator) -> None:
    """The commit's result says whether the fetch reused a staged batch."""
    publish(bus, 3)
    fetched = fetch(task)
    land(fetched)
    assert commit(task, fetched)["reused"] is False
    publish(bus, 2)
    fetch(task)
    again = fetch(task)
    land(again)
    assert commit(task, again)["reused"] is True


def test_the_last_line_says_what_the_run_cost(
    task: Task, bus: Emulator, caplog: pytest.LogCaptureFixture
) -> None:
    """A commit tells deliveries and where the position stands; its repetition does not."""
    publish(bus, 3)
    fetched = fetch(task)
    land(fetched)
    said = "3 events landed for 3 deliveries; the last one was created "
    for told in (True, False):
        caplog.clear()
        commit(task, fetched)
        lines = [one.getMessage() for one in caplog.records if "landed for" in one.getMessage()]
        assert [one.startswith(said) for one in lines] == [True] * told


def test_commit_moves_once(task: Task, bus: Emulator) -> None:
    """A repeated commit returns the same result and moves nothing."""
    ids = publish(bus, 3)
    fetched = fetch(task)
    land(fetched)
    once = commit(task, fetched)
    position = dict(task.positions)
    assert commit(task, fetched) == once
    assert task.positions == position
    assert stands_at(task) == (1, ids[-1])
    assert once["tables"] == {"Order__e": 3}


def test_no_event_skips_by_default(task: Task) -> None:
    """A run without events is skipped, with the tasks after it."""
    with pytest.raises(AirflowSkipException, match=f"no event on {ORDERS} after earliest"):
        fetch(task)
    assert stands_at(task) == (0, "earliest")


def test_no_event_can_be_a_success(task: Task) -> None:
    """With `skip_when_empty=False` an empty fetch succeeds, and the commit passes."""
    fetched = fetch(task, skip_when_empty=False)
    assert (fetched["events"], fetched["manifest"], fetched["ended_by"]) == (
        0,
        None,
        "idle_seconds",
    )
    assert commit(task, fetched) == fetched
    assert stands_at(task) == (0, "earliest")


def test_what_was_received_before_an_error_lands_first(task: Task, bus: Emulator) -> None:
    """Events before an error are landed and committed; then the task fails with the error."""
    ids = publish(bus, 5)
    bus.fail_next("Subscribe", error_code="subscription.limit.exceeded", after=3)
    fetched = fetch(task)
    assert (fetched["events"], fetched["ended_by"]) == (3, "error")
    land(fetched)
    with pytest.raises(
        AirflowException, match=r"The batch \(3 events\) is landed and committed.*allowance"
    ):
        commit(task, fetched)
    assert stands_at(task) == (1, ids[2])


@pytest.mark.parametrize("batch", [None, "", {}, "None", {"events": 3}])
def test_commit_of_what_no_fetch_returned(task: Task, batch: object) -> None:
    """The error for a value that is no fetch's result shows it."""
    with pytest.raises(AirflowFailException, match=r"batch=.* is not the result .*`fetch\.output`"):
        commit(task, batch)


def test_a_commit_that_is_retried_after_its_batch_was_swept(task: Task, bus: Emulator) -> None:
    """A retried commit whose batch was swept succeeds and moves nothing."""
    publish(bus, 2)
    first = fetch(task)
    land(first)
    commit(task, first)
    for _ in range(2):
        publish(bus, 2)
        later = fetch(task)
        land(later)
        task.commit(SfEventsCommitOperator, later, keep_batches=1)
    assert not file_of(first["manifest"]).exists()
    position = dict(task.positions)
    assert commit(task, first) == first
    assert task.positions == position


def test_commit_of_an_older_batch(task: Task, bus: Emulator) -> None:
    """A cleared commit of an earlier run does not move the position back."""
    publish(bus, 2)
    first = fetch(task)
    land(first)
    commit(task, first)
    last = publish(bus, 2)[-1]
    second = fetch(task)
    land(second)
    commit(task, second)
    assert commit(task, first)["batch_id"] == first["batch_id"]
    assert stands_at(task) == (2, last)


def test_on_kill_ends_the_stream_and_keeps_what_came(task: Task, bus: Emulator) -> None:
    """`on_kill` closes the stream; the staged events are not delivered again."""
    publish(bus, 4)
    operator, run = task.prepare(SfEventsFetchOperator, task_id="fetch", idle_seconds=600)
    failed: list[AirflowException] = []

    def execute() -> None:
        try:
            run()
        except AirflowException as error:
            failed.append(error)

    running = threading.Thread(target=execute)
    running.start()
    bus.wait_open_streams(1)
    operator.on_kill()
    running.join(timeout=100)
    assert not running.is_alive()
    bus.wait_open_streams(0)
    assert "stays staged for the next try" in str(failed[0])
    fetched = fetch(task)
    assert (fetched["events"], bus.deliveries(ORDERS)) == (4, 4)
