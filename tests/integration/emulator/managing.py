"""A bare ManagedSubscribe call: generated messages, nothing of ours."""

from __future__ import annotations

import asyncio
from typing import Any

from grpc import aio

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb


class ManagedCall:
    """One ManagedSubscribe stream; the first request goes out with `opened`."""

    def __init__(self, call: Any) -> None:
        self.call = call

    @classmethod
    async def opened(cls, client: Any, num: int = 100, **first: Any) -> ManagedCall:
        """Begin a stream; `developer_name=` or `subscription_id=` says which."""
        made = cls(client.stub.ManagedSubscribe(metadata=client.headers))
        await made.ask(num, **first)
        return made

    async def ask(self, num: int = 0, **fields: Any) -> None:
        await self.call.write(pb.ManagedFetchRequest(num_requested=num, **fields))

    async def commit(self, replay_id: bytes, request_id: str = "one") -> None:
        """Ask for a commit alone: no id, no name, no events."""
        asked = pb.CommitReplayRequest(commit_request_id=request_id, replay_id=replay_id)
        await self.ask(0, commit_replay_id_request=asked)

    async def read(self) -> Any:
        return await asyncio.wait_for(self.call.read(), 10)

    async def take(self, count: int) -> list[Any]:
        """Read until so many events came."""
        events: list[Any] = []
        while len(events) < count:
            response = await self.read()
            assert response is not aio.EOF, await self.call.code()
            events += response.events
        return events

    async def answer(self) -> Any:
        """Next response that is about a commit."""
        while True:
            response = await self.read()
            assert response is not aio.EOF, await self.call.code()
            if response.HasField("commit_response"):
                return response

    async def end(self) -> str:
        """Half-close, read to the end; the status."""
        await self.call.done_writing()
        while await self.read() is not aio.EOF:
            pass
        return str((await self.call.code()).name)


async def refused(client: Any, num: int = 1, **first: Any) -> Any:
    """How a stream that begins so is refused."""
    call = await ManagedCall.opened(client, num, **first)
    return await client.refused(call.read())


async def ends(call: ManagedCall) -> str:
    """Status of a stream that is half-closed at once."""
    await call.call.done_writing()
    return str((await call.call.code()).name)
