"""A clock that runs only while this process gets processor time.

A test's emulator and client are threads of one process. On a busy machine both may stand still for
longer than a short `idle_seconds`, which by the wall clock looks like a silent bus. By this clock
it does not: a thread counts its own wake-ups, and there are none while the process does not run.
"""

from __future__ import annotations

import os
import threading
import time
from functools import cache

_STEP_SECONDS = 0.01


class _Ticker:
    def __init__(self) -> None:
        self.seconds = 0.0
        threading.Thread(target=self._tick, name="process-time", daemon=True).start()

    def _tick(self) -> None:
        while True:
            time.sleep(_STEP_SECONDS)
            self.seconds += _STEP_SECONDS


@cache
def _ticker() -> _Ticker:
    return _Ticker()


os.register_at_fork(after_in_child=_ticker.cache_clear)  # a fork does not copy threads


def process_time() -> float:
    """Seconds since the first call; `Clock(monotonic=process_time)`."""
    return _ticker().seconds
