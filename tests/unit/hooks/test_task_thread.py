from __future__ import annotations

import asyncio
import contextvars
import gc
import linecache
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import TimeoutPosix

from airflow_provider_sfevents.exceptions import StoppedError
from airflow_provider_sfevents.hooks import task_thread
from airflow_provider_sfevents.hooks.task_thread import Stopping, run_async, run_in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = contextvars.ContextVar("VARIABLE", default="")
LONG = 30.0
"""Seconds that no test waits; work that takes this long was not ended."""


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "sfevents-task"]


def handles() -> set[Path]:
    gc.collect()
    return set(Path("/proc/self/fd").iterdir())


class Work:
    """Work that records its steps, and ends when it is asked to."""

    def __init__(self, stopping: Stopping, seconds: float = LONG) -> None:
        self.stopping = stopping
        self.seconds = seconds
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.was_stopped = False

    def __call__(self) -> str:
        self.begun.set()
        self.was_stopped = self.stopping.wait(self.seconds)
        self.ended.set()
        return "done"


def test_the_work_runs_in_another_thread_with_the_callers_context() -> None:
    """The work runs in another thread with the caller's context variables."""
    VARIABLE.set("mine")
    seen = run_in_thread(lambda: (VARIABLE.get(), threading.current_thread().name), Stopping())
    assert seen == ("mine", "sfevents-task")
    assert threads() == []


def test_an_error_of_the_work_is_raised_by_the_caller() -> None:
    """The caller raises the work's error, also one that is no `Exception`."""
    for error in (ZeroDivisionError("a"), SystemExit(3), KeyboardInterrupt()):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)) as raised:
            run_in_thread(fail, Stopping())
        assert raised.value is error


def test_nothing_is_left_open() -> None:
    """Each run closes its pipes, as a sensor pokes thousands of times in a process."""
    run_in_thread(lambda: None, Stopping())
    before, runs = handles(), 20
    for _ in range(runs):
        run_in_thread(lambda: None, Stopping())
    # Threads of earlier tests may open a file in the meantime, but not one in each run.
    assert len(handles() - before) < runs


def test_a_process_with_many_open_files_runs_work() -> None:
    """The work runs in a process that has more than 1,024 open files, as a busy API server has."""
    with ExitStack() as files:
        for _ in range(1_100):
            files.enter_context(Path(os.devnull).open())
        stopping = Stopping()
        assert run_in_thread(Work(stopping, 0.1), stopping) == "done"


def test_a_request_from_a_signal_handler_ends_the_work() -> None:
    """A request from SIGTERM's handler ends the work, whose result counts."""
    stopping = Stopping()
    work = Work(stopping)
    with handling(signal.SIGTERM, stopping.request):
        threading.Thread(target=terminate_after, args=(work.begun,)).start()
        assert run_in_thread(work, stopping) == "done"
    assert work.was_stopped


def test_a_signal_that_another_thread_is_given_ends_the_work() -> None:
    """A signal in another thread, which does not wake the main thread, still ends the work."""
    stopping = Stopping()

    def work() -> bool:
        _until_main_thread_waits()
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        return stopping.wait(LONG)

    with handling(signal.SIGTERM, stopping.request):
        assert run_in_thread(work, stopping) is True


def test_more_requests_than_the_pipe_holds_do_not_block_the_handler() -> None:
    """Requests beyond the capacity of the pipe do not block the handler."""
    stopping = Stopping()
    read, write = stopping.open_pipe()
    for _ in range(100_000):
        stopping.request()
    os.close(read)
    os.close(write)


def test_work_that_begins_after_a_request_does_nothing() -> None:
    """After a request the call is not made."""
    stopping = Stopping()
    stopping.request()
    work = Work(stopping)
    with pytest.raises(StoppedError):
        run_in_thread(work, stopping)
    assert not work.begun.is_set()


def test_a_timeout_ends_the_work_before_it_is_raised() -> None:
    """A timeout from a signal handler is raised after the work has ended."""
    stopping = Stopping()
    work = Work(stopping)
    with pytest.raises(AirflowTaskTimeout), TimeoutPosix(0.2):
        run_in_thread(work, stopping)
    assert work.ended.is_set()
    assert work.was_stopped
    assert threads() == []


def test_a_timeout_is_raised_though_the_work_does_not_end() -> None:
    """A timeout is raised even if the work hangs, in a call to a dead disk for example."""
    release = threading.Event()
    with pytest.raises(AirflowTaskTimeout), TimeoutPosix(0.1):
        run_in_thread(lambda: release.wait(LONG), Stopping(), stop_seconds=0.1)
    [left] = threads()
    release.set()
    left.join(LONG)


