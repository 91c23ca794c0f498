"""Functions that are called at the package's named steps, for one block and thread.

The proof kills other processes at their steps (`stops`); this module is for tests that land in
their own process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps

if TYPE_CHECKING:
    from collections.abc import Iterator

OnStep = Callable[[str, str], None]
"""A function of a step's name and subject; its error is raised at the step."""

_ON_STEP: ContextVar[OnStep | None] = ContextVar("on_step", default=None)


def no_step(_name: str, _about: str) -> None:
    """Do nothing at a step."""


@contextmanager
def on_steps(act: OnStep) -> Iterator[None]:
    """Call a function at each step; steps inside the call are not reported."""
    token = _ON_STEP.set(act)
    try:
        yield
    finally:
        _ON_STEP.reset(token)


def _hear(event: str, said: tuple[Any, ...]) -> None:
    if event != steps.EVENT or (act := _ON_STEP.get()) is None:
        return
    token = _ON_STEP.set(None)
    try:
        act(*said)
    finally:
        _ON_STEP.reset(token)


sys.addaudithook(_hear)  # stays until the process ends: a hook cannot be removed
