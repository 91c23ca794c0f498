"""Pub/Sub API whose answers to a PublishStream a test scripts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from tests.integration.pubsub.conftest import (
    ScriptedBus,
    fail,
    new_client,
    replay_id,
    serve,
    session_settings,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from airflow_provider_sfevents.pubsub.client import PubSubClient

    Play = Callable[["PublishCall"], AsyncIterator[pb2.PublishResponse]]


class PublishCall:
    """One PublishStream call as the server sees it."""

    def __init__(self, requests: AsyncIterator[pb2.PublishRequest], context: Any) -> None:
        self.requests: list[pb2.PublishRequest] = []
        self._coming = requests
        self._context = context

    async def next(self) -> pb2.PublishRequest | None:
        """The next request; None after the client's half-close."""
        async for request in self._coming:
            self.requests.append(request)
            return request
        return None

    async def all(self) -> AsyncIterator[pb2.PublishRequest]:
        while (request := await self.next()) is not None:
            yield request

    async def quiet(self, seconds: float = 0.1) -> None:
        """Wait for a request that a client would send only beyond its limit."""
        await asyncio.sleep(seconds)

    async def fail(self, status: str, code: str = "", details: str = "it broke") -> None:
        await fail(self._context, status, code, details)


class PublishingBus(ScriptedBus):
    """Each PublishStream call plays the next script; the last one is played again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.plays: list[Play] = []
        self.calls: list[PublishCall] = []
        self.refusing: dict[str, int] = {}

    @override
    async def Publish(self, request: pb2.PublishRequest, context: Any) -> pb2.PublishResponse:
        """Refuse events a number of times, by their ids, then accept them."""
        accepted = await super().Publish(request, context)
        refused = [event.id for event in request.events if self.refusing.get(event.id)]
        self.refusing.update((one, self.refusing[one] - 1) for one in refused)
        return answer(request, **dict.fromkeys(refused, "not now")) if refused else accepted

    @override
    async def PublishStream(
        self, requests: Any, context: Any
    ) -> AsyncIterator[pb2.PublishResponse]:
        call = PublishCall(requests, context)
        self.calls.append(call)
        await self._check_token(
            {key: str(value) for key, value in context.invocation_metadata()}, context
        )
        play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        async for response in play(call):
            yield response

    @property
    def sent(self) -> list[list[str]]:
        """Ids of the events of each request, in the order they came."""
        return [[event.id for event in one.events] for call in self.calls for one in call.requests]


def answer(request: pb2.PublishRequest, **refused: str) -> pb2.PublishResponse:
    """Accept a request's events except these, by their ids."""
    results = [
        pb2.PublishResult(
            correlation_key=event.id, error=pb2.Error(code=pb2.PUBLISH, msg=refused[event.id])
        )
        if event.id in refused
        else pb2.PublishResult(correlation_key=event.id, replay_id=replay_id(number))
        for number, event in enumerate(request.events, 1)
    ]
    return pb2.PublishResponse(results=results, schema_id="S", rpc_id="rpc-2")


async def accept(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
    """Accept every event."""
    async for request in call.all():
        yield answer(request)


@asynccontextmanager
async def scripted(*plays: Play) -> AsyncIterator[tuple[PublishingBus, PubSubClient]]:
    bus = PublishingBus()
    bus.plays = list(plays)
    async with serve(bus) as port:
        bus.endpoint = f"127.0.0.1:{port}"
        async with new_client(session_settings(bus.endpoint)) as client:
            yield bus, client
