"""Run a task's work in a thread, while the main thread waits for its end or for a request to stop.

1. Airflow raises `AirflowTaskTimeout` from a SIGALRM handler, and calls `on_kill` from a SIGTERM
   handler (`airflow/sdk/execution_time/timeout.py` and `task_runner.py`, 3.3). Both run on the main
   thread, between any two of its instructions. An error that is raised there inside an event loop,
   a gRPC callback or a call of Airflow's API is swallowed, or leaves a call that never ends. So the
   work runs in a thread of its own, and the main thread only waits.
2. A signal handler may only call `Stopping.request`: it sets an attribute and writes a byte to a
   pipe.
3. A request is final: work that would begin after it does not begin.
4. The main thread never waits without a limit, because a signal's handler runs when it wakes up.
5. When a stop is requested, the work is asked to end. Asynchronous work is cancelled
   `CANCEL_SECONDS` later. After an error of a signal handler the main thread waits `STOP_SECONDS`,
   then raises the error.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_provider_sfevents.exceptions import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

T = TypeVar("T")

CANCEL_SECONDS = 1.5
"""Time for asynchronous work to end: half-close the stream, read the rest, close the file."""

STOP_SECONDS = 30.0
"""Longest wait for the end of the work after an error of a signal handler.

Work ends in a fraction of a second, and is cancelled after `CANCEL_SECONDS`; on a machine that has
no time for the process it takes longer. A task that does not wait leaves its lease to expire, and
the next try has to wait for that. Nothing kills a task after `AirflowTaskTimeout`. After SIGTERM no
error is raised here, and Airflow's supervisor may kill the task 5 s later.
"""

_LOOK_MILLISECONDS = 200
"""Longest wait of the main thread.

Python runs a signal's handler only between two instructions of the main thread. A signal that
arrives right before the wait, or in another thread, does not end the wait by itself.
"""


class Stopping:
    """A request to end a task; one for each run of a task.

    :ivar requested: whether the task is to end; never reset.
    """

    def __init__(self) -> None:
        self.requested = False
        self._pipe: int | None = None
        self._told = threading.Event()
        self._lock = threading.Lock()
        self._events: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def request(self) -> None:
        """Request the end; safe in a signal handler."""
        self.requested = True
        pipe = self._pipe
        if pipe is not None:
            with suppress(OSError):  # the pipe is full of requests, or the work has just ended
                os.write(pipe, b"\0")

    def check(self, what: str) -> None:
        """Raise if there is a request. Call it before each step of the work.

        :param what: the consequence, for the message, such as "Spark was not started".
        :raises StoppedError: the task is to end.
        """
        if self.requested:
            raise StoppedError(f"The task was ended; {what}.")

    def wait(self, seconds: float) -> bool:
        """Sleep, at most until a request; returns whether there is one."""
        return self._told.wait(seconds)

    def pause(self, seconds: float) -> None:
        """Sleep between two looks at a lease.

        :raises StoppedError: there is a request.
        """
        self.wait(seconds)
        self.check("it was watching another task's lease of the batch, and nothing was fetched")

    @contextmanager
    def event(self) -> Iterator[asyncio.Event]:
        """Yield an event of the running loop that a request sets, for the length of the block."""
        entry = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._events.append(entry)
        if self._told.is_set() or self.requested:
            entry[1].set()
        try:
            yield entry[1]
        finally:
            with self._lock:
                self._events.remove(entry)

    def tell(self) -> None:
        """Pass the request on to waiting threads and event loops; not for signal handlers."""
        self._told.set()
        with self._lock:
            for loop, event in self._events:
                with suppress(RuntimeError):  # the loop has just been closed
                    loop.call_soon_threadsafe(event.set)

    def open_pipe(self) -> tuple[int, int]:
        """Open the pipe that `request` writes to; returns its read and write ends."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        self._pipe = write
        return read, write

    def forget_pipe(self) -> None:
        self._pipe = None


