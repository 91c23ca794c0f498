"""Work on several tables at once."""

from __future__ import annotations

import threading

import pytest

from airflow_provider_sfevents.spark.side_by_side import AT_ONCE, beside, side_by_side


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


def test_a_function_beside_a_block_has_ended_after_it() -> None:
    """A function runs while the block does, and its result or error is there after the block."""
    in_block = threading.Event()

    def act() -> int:
        assert in_block.wait(10)
        return 3

    with beside(act) as waited:
        in_block.set()
    assert waited.result() == 3

    def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError), beside(fail):
        pass


def test_an_error_of_the_block_comes_first() -> None:
    """An error of the block is raised, once the function has ended."""
    ended: list[bool] = []
    raised = threading.Event()

    def act() -> None:
        assert raised.wait(10)
        ended.append(True)
        raise LookupError

    def block() -> None:
        with beside(act):
            raised.set()
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        block()
    assert ended == [True]
