"""A task whose work runs in a thread, ends when Airflow asks for it, and gives way to another task."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from airflow_provider_sfevents.hooks.failures import airflow_failures
from airflow_provider_sfevents.hooks.giving_way import give_way
from airflow_provider_sfevents.hooks.task_thread import Stopping, run_in_thread
from airflow_provider_sfevents.staging.holders import PAUSE

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

T = TypeVar("T")


class StoppableTask:
    """A part of an operator or a sensor."""

    _killed: bool = False
    _stopping: Stopping | None = None

    def on_kill(self) -> None:
        """Ask the task to end, for good; what it has received stays staged.

        Airflow calls this from a signal handler, so it does nothing else (`task_thread`); an assignment
        would run `BaseOperator.__setattr__`.
        """
        self.__dict__["_killed"] = True
        if self._stopping is not None:
            self._stopping.request()

    def run_stoppable(self, context: Context, work: Callable[[Stopping], T]) -> T:
        """Run work in a thread; reschedule the task if its batch is held.

        :param work: is given the request to stop; it does not begin after one.
        :raises AirflowException: the work's errors, as Airflow knows them.
        """
        with airflow_failures():
            return self._run_in_thread(
                lambda stopping: give_way(context, lambda: work(stopping), stopping)
            )

    def _run_in_thread(self, work: Callable[[Stopping], T]) -> T:
        """:raises Stopped: the task was ended before the work began."""
        stopping = self._stopping = Stopping()
        if self._killed:
            stopping.request()
        try:
            stopping.check("nothing was fetched")
            return run_in_thread(lambda: self._work(work, stopping), stopping, self._end_process)
        finally:
            self._stopping = None

    def _work(self, work: Callable[[Stopping], T], stopping: Stopping) -> T:
        """Work, in a context of its own, in which a request also ends the watch of another task's lease."""
        PAUSE.set(stopping.pause)
        return work(stopping)

    def _end_process(self) -> bool:
        """End what the work waits for and cannot end itself; whether that is done."""
        return True
