"""A held connect: it waits for events, its timeout or its client's departure.

`connect_rules` decides what to answer.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.cometd import replies
from airflow_provider_sfevents.emulator.cometd.connect_delivery import is_ready, take, written
from airflow_provider_sfevents.emulator.cometd.connect_rules import (
    AnswerEmpty,
    ConnectState,
    Deliver,
    Exhausted,
    Hold,
    Lost,
    Unauthenticated,
    next_step,
)
from airflow_provider_sfevents.emulator.state.publish_allocation import counts

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from airflow_provider_sfevents.emulator.cometd.meta_channels import MetaChannels
    from airflow_provider_sfevents.emulator.cometd.replies import Message
    from airflow_provider_sfevents.emulator.state.cometd_clients import CometdClient
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState


class LongPoll:
    """Serves one connect of a client.

    :param message: the connect message.
    :param advice: advice of its answer, if any.
    :param left: seconds that it may be held.
    """

    def __init__(
        self,
        *,
        state: EmulatorState,
        meta: MetaChannels,
        client: CometdClient,
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
        """Return the JSON of each message of the answer: events, then the answer to the connect.

        :param departure: ends when the HTTP client has gone; events then stay for its next connect.
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

    def _now(self) -> ConnectState:
        client, clients = self._client, self._state.cometd
        released = self._superseded or clients.closed
        moved = client.numbering != self._meta.bus.numbering
        return ConnectState(
            lost=not released and (moved or not clients.holds(client)),
            authentic=self._state.sessions.prolong(client.token) is not None,
            exhausted=self._left_today() <= 0,
            ready=is_ready(client, self._meta.bus),
            released=released,
            left=self._until - self._loop.time(),
        )

    def _answered(
        self, step: Lost | Unauthenticated | Exhausted | Deliver | AnswerEmpty
    ) -> list[str] | None:
        """Messages of the answer; None if there is nothing to send after all."""
        match step:
            case Lost():
                self._meta.end(self._client, "CANCELLED")
                return [written(replies.unknown_client(self._message))]
            case Unauthenticated():
                reply = replies.unauthenticated(self._message, replies.AUTHENTICATION_INVALID)
                return [written(reply)]
            case Exhausted():
                self._meta.end(self._client, "RESOURCE_EXHAUSTED")
                return [written(replies.over_daily_limit(self._message))]
            case Deliver():
                events = self._take()
                return [*events, self._accepted()] if events else None
        return [self._accepted()]

    def _accepted(self) -> str:
        has_left = self._superseded and not self._state.cometd.holds(self._client)
        advice = replies.LAST_ADVICE if has_left else self._advice
        return written(replies.accepted(self._message, advice))

    def _take(self) -> list[str]:
        """Events of the answer.

        They are counted before they are sent, so a client that has an event finds it counted.
        """
        most = min(self._state.knobs.cometd_batch_events, self._left_today())
        batch = take(self._client, self._meta.bus, int(most), self._state.delivery)
        for channel, events in batch.counted.items():
            entry = self._client.subscriptions[channel].entry
            self._state.call_log.delivered(entry, events, self._state.clock.timestamp())
        return batch.parts

    def _left_today(self) -> float:
        """Number of events that may still be delivered to the client today.

        Unlimited if all its channels are exempt from the allocation.
        """
        allocation, channels = self._state.knobs.delivery_allocation, self._client.subscriptions
        if allocation is None or (channels and not any(map(counts, tuple(channels)))):
            return math.inf
        used = self._state.call_log.delivered_in_a_day(
            self._client.org_id, self._state.clock.timestamp()
        )
        return allocation - used
