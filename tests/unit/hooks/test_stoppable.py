from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder
from typing_extensions import override

from airflow_provider_sfevents.hooks.stoppable import StoppableTask
from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.operators.entity_snapshot import SfEventsEntitySnapshotOperator
from airflow_provider_sfevents.operators.publish import SfEventsPublishOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.hooks.task_thread import Stopping

TOPIC = "/event/Order__e"
LONG = 30.0
TASKS: list[Callable[[], Any]] = [
    lambda: SfEventsFetchOperator(task_id="fetch", topic=TOPIC),
    lambda: SfEventsToSparkOperator(task_id="land", topic=TOPIC, table="/lake"),
    lambda: SfEventsCommitOperator(task_id="commit", batch={}),
    lambda: SfEventsSensor(task_id="wait", topic=TOPIC),
    lambda: SfEventsPublishOperator(task_id="publish", topic=TOPIC, records=[{"A__c": 1}]),
    lambda: SfEventsEntitySnapshotOperator(
        task_id="read", entity="Account", current_state="lake.org", table_format="delta"
    ),
]
NAMES = ["fetch", "to_spark", "commit", "sensor", "publish", "resolve"]


@pytest.fixture(params=TASKS, ids=NAMES)
def task(request: pytest.FixtureRequest) -> Any:
    return request.param()


def calls_of(call: Callable[[], None]) -> set[str]:
    """Names of all functions, of Python and of C, that a call makes."""
    seen: set[str] = set()

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_qualname)
        elif event == "c_call":
            seen.add(f"{argument.__module__}.{argument.__qualname__}")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return seen - {"sys.setprofile"}


def run_until_stopped(task: Any, meanwhile: Callable[[], None]) -> Stopping:
    """Run work that lasts until a request; `meanwhile` runs in another thread once it began."""
    begun, seen = threading.Event(), []

    def act() -> None:
        begun.wait(LONG)
        meanwhile()

    def work(stopping: Stopping) -> bool:
        seen.append(stopping)
        begun.set()
        return stopping.wait(LONG)

    acting = threading.Thread(target=act)
    acting.start()
    assert task.run_stoppable({}, work) is True
    acting.join()
    return seen[0]


ONLY = {
    "StoppableTask.on_kill",
    "Stopping.request",
    "posix.write",
    "suppress.__init__",
    "suppress.__enter__",
    "suppress.__exit__",
}


def test_on_kill_sets_an_attribute_and_writes_a_byte(task: Any) -> None:
    """`on_kill` sets an attribute and writes a byte: in a signal handler locks may be held."""
    assert type(task).on_kill is StoppableTask.on_kill
    calls: list[set[str]] = []
    run_until_stopped(task, lambda: calls.append(calls_of(task.on_kill)))
    assert calls == [ONLY]


def test_on_kill_before_the_work_sets_an_attribute(task: Any) -> None:
    """`on_kill` before the work sets an attribute only, as there is no pipe yet."""
    assert calls_of(task.on_kill) == {"StoppableTask.on_kill"}


def test_a_task_that_was_killed_begins_nothing(task: Any) -> None:
    """A request before the work, while templates are rendered for example, is final."""
    task.on_kill()
    begun: list[Stopping] = []
    for _ in range(2):
        with pytest.raises(AirflowException, match="The task was ended; nothing was fetched"):
            task.run_stoppable({}, begun.append)
    assert begun == []


class Writes:
    """Writes as Airflow's log and API do, while this thread holds their locks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.comms = CommsDecoder(socket=self.ours)
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", self.comms, raising=False)
        self.log = Locked()

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self.log)
        self.comms._thread_lock.acquire()
        self.log.held.acquire()

    def __exit__(self, *_: object) -> None:
        self.log.held.release()
        self.comms._thread_lock.release()
        logging.getLogger().removeHandler(self.log)
        self.ours.close()
        self.theirs.close()


class Locked(logging.Handler):
    """Writes under a lock that is not reentrant, as structlog's loggers do."""

    def __init__(self) -> None:
        super().__init__()
        self.held = threading.Lock()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if not self.held.acquire(timeout=1):
            raise DeadlockError(record.getMessage())
        self.held.release()


class DeadlockError(Exception):
    """The handler waits for a lock of the thread that it interrupted."""


@pytest.fixture
def airflow_handler() -> Iterator[Callable[[Any], None]]:
    """Install the handler that Airflow installs for a task (`_run_task_and_map_outcome`)."""
    before = signal.getsignal(signal.SIGTERM)

    def install(task: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: task.on_kill())

    yield install
    signal.signal(signal.SIGTERM, before)


@pytest.mark.timeout(60)
def test_a_signal_while_airflow_holds_its_locks_does_not_hang(
    task: Any, airflow_handler: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal in the middle of a log line or of a call of Airflow's API causes no deadlock."""
    airflow_handler(task)
    with Writes(monkeypatch):
        os.kill(os.getpid(), signal.SIGTERM)
        assert task._killed
    with pytest.raises(AirflowException, match="The task was ended"):
        task.run_stoppable({}, lambda _: None)


def test_the_locks_of_that_test_are_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that logs or calls Airflow's API would be noticed by these tests."""
    with Writes(monkeypatch) as _, pytest.raises(DeadlockError):
        logging.getLogger("sfevents").warning("in a handler")
    writes = Writes(monkeypatch)
    with writes:
        asking = threading.Thread(target=lambda: Variable.get("any", default=None), daemon=True)
        asking.start()
        while asking.ident not in sys._current_frames():
            pass
        assert writes.comms._thread_lock.locked()
        asking.join(0.2)
        assert asking.is_alive()
    asking.join(LONG)
