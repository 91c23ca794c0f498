"""Work on several tables at once."""

from __future__ import annotations

import threading

import pytest

from airflow_provider_sfevents.spark.side_by_side import AT_ONCE, side_by_side


def test_results_come_in_the_order_of_the_items() -> None:
    """Results are in the order of the items, also if the first item ends last."""
    second_ended = threading.Event()

    def act(number: int) -> int:
        if number == 0:
            assert second_ended.wait(10)
        else:
            second_ended.set()
        return number * 10

    assert side_by_side(act, range(2)) == [0, 10]
    assert side_by_side(act, [3]) == [30]
    assert side_by_side(act, []) == []


def test_a_failure_ends_what_has_not_begun() -> None:
    """A failure, also a kill, is raised, and items beyond the number of threads are left."""
    begun: list[int] = []
    all_begun = threading.Barrier(AT_ONCE)

    class Killed(BaseException):
        pass

    def act(number: int) -> None:
        begun.append(number)
        if number < AT_ONCE:
            all_begun.wait(10)
            raise Killed

    with pytest.raises(Killed):
        side_by_side(act, range(100))
    assert sorted(begun) == [*range(AT_ONCE)]
