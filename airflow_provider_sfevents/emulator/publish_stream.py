"""One PublishStream call: answers each request, keeps the stream alive, sweeps it when nothing comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.errors import Refusal
from airflow_provider_sfevents.emulator.flow import Keepalive, Wait
from airflow_provider_sfevents.emulator.open_call import OpenCall
from airflow_provider_sfevents.emulator.protection import TOO_MANY_FETCHES, RateLimit
from airflow_provider_sfevents.emulator.publish_flow import Ends, PublishFlow
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus import Topic
    from airflow_provider_sfevents.emulator.calling import Authentic, Context
    from airflow_provider_sfevents.emulator.publishing import Publisher
    from airflow_provider_sfevents.emulator.state import State

_AHEAD = 16  # requests taken in before they are answered; a client that sends faster has to wait


class PublishStream(OpenCall):
    """Serves one stream from its first request to its end."""

    def __init__(
        self, *, context: Context, state: State, caller: Authentic, publisher: Publisher
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

        :raises Refusal: when it ends with an error.
        """
        try:
            self._publisher.check(first)
            if first.auth_refresh:
                raise Refusal("publish.auth.refresh.invalid")
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

    async def _serve(self, topic: Topic) -> None:
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

    async def _idle(self, topic: Topic) -> None:
        """Do what is to be done while no request is there.

        :raises Refusal: when none has come for too long.
        """
        match self._flow.next_step(self._loop.time()):
            case Keepalive():
                await self._respond(self._empty(topic))
            case Wait(seconds):
                await self._wait(seconds)
            case Ends():
                raise Refusal("publish.stream.sweeper.timeout")

    async def _look(self) -> None:
        """Carry out a fault that is due.

        :raises Refusal: when the token is no longer good, and that ends streams.
        """
        self._check_session()
        if self._fault and not self._fault.late:
            await self._fail_if_due(self._published)

    async def _take(self, request: Any, topic: Topic) -> None:
        """Publish what a request asks for, and say so.

        :raises Refusal: when it ends the stream.
        """
        if self._state.knobs.round_trip_seconds:
            await asyncio.sleep(self._state.knobs.round_trip_seconds)
        self._rate.take(self._loop.time())
        self._publisher.check(request)
        if request.topic_name not in {"", topic.name}:
            raise Refusal("publish.topic.mismatch")
        if request.auth_refresh:
            self._refresh(request.auth_refresh)
            if not request.events:
                return
        current = self._publisher.topic(topic.name, self._caller)  # it may have another schema now
        response = self._publisher.answer(request, current, self._caller)
        self._flow.requested(self._loop.time())
        await self._fail_if_due(self._published)
        self._published += len(request.events)
        if not self._ending:
            await self._respond(response)

    async def _respond(self, response: pb.PublishResponse) -> None:
        self._flow.responded(self._loop.time())
        await self._context.write(response)

    def _empty(self, topic: Topic) -> pb.PublishResponse:
        """Response that keeps the stream alive: without results."""
        return pb.PublishResponse(schema_id=topic.schema_id, rpc_id=self._caller.rpc_id)
