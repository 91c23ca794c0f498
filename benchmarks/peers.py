"""Peers of the client: the smallest possible client, and a typical one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.proto.pubsub_api_pb2_grpc import PubSubStub
from benchmarks.server import TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.pubsub.auth.settings import Settings

FIRST = pb2.FetchRequest(
    topic_name=TOPIC, replay_preset=pb2.ReplayPreset.EARLIEST, num_requested=100
)
MORE = pb2.FetchRequest(topic_name=TOPIC, num_requested=100)


async def read_and_throw_away(settings: Settings, events: int) -> None:
    """A bare grpc.aio reader of full responses: one request per response, nothing kept."""
    async with _stream(settings) as call:
        await call.write(FIRST)
        received = 0
        while received < events:
            received += len((await call.read()).events)
            await call.write(MORE)


async def stop_and_wait(settings: Settings, events: int) -> None:
    """Asks for the next 100 when the last of the 100 before has come, as most clients do."""
    async with _stream(settings) as call:
        await call.write(FIRST)
        received = 0
        while received < events:
            response = await call.read()
            received += len(response.events)
            if not received % 100:
                await call.write(MORE)


@asynccontextmanager
async def _stream(settings: Settings) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(settings.endpoint) as channel:
        call = PubSubStub(channel).Subscribe()  # type: ignore[no-untyped-call]
        yield call
        call.cancel()
