"""Task whose work runs in a thread, stops when Airflow asks, and gives way to another task."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from airflow_provider_sfevents.hooks.airflow_errors import airflow_failures
from airflow_provider_sfevents.hooks.reschedule import give_way
from airflow_provider_sfevents.hooks.task_thread import Stopping, run_in_thread
from airflow_provider_sfevents.staging.lease_holder import PAUSE

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

T = TypeVar("T")


class StoppableTask:
    """Mixin for operators and sensors."""

    _killed: bool = False
    _stopping: Stopping | None = None

    def on_kill(self) -> None:
        """Request the end of the task, for good; received events stay staged.

        Airflow calls this from a signal handler, so nothing else may happen here (see
        `task_thread`). `self.__dict__` is used because an assignment would run
        `BaseOperator.__setattr__`.
        """
        self.__dict__["_killed"] = True
        if self._stopping is not None:
            self._stopping.request()

    def run_stoppable(self, context: Context, work: Callable[[Stopping], T]) -> T:
        """Run work in a thread; reschedule the task if its batch is held.

        :param work: receives the request to stop; it is not called after one.
        :return: the result of the work.
        :raises AirflowException: the work's errors, as Airflow's.
        :raises AirflowRescheduleException: another task holds the batch.
        """
        with airflow_failures():
            return self._run_in_thread(
                lambda stopping: give_way(context, lambda: work(stopping), stopping)
            )

    def _run_in_thread(self, work: Callable[[Stopping], T]) -> T:
        """Run work in a thread.

        :raises StoppedError: the task was ended before the work began.
        """
        stopping = self._stopping = Stopping()
        if self._killed:
            stopping.request()
        try:
            stopping.check("nothing was fetched")
            return run_in_thread(lambda: self._work(work, stopping), stopping, self._end_process)
        finally:
            self._stopping = None

    def _work(self, work: Callable[[Stopping], T], stopping: Stopping) -> T:
        """Run the work in its own context; a request to stop also ends the watch of a lease."""
        PAUSE.set(stopping.pause)
        return work(stopping)

    def _end_process(self) -> bool:
        """End what the work waits for and cannot end itself; returns whether that is done."""
        return True
