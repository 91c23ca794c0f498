"""Work on several tables or files at once, by a bounded number of threads."""

from __future__ import annotations

from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from threading import Event
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_ONCE = 8
"""Tables that are worked on at once: Spark plans for one while its executors work for another."""


def side_by_side(
    act: Callable[[Item], Result], items: Iterable[Item], at_once: int = AT_ONCE
) -> list[Result]:
    """Act on each item, and return the results in the items' order.

    After a failure no further item is begun; it is raised once those under way have ended.

    :param at_once: number of threads.
    """
    wanted = list(items)
    if len(wanted) < 2:
        return [act(item) for item in wanted]
    failed = Event()

    def guarded(item: Item) -> Result:
        if failed.is_set():
            raise CancelledError
        try:
            return act(item)
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(min(at_once, len(wanted))) as pool:
        # Items are begun in their order, so the first error in it is never that of an item that was
        # not begun.
        futures = [pool.submit(copy_context().run, guarded, item) for item in wanted]
        return [future.result() for future in futures]


@contextmanager
def beside(act: Callable[[], Result]) -> Iterator[Future[Result]]:
    """Call a function in a thread while the block runs; after the block its result is there.

    An error of the block comes before one of the function; either is raised once both have ended.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(copy_context().run, act)
        yield future
    future.result()
