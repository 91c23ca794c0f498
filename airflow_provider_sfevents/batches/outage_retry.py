"""Retry a call until it succeeds, fails with a permanent error, or its time is up."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import SfEventsError, StoppedError
from airflow_provider_sfevents.pubsub.reconnect import pause_seconds
from airflow_provider_sfevents.pubsub.rpc_errors import is_transient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    T = TypeVar("T")

log = logging.getLogger(__name__)


async def outlast(call: Callable[[], Awaitable[T]], deadline: float, stopping: asyncio.Event) -> T:
    """Repeat a call while it fails with a transient error; it is made at least once.

    :param deadline: by the running loop's clock; no pause begins that would end after it.
    :param stopping: ends a pause when set.
    :raises SfEventsError: the call's error, if it is permanent or lasts beyond the deadline.
    :raises StoppedError: `stopping` was set.
    """
    tries = 0
    loop = asyncio.get_running_loop()
    while True:
        try:
            return await call()
        except SfEventsError as error:
            pause = pause_seconds(tries, random.random())  # noqa: S311 - spreads load
            if not is_transient(error) or loop.time() + pause > deadline:
                raise
            log.warning("%s: %s", _announced(pause, deadline - loop.time()), error)
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), pause)
        if stopping.is_set():
            raise StoppedError(
                "The task was ended while it waited for Salesforce; nothing was fetched."
            )
        tries += 1


def _announced(pause: float, left: float) -> str:
    """Return the log text for the next try and the time left for tries.

    :param pause: seconds before the next try.
    :param left: seconds until the deadline.
    """
    soon = f"in {pause:.0f} s" if pause >= 1 else "at once"
    return f"Trying again {soon}, and for {left:.0f} s at most"