class Interrupted(BaseException):
    """Raised between two lines of the main thread, like `AirflowTaskTimeout`."""


def interrupted_at(number: int, stopping: Stopping, work: Work) -> bool:
    """Run the work and interrupt the caller at point n; returns whether there is such a point.

    Points are the lines of `task_thread`, and the wait of `Thread.start` for the thread that it has
    started. In the middle of Python's own locks an interruption would break these.
    """
    seen = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        name = frame.f_code.co_filename
        is_start = name == threading.__file__ and frame.f_code.co_name == "wait"
        is_point = (event == "line" and name == task_thread.__file__) or (
            event == "call" and is_start and frame.f_back.f_code.co_name == "start"
        )
        if is_point and seen >= 0:
            seen += 1
            if seen == number:
                seen = -1
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run_in_thread(work, stopping)
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_timeout_between_any_two_lines_leaves_no_work_behind() -> None:
    """After an interruption at any point the work has ended, or does not begin."""
    lines: list[Work] = []
    while True:
        stopping = Stopping()
        work = Work(stopping, seconds=0.05)
        if not interrupted_at(len(lines) + 1, stopping, work):
            break
        lines.append(work)
        assert work.begun.is_set() == work.ended.is_set(), f"line {len(lines)} leaves the work"
    assert len(lines) > 20
    for thread in threads():
        thread.join(LONG)
    assert [work for work in lines if work.begun.is_set() and not work.ended.is_set()] == []


def test_work_that_cannot_end_itself_is_ended_by_the_main_thread() -> None:
    """`end` is called until it returns true, and then no more."""
    stopping, ended = Stopping(), threading.Event()
    calls: list[str] = []

    def end() -> bool:
        calls.append(threading.current_thread().name)
        if len(calls) < 3:
            return False
        ended.set()
        return True

    def work() -> bool:
        stopping.request()
        return ended.wait(LONG)

    assert run_in_thread(work, stopping, end) is True
    assert calls == ["MainThread"] * 3


def test_asynchronous_work_is_told() -> None:
    """A coroutine's event is set by a request, and its result counts."""
    stopping = Stopping()

    async def work(requested: asyncio.Event) -> str:
        stopping.request()
        await requested.wait()
        return "half-closed"

    assert run_in_thread(lambda: run_async(work, stopping), stopping) == "half-closed"


def test_asynchronous_work_that_does_not_end_is_cancelled() -> None:
    """A coroutine that hangs is cancelled and releases its resources, and the task is stopped."""
    stopping = Stopping()
    released: list[str] = []

    async def work(_: asyncio.Event) -> None:
        stopping.request()
        try:
            await asyncio.sleep(LONG)
        finally:
            released.append("lease")

    with pytest.raises(StoppedError, match="stay staged for the next try"):
        run_in_thread(lambda: run_async(work, stopping, cancel_seconds=0.05), stopping)
    assert released == ["lease"]


def test_a_request_before_the_loop_runs_is_not_lost() -> None:
    """A coroutine that is made after the request finds its event set."""
    stopping = Stopping()
    stopping.request()

    async def work(requested: asyncio.Event) -> bool:
        return requested.is_set()

    assert run_async(work, stopping) is True


def test_a_cancellation_of_its_own_stays_one() -> None:
    """A coroutine that is cancelled without a request raises `CancelledError`."""

    async def work(_: asyncio.Event) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_async(work, Stopping())


def test_stopping_fits_into_the_time_that_airflow_gives() -> None:
    """Work is cancelled early enough to end within the supervisor's 5 s after SIGTERM.

    After a timeout, when nothing kills the task, a slow machine has ten times as long.
    """
    assert 2 * task_thread.CANCEL_SECONDS <= 3.0
    assert task_thread.STOP_SECONDS >= 30.0


def _until_main_thread_waits() -> None:
    """Wait until several looks find the main thread at its `poll`."""
    main = threading.main_thread().ident
    looks = 0
    while looks < 20:
        frame = sys._current_frames()[main or 0]
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        looks = looks + 1 if "poll.poll(" in line else 0
        time.sleep(0.001)


@contextmanager
def handling(number: signal.Signals, call: Any) -> Iterator[None]:
    before = signal.signal(number, lambda *_: call())
    try:
        yield
    finally:
        signal.signal(number, before)


def terminate_after(begun: threading.Event) -> None:
    begun.wait(LONG)
    os.kill(os.getpid(), signal.SIGTERM)
