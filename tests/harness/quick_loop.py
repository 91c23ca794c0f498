"""An event loop whose clock jumps over every wait: hours of waiting pass in a moment."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Coroutine


class _Jumping(selectors.DefaultSelector):
    """A selector that adds each wait to the loop's clock instead of waiting."""

    passed = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.passed += timeout or 0.0
        return super().select(0 if timeout is not None else None)


class QuickLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock begins at 0 and never waits."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    @override
    def time(self) -> float:
        return self._jumping.passed


def run_quickly(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in a `QuickLoop`."""
    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        return runner.run(work)
