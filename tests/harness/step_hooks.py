"""Functions that are called at the named steps of the package, for a block and by its thread only.

The proof kills other processes at their steps (`stops`); this is for tests whose own process lands.
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
"""Called with the name of a step and its subject; an error that it raises is raised at the step."""

_ON_STEP: ContextVar[OnStep | None] = ContextVar("on_step", default=None)


def no_step(_name: str, _about: str) -> None:
    """Do nothing at a step."""


@contextmanager
def on_steps(act: OnStep) -> Iterator[None]:
    """Call a function at each step; steps that are reached inside of it are not reported."""
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


sys.addaudithook(_hear)  # for the life of the process: a hook cannot be removed
