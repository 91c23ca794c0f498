"""A call that delivers events: requests in, responses out, with entries in the call log.

`credit_flow` decides on the next step.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.grpc.credit_flow import (
    Close,
    CreditFlow,
    Keepalive,
    Send,
    Step,
    Wait,
)
from airflow_provider_sfevents.emulator.grpc.open_call import OpenCall
from airflow_provider_sfevents.emulator.state.call_log import RecordedFetch
from airflow_provider_sfevents.emulator.state.client_limits import TOO_MANY_FETCHES, RateLimit
from airflow_provider_sfevents.emulator.state.publish_allocation import counts
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.replay_log import StoredEvent
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.state.call_log import RecordedSubscription
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

_SPREAD_UNIT = 100  # number of events to which the knob `spread_seconds` refers


class ServedDelivery(OpenCall, ABC):
    """Serves one stream from its first request to its end: Subscribe or ManagedSubscribe.

    :cvar rpc: name of the RPC, for ordered faults.
    :param topic: name of an existing topic.
    :param context: gRPC context, for reading requests and writing encoded responses.
    :param session: session of the client.
    :param subscription: its entry in the call log.
    """

    rpc: ClassVar[str]

    def __init__(
        self,
        *,
        topic: str,
        context: Any,
        bus: Bus,
        state: EmulatorState,
        session: OrgSession,
        subscription: RecordedSubscription,
        rpc_id: str,
    ) -> None:
        super().__init__(rpc=self.rpc, context=context, state=state, session=session)
        self._topic = topic
        self._bus = bus
        self._knobs: Knobs = bus.knobs
        self._call_log = state.call_log
        self._subscription = subscription
        self._rpc_id = rpc_id
        self._numbering = bus.numbering
        self._after = 0
        self._queue: deque[StoredEvent] = deque()
        self._paced_until = 0.0
        self._rate = RateLimit(self._knobs.fetches_per_second, TOO_MANY_FETCHES)
        seed = f"{self._knobs.seed}:{subscription.number}"
        sizes = random.Random(seed)  # noqa: S311 - seeded
        self._flow = CreditFlow(knobs=self._knobs, sizes=sizes, at=self._began)

    async def run(self, first: Any) -> str:
        """Serve the stream and return its final status.

        :raises RefusalError: the stream ends with an error.
        """
        unlisten = self._bus.listen(self._rouse, self._topic)
        reader: asyncio.Task[None] | None = None
        try:
            with self._state.running.holding(self):
                self._after = self._begin(first)
                self._call_log.began(self._subscription)
                reader = asyncio.create_task(self._read())
                return await self._serve()
        finally:
            if reader:
                reader.cancel()
            unlisten()
            self._give_back()

    def _resumed(self, position: int) -> int:
        """Start position of a stream that starts after a replay id; a fault may order a resend."""
        again = self._state.delivery.take_resend()
        return self._bus.before(self._topic, position, again) if again else position

    # --- requests ---------------------------------------------------------------------------------

    @abstractmethod
    def _begin(self, first: Any) -> int:
        """Carry out the first request and return the position after which the stream starts.

        :raises RefusalError: the stream cannot start.
        """

    @abstractmethod
    def _take(self, request: Any) -> None:
        """Carry out a later request.

        :raises RefusalError: the stream ends with an error.
        """

    async def _read(self) -> None:
        """Read requests; each takes effect one round trip later, however many are in flight."""
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

    def _receive(self, request: Any | None) -> None:
        self._wake.set()
        if request is None:
            self._flow.half_close(self._loop.time())
            return
        try:
            self._rate.take(self._loop.time())
            self._take(request)
        except RefusalError as refusal:
            self._ending = refusal

    # --- responses --------------------------------------------------------------------------------

    async def _serve(self) -> str:
        while True:
            self._wake.clear()
            self._check()
            if self._fault:
                await self._fail_if_due(self._subscription.delivered)
            if self._ending:
                return self._ended(self._ending)
            step = self._next_step()
            if isinstance(step, Close):
                return step.status
            await self._carry_out(step)

    async def _carry_out(self, step: Step) -> None:
        match step:
            case Send(events):
                await self._send(events)
            case Keepalive():
                await self._keepalive()
            case Wait(seconds):
                await self._wait(seconds)

    def _next_step(self) -> Step:
        ready = bool(self._queue) or self._bus.has_after(self._topic, self._after)
        return self._flow.next_step(self._loop.time(), ready=ready)

    def _check(self) -> None:
        """Check that the stream may continue.

        :raises RefusalError: it may not.
        """
        self._check_session()
        if self._bus.numbering != self._numbering:
            raise RefusalError("", "UNAVAILABLE", "The stream was closed: the org has moved.")

    @staticmethod
    def _ended(refusal: RefusalError) -> str:
        """Final status of a stream that ends normally.

        :raises RefusalError: the stream ends with an error.
        """
        if refusal.status != "OK":
            raise refusal
        return refusal.status

    async def _send(self, limit: int) -> None:
        events = self._fitting(self._upcoming(self._allowed(limit)))
        if self._knobs.spread_seconds:
            await self._pace(len(events))
        if not events or self._flow.closing:
            return  # since the decision, the events have expired or the client has half-closed
        for _ in events:
            self._queue.popleft()
        self._flow.responded(self._loop.time(), len(events))
        body = b"".join([event.wire for event in events])
        await self._write(body, events[-1].position, len(events))

    def _upcoming(self, limit: int) -> list[StoredEvent]:
        """Next events to send, at most `limit`.

        Ordered repetitions may produce more; the rest is queued.
        """
        if not self._queue:
            delivery = self._state.delivery
            found = self._bus.read(self._topic, self._after, delivery.reach(limit))
            self._queue.extend(delivery.with_faults(found))
            self._after = found[-1].position if found else self._after
        return list(islice(self._queue, limit))

    async def _keepalive(self) -> None:
        if self._state.delivery.keepalives_paused:
            await self._wait(self._knobs.keepalive_seconds)
            return
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
        # Counted before it is sent, so that a client that has an event finds it counted.
        self._call_log.delivered(self._subscription, events, self._state.clock.timestamp())
        await self._context.write(body + rest.SerializeToString())

    def _allowed(self, limit: int) -> int:
        """Number of events to send before a fault or the allocation stops the stream.

        :raises RefusalError: the allocation is used up.
        """
        if self._fault and self._fault.counts_events:
            limit = min(limit, self._fault.after - self._subscription.delivered)
        allocation = self._knobs.delivery_allocation
        if allocation is not None and counts(self._subscription.topic):
            used = self._call_log.delivered_in_a_day(
                self._subscription.org_id, self._state.clock.timestamp()
            )
            if used >= allocation:
                raise RefusalError("subscription.limit.exceeded")
            limit = min(limit, allocation - used)
        return limit

    def _fitting(self, events: list[StoredEvent]) -> list[StoredEvent]:
        """As many events as one response can hold, at least one."""
        size = 0
        for at, event in enumerate(events):
            size += len(event.wire)
            if size > self._knobs.max_response_bytes and at:
                return events[:at]
        return events

    async def _pace(self, events: int) -> None:
        """Wait until these events are due.

        The timetable is fixed, so that late wake-ups do not add up.
        """
        now = self._loop.time()
        self._paced_until = (
            max(now, self._paced_until) + events * self._knobs.spread_seconds / _SPREAD_UNIT
        )
        await asyncio.sleep(self._paced_until - now)


class ServedSubscribe(ServedDelivery):
    """Subscribe: the client chooses the start and keeps replay ids."""

    rpc: ClassVar[str] = "Subscribe"

    @override
    def _begin(self, first: Any) -> int:
        self._call_log.asked(self._subscription, _fetch(first), self._flow.pending)
        self._subscription.start = _start(first)
        position = self._bus.start(first.replay_preset, first.replay_id)
        self._flow.request(first.num_requested)
        return self._resumed(position) if first.replay_preset == pb.CUSTOM else position

    @override
    def _take(self, request: Any) -> None:
        self._call_log.asked(self._subscription, _fetch(request), self._flow.pending)
        if request.topic_name not in {"", self._topic}:
            raise RefusalError("subscription.fetch.topic.mismatch")
        if request.auth_refresh:
            self._refresh(request.auth_refresh)
            if not request.num_requested:
                return
        self._flow.request(request.num_requested)


def _fetch(request: Any) -> RecordedFetch:
    return RecordedFetch(
        topic=request.topic_name,
        replay_preset=_preset(request.replay_preset),
        replay_id=request.replay_id,
        num_requested=request.num_requested,
    )


def _start(request: Any) -> str:
    if request.replay_preset == pb.CUSTOM:
        return str(request.replay_id.hex())
    return _preset(request.replay_preset).lower()


def _preset(number: int) -> str:
    """Name of a preset; the number itself if a client sent an unknown one."""
    known = number in pb.ReplayPreset.values()
    return str(pb.ReplayPreset.Name(number)) if known else str(number)
