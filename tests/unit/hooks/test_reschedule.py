from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms
from hypothesis import given, strategies as st
from typing_extensions import override

from airflow_provider_sfevents.exceptions import LeaseHeldError, StoppedError
from airflow_provider_sfevents.hooks.reschedule import (
    MOST_RESCHEDULES,
    MOST_SECONDS,
    give_way,
    next_look,
)
from airflow_provider_sfevents.hooks.task_thread import Stopping
from airflow_provider_sfevents.staging.lease_holder import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOLDER = "held by task orders.land of run r1, process 7 on host-a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The part of a task instance that `give_way` reads.

    :param first: when this try was rescheduled first; None: Airflow must not be asked.
    """

    first: datetime | None = None

    def get_first_reschedule_date(self, context: Any) -> datetime:
        assert self.first is not None, "Airflow was asked for a date that it has not"
        assert context["ti"] is self
        return self.first


@dataclass
class Patient(Stopping):
    """Records waits instead of waiting.

    :param stops_after: number of waits after which a stop is requested; None: never.
    """

    stops_after: int | None = None
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @override
    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if len(self.waits) == self.stops_after:
            self.request()
        return self.requested


def held(times: int) -> Callable[[], str]:
    """A call whose batch is held for the first calls, and then free."""
    calls = [*["held"] * times, "done"]

    def call() -> str:
        if calls.pop(0) == "held":
            raise LeaseHeldError(HOLDER)
        return "done"

    return call


def context(times: int = 0, first: datetime | None = None) -> Any:
    return {"ti": Instance(first=first), "task_reschedule_count": times}


@given(
    times=st.integers(0, 5),
    seconds=st.one_of(st.none(), st.floats(0, 2 * MOST_SECONDS)),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_the_next_look_is_after_the_lease_and_within_the_limits(
    times: int, seconds: float | None, chance: float
) -> None:
    """The next look is one to two leases later, at most three times and in 10 minutes."""
    first = None if seconds is None else NOW - timedelta(seconds=seconds)
    at = next_look(times, first, NOW, chance)
    wait = timedelta(seconds=LEASE_SECONDS * (1 + chance))
    within = first is None or NOW + wait - first <= timedelta(seconds=MOST_SECONDS)
    assert (at is not None) == (times < MOST_RESCHEDULES and within)
    assert at is None or at == NOW + wait


def test_limits_are_three_looks_in_ten_minutes() -> None:
    """The limits are the documented ones."""
    assert (MOST_RESCHEDULES, MOST_SECONDS) == (3, 600.0)


def test_two_tasks_that_give_way_together_look_at_different_times() -> None:
    """The jitter spreads tasks over the length of a lease."""
    looks = {next_look(0, None, NOW, chance / 10) for chance in range(10)}
    assert len(looks) == 10


def test_a_held_batch_reschedules_the_task() -> None:
    """A held batch reschedules the task to the end of a lease or later."""
    before = datetime.now(UTC)
    with pytest.raises(AirflowRescheduleException) as raised:
        give_way(context(), held(1), Stopping())
    after = datetime.now(UTC)
    lease = timedelta(seconds=LEASE_SECONDS)
    assert before + lease <= raised.value.reschedule_date <= after + 2 * lease


def test_a_free_batch_is_no_reason_to_wait() -> None:
    """For a free batch the call's result is returned, and Airflow is not asked."""
    assert give_way(context(times=2), held(0), Stopping()) == "done"


@pytest.mark.parametrize(
    ("times", "first"),
    [
        (MOST_RESCHEDULES, timedelta(seconds=90)),
        (1, timedelta(seconds=MOST_SECONDS)),
    ],
    ids=["three times", "ten minutes"],
)
def test_a_task_that_gave_way_long_enough_fails_and_names_the_holder(
    times: int, first: timedelta
) -> None:
    """After the last reschedule the task fails with an error that names the holder."""
    with pytest.raises(LeaseHeldError, match=r"orders\.land of run r1, process 7 on host-a"):
        give_way(context(times, datetime.now(UTC) - first), held(1), Stopping())


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate `dag.test`, in which supervisor and task share a process."""
    comms = InProcessSupervisorComms(supervisor=None)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)


@pytest.mark.usefixtures("in_process")
def test_under_dag_test_the_task_waits_itself() -> None:
    """Under `dag.test`, without a scheduler, the task waits as long as a reschedule would."""
    stopping = Patient()
    random.seed(1)
    assert give_way(context(), held(MOST_RESCHEDULES), stopping) == "done"
    assert len(stopping.waits) == MOST_RESCHEDULES
    assert all(LEASE_SECONDS - 1 < one <= 2 * LEASE_SECONDS for one in stopping.waits)


@pytest.mark.usefixtures("in_process")
def test_under_dag_test_the_limits_are_the_same() -> None:
    """Under `dag.test` the holder is named after the last wait."""
    stopping = Patient()
    with pytest.raises(LeaseHeldError, match="process 7 on host-a"):
        give_way(context(), held(MOST_RESCHEDULES + 1), stopping)
    assert len(stopping.waits) == MOST_RESCHEDULES


@pytest.mark.usefixtures("in_process")
def test_a_stop_ends_the_wait() -> None:
    """A task that is ended while it waits for a holder does not look again."""
    stopping = Patient(stops_after=1)
    with pytest.raises(StoppedError, match="another task holds the batch"):
        give_way(context(), held(1), stopping)
