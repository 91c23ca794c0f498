"""Operators in the test's process, with a minimal Airflow context, on an emulator."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ORDERS = "/event/Order__e"
SECRETS = "/event/Secret__e"


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    with Emulator(sample=True, knobs=Knobs(half_close_seconds=0.01)) as bus:
        bus.define_event("Secret__e", {"City__c": "Text"}, can_subscribe=False)
        bus.publish(ORDERS, [{"Order_Number__c": "A-1"}])
        yield bus
        bus.check()


@pytest.fixture(scope="module")
def over_tls() -> Iterator[Emulator]:
    with Emulator(tls=True, sample=True, knobs=Knobs(half_close_seconds=0.01)) as bus:
        bus.publish(ORDERS, [{"Order_Number__c": "A-1"}])
        yield bus
        bus.check()


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeTaskInstance:
    """The attributes of a task instance that the operators read."""

    task_id: str
    dag_id: str = "orders"
    run_id: str = "run-1"
    map_index: int = -1
    try_number: int = 1

    def xcom_push(self, key: str, value: Any) -> None: ...

    def get_first_reschedule_date(self, context: Any) -> datetime:
        return datetime.now(UTC)

    def get_template_context(self) -> dict[str, Any]:
        return {"dag_run": FakeDagRun()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeDagRun:
    """The attributes of a run that the operators read."""

    logical_date: datetime | None = datetime(2026, 1, 1, tzinfo=UTC)
    data_interval_start: datetime | None = None
    data_interval_end: datetime | None = None
    run_after: datetime | None = datetime(2026, 1, 1, tzinfo=UTC)
    run_type: str = "scheduled"
    clear_number: int = 0
    conf: dict[str, Any] | None = None


@dataclass
class Task:
    """One task, and every location to which it could write.

    :param rescheduled: number of earlier reschedules of this try.
    :param announced: payloads of the watchers that started the run.
    """

    staging: Path
    monkeypatch: pytest.MonkeyPatch
    rescheduled: int = 0
    announced: list[dict[str, Any]] = field(default_factory=list)
    positions: dict[str, str] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)

    def place(self, key: str, position: str) -> None:
        """Set a position by hand."""
        self.positions[key] = self.placed[key] = position

    def connect(self, conn_id: str, connection: dict[str, Any], **extra: Any) -> None:
        """Define a connection, with these extras over its own."""
        merged = {**connection, "extra": {**connection.get("extra", {}), **extra}}
        self.monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(merged))

    def execute(self, kind: type[Any] = SfEventsToSparkOperator, **arguments: Any) -> Any:
        """Execute an operator with these arguments over valid ones; returns its result."""
        _, run = self.prepare(kind, **arguments)
        return run()

    def execute_alone(self, kind: type[Any], **arguments: Any) -> Any:
        """Execute an operator without a position; returns its result."""
        _, run = self.prepare_alone(kind, **arguments)
        return run()

    def prepare(self, kind: type[Any], **arguments: Any) -> tuple[Any, Callable[[], Any]]:
        """Return the operator, and a function that executes it."""
        known: dict[str, Any] = {"topic": ORDERS, "idle_seconds": 1.0}
        if issubclass(kind, SfEventsToSparkOperator):
            known |= {"table": str(self.staging.parent / "lake")}
        return self._prepare(kind, {**known, **arguments})

    def commit(self, kind: type[Any], batch: Any, **arguments: Any) -> Any:
        """Execute the last task of a chain on the result of its first one."""
        _, run = self._prepare(kind, {"task_id": "commit", "batch": batch, **arguments})
        return run()

    def prepare_alone(self, kind: type[Any], **arguments: Any) -> tuple[Any, Callable[[], Any]]:
        """Return an operator without a position, and a function that executes it."""
        return self._prepare(kind, arguments, places={"staging": self.staging.as_uri()})

    def _prepare(
        self, kind: type[Any], arguments: dict[str, Any], places: dict[str, Any] | None = None
    ) -> tuple[Any, Callable[[], Any]]:
        places = places or {"position_store": self.positions, "staging": self.staging.as_uri()}
        with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            operator = kind(**{"task_id": "land", **places, **arguments})
        instance = FakeTaskInstance(task_id=operator.task_id)
        now = datetime.now(UTC)
        events = [SimpleNamespace(extra={"payload": one}, timestamp=now) for one in self.announced]
        context = {
            "ti": instance,
            "triggering_asset_events": {"pending": events},
            "dag_run": FakeDagRun(),
            "dag": dag,
            "task_reschedule_count": self.rescheduled,
        }
        return operator, lambda: operator.execute(context)

    @property
    def left_behind(self) -> list[str]:
        """Files in the staging area, except its id and released leases."""
        files = [path for path in self.staging.rglob("*") if path.is_file()]
        return [
            str(path)
            for path in files
            if path.name != layout.AREA
            and (path.parent.name != "leases" or not path.with_suffix(".released").exists())
        ]


@pytest.fixture
def task(bus: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task whose connections lead to the emulator and to a local Spark."""
    task = Task(staging=tmp_path / "staging", monkeypatch=monkeypatch)
    task.connect("sfevents_default", bus.connection())
    task.connect("spark_default", {"conn_type": "spark", "host": "local[2]"})
    return task
