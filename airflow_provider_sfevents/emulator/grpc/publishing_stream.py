"""One PublishStream call: answers requests, sends keepalives, and is swept when idle.

Rules (PublishStream RPC page, Handle Errors page, Salesforce's Node client): a response without
results keeps a silent stream alive, and a stream is swept on which no request with an event came
for too long.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.grpc.credit_flow import Keepalive, Wait
from airflow_provider_sfevents.emulator.grpc.open_call import OpenCall
from airflow_provider_sfevents.emulator.state.client_limits import TOO_MANY_FETCHES, RateLimit
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.grpc.incoming_calls import AuthenticatedCall, Context
    from airflow_provider_sfevents.emulator.grpc.publisher import RequestPublisher
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState

_AHEAD = 16  # requests read ahead of their answers; a faster client has to wait


@dataclass(frozen=True, slots=True)
class Ends:
    """Sweep the stream."""


class PublishFlow:
    """Timers of one PublishStream. Times are seconds of a monotonic clock.

    :param at: start of the stream.
    """

    def __init__(self, *, knobs: Knobs, at: float) -> None:
        self._knobs = knobs
        self._requested_at = at
        self._responded_at = at

    def requested(self, at: float) -> None:
        """Record a request with events."""
        self._requested_at = at

    def responded(self, at: float) -> None:
        self._responded_at = at

    def next_step(self, at: float) -> Keepalive | Wait | Ends:
        """Decide on the next step."""
        swept = self._requested_at + self._knobs.publish_idle_seconds - at
        silent = self._responded_at + self._knobs.publish_keepalive_seconds - at
        if swept <= 0:
            return Ends()
        return Keepalive() if silent <= 0 else Wait(min(swept, silent))


class ServedPublishStream(OpenCall):
    """Serves one stream from its first request to its end."""

    def __init__(
        self,
        *,
        context: Context,
        state: EmulatorState,
        caller: AuthenticatedCall,
        publisher: RequestPublisher,
    ) -> None:
        super().__init__(rpc="PublishStream", context=context, state=state, session=caller.session)
        self._caller = caller
        self._publisher = publisher
        self._flow = PublishFlow(knobs=state.knobs, at=self._began)
        self._rate = RateLimit(state.knobs.fetches_per_second, TOO_MANY_FETCHES)
        self._requests: asyncio.Queue[Any] = asyncio.Queue(_AHEAD)
        self._published = 0

    async def run(self, first: Any) -> None:
        """Serve the stream until the client half-closes.

        :raises RefusalError: the stream ends with an error.
        """
        try:
            self._publisher.check(first)
            if first.auth_refresh:
                raise RefusalError("publish.auth.refresh.invalid")
            topic = self._publisher.topic(first.topic_name, self._caller)
            self._requests.put_nowait(first)
            reader = asyncio.create_task(self._read())
            try:
                await self._serve(topic)
            finally:
                reader.cancel()
        finally:
            self._give_back()

    async def _read(self) -> None:
        from grpc.aio import EOF

        while True:
            message = await self._context.read()
            await self._requests.put(None if message is EOF else message)
            self._wake.set()
            if message is EOF:
                return

    async def _serve(self, topic: BusTopic) -> None:
        while True:
            self._wake.clear()
            await self._look()
            if self._ending:
                break
            if self._requests.empty():
                await self._idle(topic)
                continue
            request = self._requests.get_nowait()
            if request is None:
                return
            await self._take(request, topic)
        if self._ending.status != "OK":
            raise self._ending

    async def _idle(self, topic: BusTopic) -> None:
        """Carry out the next step while no request is pending.

        :raises RefusalError: the stream has been idle for too long.
        """
        match self._flow.next_step(self._loop.time()):
            case Keepalive():
                await self._respond(self._empty(topic))
            case Wait(seconds):
                await self._wait(seconds)
            case Ends():
                raise RefusalError("publish.stream.sweeper.timeout")

    async def _look(self) -> None:
        """Apply a fault that is due.

        :raises RefusalError: the token is invalid, and an invalid token ends streams.
        """
        self._check_session()
        if self._fault and not self._fault.late:
            await self._fail_if_due(self._published)

    async def _take(self, request: Any, topic: BusTopic) -> None:
        """Publish the events of a request and answer it.

        :raises RefusalError: the request ends the stream.
        """
        if self._state.knobs.round_trip_seconds:
            await asyncio.sleep(self._state.knobs.round_trip_seconds)
        self._rate.take(self._loop.time())
        self._publisher.check(request)
        if request.topic_name not in {"", topic.name}:
            raise RefusalError("publish.topic.mismatch")
        if request.auth_refresh:
            self._refresh(request.auth_refresh)
            if not request.events:
                return
        current = self._publisher.topic(topic.name, self._caller)  # its schema may have changed
        response = self._publisher.answer(request, current, self._caller)
        self._flow.requested(self._loop.time())
        await self._fail_if_due(self._published)
        self._published += len(request.events)
        if not self._ending:
            await self._respond(response)

    async def _respond(self, response: pb.PublishResponse) -> None:
        self._flow.responded(self._loop.time())
        await self._context.write(response)

    def _empty(self, topic: BusTopic) -> pb.PublishResponse:
        """Keepalive: a response without results."""
        return pb.PublishResponse(schema_id=topic.schema_id, rpc_id=self._caller.rpc_id)
