"""Clock and randomness of the client, in one place, so that tests can replace them."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Sources of time and chance.

    :param monotonic: seconds, for durations.
    :param now: aware UTC.
    :param chance: from 0 up to 1, for jitter.
    :param sleep: waits so many seconds before a request over the Streaming API is repeated.
    """

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
