"""A connect that is held: waits for events, for its time, or for its client to go away. What to do is decided in `connecting`."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.allocations import counts
from airflow_provider_sfevents.emulator.cometd import answers
from airflow_provider_sfevents.emulator.cometd.connecting import (
    Answer,
    Deliver,
    Exhausted,
    Hold,
    Lost,
    Now,
    Unauthenticated,
    next_step,
)
from airflow_provider_sfevents.emulator.cometd.delivering import is_ready, take, written

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from airflow_provider_sfevents.emulator.cometd.answers import Message
    from airflow_provider_sfevents.emulator.cometd.meta import Meta
    from airflow_provider_sfevents.emulator.cometd_clients import Client
    from airflow_provider_sfevents.emulator.state import State


class Poll:
    """Serves one connect of a client.

    :param message: the connect.
    :param advice: what its answer advises; None for nothing.
    :param left: seconds it may be held.
    """

    def __init__(
        self,
        *,
        state: State,
        meta: Meta,
        client: Client,
        message: Message,
        advice: Message | None,
        left: float,
    ) -> None:
        self._state, self._meta, self._client = state, meta, client
        self._message, self._advice = message, advice
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + left
        self._wake = asyncio.Event()
        self._superseded = False
        self._gone = False

    async def run(self, departure: Coroutine[Any, Any, Any]) -> list[str]:
        """JSON of each message of the answer: events, then the answer to the connect.

        :param departure: ends when the HTTP client has gone away; its events are left for its next connect then.
        """
        unlisten = self._meta.bus.listen(self.release)
        watch = asyncio.create_task(departure)
        watch.add_done_callback(self._departed)
        try:
            while not self._gone:
                self._wake.clear()
                step = next_step(self._now())
                if isinstance(step, Hold):
                    await self._wait(step.seconds)
                elif (answer := self._answered(step)) is not None:
                    return answer
            return []
        finally:
            watch.cancel()
            unlisten()

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._wake.set)

    def supersede(self) -> None:
        self._superseded = True
        self.release()

    def _departed(self, watch: asyncio.Task[Any]) -> None:
        self._gone = not watch.cancelled()
        self._wake.set()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _now(self) -> Now:
        client, clients = self._client, self._state.cometd
        released = self._superseded or clients.closed
        moved = client.numbering != self._meta.bus.numbering
        return Now(
            lost=not released and (moved or not clients.holds(client)),
            authentic=self._state.sessions.prolong(client.token) is not None,
            exhausted=self._left_today() <= 0,
            ready=is_ready(client, self._meta.bus),
            released=released,
            left=self._until - self._loop.time(),
        )

    def _answered(
        self, step: Lost | Unauthenticated | Exhausted | Deliver | Answer
    ) -> list[str] | None:
        """Answer, or None where there is nothing to say after all."""
        match step:
            case Lost():
                self._meta.end(self._client, "CANCELLED")
                return [written(answers.unknown_client(self._message))]
            case Unauthenticated():
                said = answers.unauthenticated(self._message, answers.AUTHENTICATION_INVALID)
                return [written(said)]
            case Exhausted():
                self._meta.end(self._client, "RESOURCE_EXHAUSTED")
                return [written(answers.over_daily_limit(self._message))]
            case Deliver():
                events = self._take()
                return [*events, self._accepted()] if events else None
        return [self._accepted()]

    def _accepted(self) -> str:
        return written(answers.accepted(self._message, self._advice))

    def _take(self) -> list[str]:
        """Events of the answer; counted before it leaves: a client that has an event must find it counted."""
        most = min(self._state.knobs.cometd_batch_events, self._left_today())
        batch = take(self._client, self._meta.bus, int(most))
        for channel, events in batch.counted.items():
            page = self._client.subscriptions[channel].page
            self._state.records.delivered(page, events, self._state.clock.timestamp())
        return batch.parts

    def _left_today(self) -> float:
        """How many events the client may still be delivered; who has only channels that do not count may have any number."""
        allocation, channels = self._state.knobs.delivery_allocation, self._client.subscriptions
        if allocation is None or (channels and not any(map(counts, tuple(channels)))):
            return math.inf
        used = self._state.records.delivered_in_a_day(
            self._client.org_id, self._state.clock.timestamp()
        )
        return allocation - used
