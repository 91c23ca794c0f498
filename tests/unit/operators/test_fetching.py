from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_sfevents.operators.chain import SfEventsFetchOperator
from airflow_provider_sfevents.operators.fetching import StageTimes, fetch_seconds
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator


@pytest.mark.parametrize(
    ("max_seconds", "timeout", "reserve", "elapsed", "seconds"),
    [
        (600, None, 30, 0, 600),  # only max_seconds counts
        (600, 3600, 30, 0, 600),  # the earlier one counts
        (600, 300, 30, 0, 270),
        (600, 300, 30, 20, 250),  # templates, logins and waits for a holder took 20 s
        (600, 300, 300, 0, 150),  # the reserve is never more than half
        (600, 40, 30, 0, 20),
        (600, 300, 30, 400, 1),  # at least one second
        (0.5, 300, 30, 0, 0.5),
    ],
)
def test_a_fetch_ends_before_airflow_ends_the_task(
    max_seconds: float, timeout: float | None, reserve: float, elapsed: float, seconds: float
) -> None:
    """The fetch ends at `max_seconds` or a reserve before `execution_timeout`."""
    limit = None if timeout is None else timedelta(seconds=timeout)
    assert fetch_seconds(max_seconds, limit, reserve, elapsed) == pytest.approx(seconds)


def test_landing_has_a_larger_reserve() -> None:
    """The reserves of fetching and of landing tasks are the documented ones."""
    assert SfEventsFetchOperator.timeout_reserve == 30
    assert SfEventsToSparkOperator.timeout_reserve == 300


def test_an_operator_reckons_with_its_execution_timeout() -> None:
    """The bounds of the fetch follow from the operator's own arguments."""
    operator = SfEventsFetchOperator(
        task_id="fetch", topic="/event/A__e", execution_timeout=timedelta(seconds=100)
    )
    assert operator._bounds(until=None).max_seconds == 70


def test_the_log_has_the_time_of_each_stage() -> None:
    """The last line of a task has the seconds between its stages, and since the announcement."""
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    times = iter((100.8, 113.8, 114.0))
    stages = StageTimes(begun_at=begun, reached_at=100.0, clock=lambda: next(times))
    for stage in ("staged", "landed", "committed"):
        stages.reached(stage)
    took = "staged in 0.8 s, landed in 13.0 s, committed in 0.2 s"
    assert str(stages) == took
    stages.announced_at = begun - timedelta(seconds=1.4)
    assert str(stages) == f"task begun 1.4 s after the announcement, {took}"
