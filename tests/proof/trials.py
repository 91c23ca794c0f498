"""Run several crash points at a time, each on its own stage."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from tests.proof.trial import Trial, go_through

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.proof.points import CrashPoint
    from tests.proof.world import Stage


class Trials:
    """Trials in threads, started at once in the given order.

    A context manager: on exit it waits for the trials that run and drops the rest.

    :param open_stage: opens the stage of this number; stages are not shared, because a trial may
        kill the emulator.
    :param at_once: number of stages.
    """

    def __init__(
        self,
        points: Sequence[CrashPoint],
        open_stage: Callable[[int], AbstractContextManager[Stage]],
        at_once: int,
    ) -> None:
        self._waiting = deque(points)
        self._outcomes: dict[CrashPoint, Future[Trial]] = {point: Future() for point in points}
        self._open_stage = open_stage
        self._threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(at_once)
        ]
        for thread in self._threads:
            thread.start()

    def of(self, point: CrashPoint) -> Trial:
        """Wait for the trial of this crash point, and return it."""
        return self._outcomes[point].result()

    def close(self) -> None:
        self._waiting.clear()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self, number: int) -> None:
        try:
            with self._open_stage(number) as stage:
                while (point := self._next()) is not None:
                    self._go_through(stage, point)
        except BaseException as error:  # noqa: BLE001 - raised by `of` for each trial left
            while (point := self._next()) is not None:
                self._outcomes[point].set_exception(error)

    def _next(self) -> CrashPoint | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _go_through(self, stage: Stage, point: CrashPoint) -> None:
        name = point.id.replace(":", "-")
        try:
            world = stage.world(name, point.store, point.job, point.transport)
            trial = go_through(point, world)
        except BaseException as error:  # noqa: BLE001 - raised by `of`
            self._outcomes[point].set_exception(error)
        else:
            self._outcomes[point].set_result(trial)
