"""Sensors on an emulator, in the test's process.

Their pokes are real, and their deferrals run the real trigger in the test's event loop.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from airflow.models.trigger import Trigger
from airflow.sdk import DAG
from airflow.sdk._shared.module_loading import import_string
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Receipt
from tests.integration.operators.conftest import FakeDagRun, FakeTaskInstance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ORDERS = "/event/Order__e"


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator(sample=True, knobs=Knobs(half_close_seconds=0.01, keepalive_seconds=0.3)) as bus:
        yield bus
        bus.check()


@dataclass
class Waits:
    """A DAG's sensor, and the task that fetches after it.

    :ivar deferrals: each deferral of the last execution.
    :ivar between: called after each deferral, before its trigger runs.
    """

    bus: Emulator
    staging: Path
    monkeypatch: pytest.MonkeyPatch
    positions: dict[str, str] = field(default_factory=dict)
    deferrals: list[TaskDeferred] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    between: Callable[[], object] = lambda: None

    def connect(self, **over: Any) -> None:
        """Define the connection, with these fields over its own."""
        connection = {**self.bus.connection(), **over}
        self.monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(connection))

    def publish(self, count: int = 1) -> None:
        self.bus.publish(ORDERS, [{"Order_Number__c": "A-1"}] * count)

    @contextmanager
    def publishing_once_subscribed(self, count: int) -> Iterator[None]:
        """Publish events once the block has subscribed."""

        def publish() -> None:
            deadline = time.monotonic() + 20
            while not self.bus.subscriptions and time.monotonic() < deadline:
                time.sleep(0.01)
            self.publish(count)

        late = threading.Thread(target=publish)
        late.start()
        try:
            yield
        finally:
            late.join()

    def wait(self, **arguments: Any) -> Any:
        """Execute the sensor, with all its deferrals; returns its result or error."""
        sensor, context = self.prepare(SfEventsSensor, **{"task_id": "wait", **arguments})
        self.deferrals, self.events = [], []
        try:
            return sensor.execute(context)
        except TaskDeferred as deferred:
            return self._resume(sensor, context, deferred)

    def _resume(self, sensor: SfEventsSensor, context: Any, deferred: TaskDeferred) -> Any:
        """Resume a deferred task as Airflow does, `kwargs` lost as under `dag.test()`."""
        while True:
            self.deferrals.append(deferred)
            self.between()
            event = asyncio.run(fired(deferred))
            self.events.append(event)
            try:
                return sensor.resume_execution(deferred.method_name, {"event": event}, context)
            except TaskDeferred as again:
                deferred = again

    def fetch(self, **arguments: Any) -> dict[str, Any]:
        """Execute the task that fetches; returns its result."""
        known = {"task_id": "fetch", "idle_seconds": 1.0}
        operator, context = self.prepare(SfEventsFetchOperator, **{**known, **arguments})
        fetched = operator.execute(context)
        assert isinstance(fetched, dict)
        return fetched

    def land(self) -> None:
        """Run the rest of the DAG: fetch, leave a receipt as Spark would, commit."""
        try:
            fetched = self.fetch()
        except AirflowSkipException:
            return
        receipt = Receipt(
            batch_id=fetched["batch_id"],
            events=fetched["events"],
            tables={"Order__e": fetched["events"]},
            quarantined=0,
            written_at=datetime.now(UTC).isoformat(),
        )
        folder = Path(unquote(urlsplit(fetched["manifest"]).path)).parent
        (folder / layout.RECEIPT).write_text(receipt.to_json())
        commit = SfEventsCommitOperator(
            task_id="commit",
            batch=fetched,
            position_store=self.positions,
            staging=self.staging.as_uri(),
        )
        _, context = self.prepare(SfEventsFetchOperator, task_id="commit")
        commit.execute(context)

    def prepare(self, kind: type[Any], **arguments: Any) -> tuple[Any, Any]:
        """An operator, and the context it is executed in."""
        known = {
            "topic": ORDERS,
            "position_store": self.positions,
            "staging": self.staging.as_uri(),
            "idle_seconds": 0.5,
        }
        with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            operator = kind(**{**known, **arguments})
        instance = FakeTaskInstance(task_id=operator.task_id)
        return operator, {"ti": instance, "dag_run": FakeDagRun(), "dag": dag}


async def fired(deferred: TaskDeferred) -> dict[str, Any]:
    """The payload of the event of a trigger that is made from its stored form."""
    path, arguments = deferred.trigger.serialize()
    stored = Trigger._decrypt_kwargs(Trigger.encrypt_kwargs(arguments))
    events = [event.payload async for event in import_string(path)(**stored).run()]
    assert len(events) == 1
    payload = json.loads(json.dumps(events[0]))
    assert isinstance(payload, dict)
    return payload


@pytest.fixture
def waits(bus: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waits:
    waits = Waits(bus=bus, staging=tmp_path / "staging", monkeypatch=monkeypatch)
    waits.connect()
    return waits