@dataclass(slots=True)
class _Work(Generic[T]):
    """Work in a thread; `begun` is set first, `done` last."""

    call: Callable[[], T]
    result: T | None = None
    error: BaseException | None = None
    begun: bool = False
    done: bool = False

    def run(self, stopping: Stopping, wake: Callable[[], None]) -> None:
        self.begun = True  # before the check: a request that comes later waits for the end
        try:
            stopping.check("nothing was begun")
            self.result = self.call()
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            self.error = error
        self.done = True
        wake()


def run_in_thread(
    call: Callable[[], T],
    stopping: Stopping,
    end: Callable[[], bool] = lambda: True,
    stop_seconds: float = STOP_SECONDS,
) -> T:
    """Run a call in a thread with this thread's context, and wait for it.

    :param end: called in this thread after a stop request, again and again until it returns true;
        it ends what the work cannot end itself, such as a process that it waits for.
    :param stop_seconds: longest wait for the end of the work after an error of a signal handler.
    :return: the result of the call.
    :raises BaseException: an error of the call; or of a signal handler in this thread.
    """
    work = _Work(call)
    context = contextvars.copy_context()
    read, write = stopping.open_pipe()

    def wake() -> None:
        with suppress(BlockingIOError):  # full of requests
            os.write(write, b"\0")

    thread = threading.Thread(
        target=context.run, args=(work.run, stopping, wake), daemon=True, name="sfevents-task"
    )
    try:
        thread.start()
        _wait(work, read, stopping, end)
    except BaseException:
        stopping.request()
        if work.begun:  # otherwise it finds the request if it begins
            _wait(work, read, stopping, end, time.monotonic() + stop_seconds)
        raise
    finally:
        stopping.forget_pipe()
        if work.done:  # otherwise the thread will still write to it
            thread.join()
            os.close(read)
            os.close(write)
    if work.error is not None:
        raise work.error
    return work.result  # type: ignore[return-value]


def run_async(
    make: Callable[[asyncio.Event], Coroutine[Any, Any, T]],
    stopping: Stopping,
    cancel_seconds: float = CANCEL_SECONDS,
) -> T:
    """Run a coroutine in an event loop of the calling thread, which is not the main thread.

    :param make: makes the coroutine; its argument is set when a stop is requested.
    :param cancel_seconds: time from a request until the coroutine is cancelled.
    :raises StoppedError: it was cancelled.
    """

    async def run() -> T:
        with stopping.event() as requested:
            work = asyncio.ensure_future(make(requested))
            canceller = asyncio.ensure_future(_cancel_after(requested, cancel_seconds, work))
            try:
                return await work
            except asyncio.CancelledError:
                if requested.is_set():
                    raise StoppedError(
                        "The task was ended; events in closed files stay staged for the next try."
                    ) from None
                raise
            finally:
                canceller.cancel()

    return asyncio.run(run())


def run_async_in_thread(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a thread with its own event loop, and wait for it, as `run_in_thread`.

    The coroutine does not see a request to stop, so it is cancelled at once.
    """
    stopping = Stopping()
    return run_in_thread(lambda: run_async(lambda _: make(), stopping, 0.0), stopping)


async def _cancel_after(
    requested: asyncio.Event, seconds: float, work: asyncio.Future[Any]
) -> None:
    await requested.wait()
    await asyncio.sleep(seconds)
    work.cancel()


def _wait(
    work: _Work[Any],
    read: int,
    stopping: Stopping,
    end: Callable[[], bool],
    until: float | None = None,
) -> None:
    """Wait for the work to be done; pass on a request to stop.

    :param until: by the monotonic clock; None: without a limit.
    """
    is_told = is_ended = False
    poll = select.poll()  # `select.select` refuses a pipe above 1,023, as busy processes have
    poll.register(read, select.POLLIN)
    while not work.done and (until is None or time.monotonic() < until):
        if stopping.requested and not is_told:
            stopping.tell()
            is_told = True
        is_ended = is_ended or (is_told and end())
        poll.poll(_LOOK_MILLISECONDS)
        with suppress(BlockingIOError):
            os.read(read, 4096)
