"""Triggers that do the least a trigger can: what ours are measured above."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent
from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Sleep(BaseTrigger):  # type: ignore[misc]  # Airflow's classes are not read
    """A trigger that only sleeps, by `asyncio.sleep`.

    :param number: makes one trigger differ from another.
    :param conn_id: connection to look up first, as a trigger with a network connection does.
    """

    def __init__(self, number: int, conn_id: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number
        self.conn_id = conn_id

    @override
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {
            "number": self.number,
            "conn_id": self.conn_id,
        }

    @override
    async def run(self) -> AsyncGenerator[TriggerEvent]:
        if self.conn_id:
            await BaseHook.aget_connection(self.conn_id)
        await asyncio.sleep(24 * 3600)
        yield TriggerEvent("slept")


class Told(BaseEventTrigger):  # type: ignore[misc]
    """A trigger that fires at each connection to its socket.

    :param socket: path of the socket.
    """

    def __init__(self, socket: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.socket = socket

    @override
    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {"socket": self.socket}

    @override
    async def run(self) -> AsyncGenerator[TriggerEvent]:
        told: asyncio.Queue[int] = asyncio.Queue()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()
            told.put_nowait(1)

        async with await asyncio.start_unix_server(connected, self.socket):
            while True:
                await told.get()
                yield TriggerEvent({"told": True})
