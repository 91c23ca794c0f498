"""A minimal ManagedSubscribe call: generated messages, without package code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpc import aio

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.integration.emulator.event_calls import EventCall, published

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator


class ManagedCall(EventCall):
    """One ManagedSubscribe stream; the first request goes out with `opened`."""

    @classmethod
    async def opened(cls, client: Any, num: int = 100, **first: Any) -> ManagedCall:
        """Begin a stream, by `developer_name=` or `subscription_id=`."""
        made = cls(client.stub.ManagedSubscribe(metadata=client.headers))
        await made.ask(num, **first)
        return made

    async def ask(self, num: int = 0, **fields: Any) -> None:
        await self.call.write(pb.ManagedFetchRequest(num_requested=num, **fields))

    async def commit(self, replay_id: bytes, request_id: str = "one") -> None:
        """Request a commit only: no id, no name, no events."""
        asked = pb.CommitReplayRequest(commit_request_id=request_id, replay_id=replay_id)
        await self.ask(0, commit_replay_id_request=asked)

    async def answer(self) -> Any:
        """Next response with a commit result."""
        while True:
            response = await self.read()
            assert response is not aio.EOF, await self.call.code()
            if response.HasField("commit_response"):
                return response


def managed_topic(bus: Emulator, events: int = 0, **config: str) -> tuple[str, list[bytes]]:
    """Publish so many events to a managed topic; return the topic and the replay ids."""
    topic, ids = published(bus, events)
    bus.define_managed_subscription("Lake", topic, **{"default_replay": "EARLIEST", **config})
    return topic, ids


async def refused(client: Any, num: int = 1, **first: Any) -> Any:
    """Failure of a stream with this first request."""
    call = await ManagedCall.opened(client, num, **first)
    return await client.refused(call.read())


async def ends(call: ManagedCall) -> str:
    """Status of a stream that is half-closed at once."""
    await call.call.done_writing()
    return str((await call.call.code()).name)
