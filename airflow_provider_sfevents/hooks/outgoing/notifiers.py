"""Notifiers of users: a `BaseNotifier`, or any other callable that takes Airflow's context.

1. The context has the notice under the key `sfevents`. In a task it is the task's own context; a
   watcher has no task, so the notice is all of it.
2. An error of a notifier is logged. It fails no task and stops no watcher.
3. Each call gets a copy, because a `BaseNotifier` renders its templates in place.
"""

from __future__ import annotations

import asyncio
import logging
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

log = logging.getLogger(__name__)

KEY = "sfevents"

SECONDS = 60.0
"""Time that a watcher gives a notifier; it does not listen meanwhile."""


def notifiers_of(given: Any) -> tuple[Callable[[Any], Any], ...]:
    """Return the notifiers that an argument names: one, a list of them, or None.

    :raises ConfigurationError: one cannot be called.
    """
    found = tuple(given) if isinstance(given, list | tuple) else () if given is None else (given,)
    for one in found:
        if isinstance(one, type) or not callable(one):
            raise ConfigurationError(
                f"notifier={one!r} is no notifier. Give an instance of a `BaseNotifier`, a "
                "function that takes the context, or a list of these."
            )
    return found


def find_notifier(path: str) -> Callable[[Any], Any]:
    """Import the notifier that a dotted path names, and make one if it names a class.

    :raises ConfigurationError: there is none.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
        [notifier] = notifiers_of(found() if isinstance(found, type) else found)
    except Exception as error:
        raise ConfigurationError(
            f"notifier={path!r} names no notifier: {type(error).__name__}: {error}. Give the "
            "dotted path of a `BaseNotifier`, of a class of one that is made without arguments, or "
            "of a function that takes the context; importable where DAGs are parsed and on the "
            "triggerer."
        ) from error
    return notifier


def notify(notifiers: Iterable[Any], context: Mapping[str, Any], notice: Mapping[str, Any]) -> None:
    """Call notifiers in a task."""
    for one in notifiers:
        try:
            copy(one)({**context, KEY: dict(notice)})
        except Exception as error:  # noqa: BLE001 - a user's code; it must not fail the task
            _tell(one, error, "The task is not affected")


async def notify_from_trigger(notifier: Any, notice: Mapping[str, Any]) -> None:
    """Call a notifier in a triggerer: its `async_notify` if it has one, otherwise in a thread."""
    context: dict[str, Any] = {KEY: dict(notice)}
    one = copy(notifier)
    try:
        async with asyncio.timeout(SECONDS):
            if _is_async(one):
                one.context = context
                await one
            else:
                await asyncio.to_thread(one, context)
    except Exception as error:  # noqa: BLE001 - a user's code; it must not stop the watcher
        _tell(one, error, "The watcher is not affected")


def _is_async(one: Any) -> bool:
    return isinstance(one, BaseNotifier) and type(one).async_notify is not BaseNotifier.async_notify


def _tell(one: Any, error: Exception, consequence: str) -> None:
    name = getattr(one, "__qualname__", type(one).__qualname__)
    log.warning("Notifier %s failed: %s: %s. %s.", name, type(error).__name__, error, consequence)
