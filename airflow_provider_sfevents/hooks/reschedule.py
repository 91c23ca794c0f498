"""Reschedule a task whose batch is held by another task, a few times; then fail it.

A dead holder is noticed after a lease, and a live one may land the batch in the meantime. In both
cases this uses up no try of the task. `dag.test` has no scheduler, so there the task waits instead.
"""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_provider_sfevents.exceptions import LeaseHeldError
from airflow_provider_sfevents.staging.lease_holder import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping

T = TypeVar("T")

log = logging.getLogger(__name__)

MOST_RESCHEDULES = 3
MOST_SECONDS = 600.0
"""Bounds of the reschedules in each try of a task: their number, and their total time."""


def give_way(context: Context, call: Callable[[], T], stopping: Stopping) -> T:
    """Call, and reschedule the task if the batch is held.

    :raises AirflowRescheduleException: to a time that is one to two leases away.
    :raises LeaseHeldError: the bounds of reschedules are reached; the message names the holder.
    """
    times = int(context.get("task_reschedule_count") or 0)
    first: datetime | None = None
    while True:
        try:
            return call()
        except LeaseHeldError as leased:
            now = datetime.now(UTC)
            if times and first is None:
                first = context["ti"].get_first_reschedule_date(context)
            at = next_look(times, first, now, random.random())  # noqa: S311 - spreads load
            if at is None:
                raise
            times, first = times + 1, first or now
            log.info("%s Trying again at %s (%d of %d).", leased, at, times, MOST_RESCHEDULES)
            if not _is_in_process():
                raise AirflowRescheduleException(at) from None
            stopping.wait((at - now).total_seconds())
            stopping.check("another task holds the batch")


def next_look(times: int, first: datetime | None, now: datetime, chance: float) -> datetime | None:
    """Return the time of the next reschedule; None: no more in this try.

    :param times: number of reschedules so far in this try.
    :param first: time of the first reschedule; None: there was none.
    :param chance: from 0 up to 1; spreads tasks that gave way together.
    """
    if times >= MOST_RESCHEDULES:
        return None
    at = now + timedelta(seconds=LEASE_SECONDS * (1 + chance))
    if first is not None and at - first > timedelta(seconds=MOST_SECONDS):
        return None
    return at


def _is_in_process() -> bool:
    """Return whether `dag.test` runs the task: no scheduler would start it again."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms

    return isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), InProcessSupervisorComms)
