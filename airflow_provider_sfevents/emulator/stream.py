"""One Subscribe call: reads requests, sends responses, keeps the book. What to do next is decided in `flow`."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import Refusal
from airflow_provider_sfevents.emulator.flow import Close, Flow, Keepalive, Send, Wait
from airflow_provider_sfevents.emulator.records import Fetch, Records, Subscription
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator.bus import Bus
    from airflow_provider_sfevents.emulator.clock import Clock
    from airflow_provider_sfevents.emulator.faults import Fault
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.replay_log import StoredEvent

_SPREAD_UNIT = 100  # events the knob `spread_seconds` is about


class SubscribeStream:
    """Serves one stream from its first request to its end.

    :param topic: name of the topic; already known to exist.
    :param context: the call, for reading requests and writing encoded responses.
    :param alive: whether the stream's session lets it go on.
    :param fault: a failure to come on this stream.
    """

    def __init__(
        self,
        *,
        topic: str,
        context: Any,
        bus: Bus,
        clock: Clock,
        records: Records,
        subscription: Subscription,
        rpc_id: str,
        alive: Callable[[], bool],
        fault: Fault | None,
    ) -> None:
        self._topic = topic
        self._context = context
        self._bus = bus
        self._knobs: Knobs = bus.knobs
        self._clock = clock
        self._records = records
        self._subscription = subscription
        self._rpc_id = rpc_id
        self._alive = alive
        self._fault = fault
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._refusal: Refusal | None = None
        self._after = 0
        self._paced_until = 0.0
        sizes = random.Random(f"{self._knobs.seed}:{subscription.number}")  # noqa: S311 - repeatable, guards nothing
        self._flow = Flow(knobs=self._knobs, sizes=sizes, at=self._loop.time())

    async def run(self, first: pb.FetchRequest) -> str:
        """Serve the stream; the status it is to end with.

        :raises Refusal: when it ends with an error.
        """
        self._records.asked(self._subscription, _fetch(first), self._flow.pending)
        self._subscription.start = _start(first)
        self._after = self._bus.start(first.replay_preset, first.replay_id)
        self._flow.request(first.num_requested)
        unlisten = self._bus.listen(self._rouse)
        reader = asyncio.create_task(self._read())
        try:
            return await self._serve()
        finally:
            reader.cancel()
            unlisten()

    def _rouse(self) -> None:
        """Look again; called from any thread."""
        self._loop.call_soon_threadsafe(self._wake.set)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Take in requests; each counts one round trip after it came, however many are under way."""
        from grpc.aio import EOF

        while True:
            message = await self._context.read()
            ended = message is EOF
            if self._knobs.round_trip_seconds:
                self._loop.call_later(
                    self._knobs.round_trip_seconds, self._receive, None if ended else message
                )
            else:
                self._receive(None if ended else message)
            if ended:
                return

    def _receive(self, request: pb.FetchRequest | None) -> None:
        self._wake.set()
        if request is None:
            self._flow.half_close(self._loop.time())
            return
        self._records.asked(self._subscription, _fetch(request), self._flow.pending)
        try:
            if request.topic_name not in {"", self._topic}:
                self._refusal = Refusal("subscription.fetch.topic.mismatch")
            else:
                self._flow.request(request.num_requested)
        except Refusal as refusal:
            self._refusal = refusal

    # --- responses ---------------------------------------------------------------------------------------------------

    async def _serve(self) -> str:
        while True:
            self._wake.clear()
            self._check()
            ready = self._bus.has_after(self._topic, self._after)
            match self._flow.next_step(self._loop.time(), ready=ready):
                case Send(events):
                    await self._send(events)
                case Keepalive():
                    await self._keepalive()
                case Wait(seconds):
                    await self._wait(seconds)
                case Close(status):
                    return status

    def _check(self) -> None:
        if self._refusal:
            raise self._refusal
        if not self._alive():
            raise Refusal("service.auth.error")
        if self._fault and self._subscription.delivered >= self._fault.after:
            raise self._fault.refusal

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _send(self, limit: int) -> None:
        events = self._fitting(self._bus.read(self._topic, self._after, self._allowed(limit)))
        if self._knobs.spread_seconds:
            await self._pace(len(events))
        if not events or self._flow.closing:
            return  # the events have aged out, or the client has half-closed, since this was decided
        last = events[-1].position
        self._after = last
        self._flow.responded(self._loop.time(), len(events))
        body = b"".join([event.wire for event in events])
        await self._write(body, last, len(events))

    async def _keepalive(self) -> None:
        position = self._bus.keepalive_position(self._topic, self._after)
        if position is None:
            return
        self._flow.responded(self._loop.time())
        await self._write(b"", position, 0)

    async def _write(self, body: bytes, position: int, events: int) -> None:
        rest = pb.FetchResponse(
            latest_replay_id=self._bus.replay_id(position),
            rpc_id=self._rpc_id,
            pending_num_requested=self._flow.pending,
        )
        # Counted before it leaves: a client that has an event must find it counted.
        self._records.delivered(self._subscription, events, self._clock.timestamp())
        await self._context.write(body + rest.SerializeToString())

    def _allowed(self, limit: int) -> int:
        """How many of these events may go out before a fault or the allocation stops the stream.

        :raises Refusal: when none may.
        """
        if self._fault:
            limit = min(limit, self._fault.after - self._subscription.delivered)
        allocation = self._knobs.delivery_allocation
        if allocation is not None:
            used = self._records.delivered_in_a_day(
                self._subscription.org_id, self._clock.timestamp()
            )
            if used >= allocation:
                raise Refusal("subscription.limit.exceeded")
            limit = min(limit, allocation - used)
        return limit

    def _fitting(self, events: list[StoredEvent]) -> list[StoredEvent]:
        """As many as one response holds, at least one."""
        size = 0
        for at, event in enumerate(events):
            size += len(event.wire)
            if size > self._knobs.max_response_bytes and at:
                return events[:at]
        return events

    async def _pace(self, events: int) -> None:
        """Wait until these events would have come; on a fixed timetable, so that late wake-ups do not add up."""
        now = self._loop.time()
        self._paced_until = (
            max(now, self._paced_until) + events * self._knobs.spread_seconds / _SPREAD_UNIT
        )
        await asyncio.sleep(self._paced_until - now)


def _fetch(request: pb.FetchRequest) -> Fetch:
    return Fetch(
        topic=request.topic_name,
        replay_preset=pb.ReplayPreset.Name(request.replay_preset),
        replay_id=request.replay_id,
        num_requested=request.num_requested,
    )


def _start(request: pb.FetchRequest) -> str:
    if request.replay_preset == pb.CUSTOM:
        return request.replay_id.hex()
    return pb.ReplayPreset.Name(request.replay_preset).lower()
