"""Waits of a Streaming API session that pass at once."""

from __future__ import annotations

import asyncio


class Pauses:
    """Notes the waits, and lets none of them last."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)
