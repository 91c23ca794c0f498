"""Transports of events to the service: a `PublishStream`, or `Publish` calls one after another."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import SfEventsError, TransportError
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.pubsub.publishing.send_queue import PublishAnswer
from airflow_provider_sfevents.pubsub.rpc_errors import NotSentError, took_nothing
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import BidiStream

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import OutgoingEvent
    from airflow_provider_sfevents.pubsub.publishing.event_publisher import (
        PublishPace,
        PublishTransport,
    )
    from airflow_provider_sfevents.pubsub.pubsub_calls import PubSubCalls

_FAREWELL_SECONDS = 2.0  # for the service to end a stream whose requests are all answered


class StreamTransports:
    """Transports over `PublishStream`."""

    outlives_loss = True

    def __init__(self, calls: PubSubCalls, topic: str, schema_id: str, pace: PublishPace) -> None:
        self._calls = calls
        self._topic = topic
        self._schema_id = schema_id
        self._pace = pace
        self._session: Session | None = None

    async def open(self) -> PublishTransport:
        self._session = await self._calls.session()
        doing = f"Publishing to {self._topic} at {self._calls.endpoint}"
        stream = BidiStream(
            self._calls.stream("PublishStream", self._session),
            doing=doing,
            secret=self._session.token,
            clock=self._calls.clock,
        )
        return _StreamTransport(stream, self._topic, self._schema_id, self._pace.answer_seconds)

    async def renew(self, why: SfEventsError) -> None:
        if self._session is not None:
            await self._calls.renew(self._session, why)

    def took_nothing(self, why: SfEventsError) -> bool:
        """Return true only if nothing was sent.

        A stream may fail after the service has carried out some requests.
        """
        return isinstance(why, NotSentError)


class _StreamTransport:
    def __init__(
        self, stream: BidiStream, topic: str, schema_id: str, answer_seconds: float
    ) -> None:
        self._stream = stream
        self._topic = topic
        self._schema_id = schema_id
        self._answer_seconds = answer_seconds

    async def send(self, events: list[OutgoingEvent]) -> None:
        message = _request(self._topic, self._schema_id, events)
        try:
            await asyncio.wait_for(self._stream.write(message), self._answer_seconds)
        except TimeoutError as error:
            raise TransportError(
                f"Publishing to {self._topic}: the service took no more for "
                f"{self._answer_seconds:.0f} s. Try again; if it stays, check endpoint, network "
                "and proxy."
            ) from error

    async def answers(self, timeout_seconds: float) -> list[PublishAnswer] | None:
        arrived = await self._stream.arrival(timeout_seconds)
        return None if arrived is None else [_answer(result) for result in arrived[2].results]

    async def end(self) -> None:
        """Half-close, so that the service sees a publisher that is done."""
        await self._stream.half_close()
        with suppress(SfEventsError):
            await self._stream.arrival(_FAREWELL_SECONDS)

    async def close(self) -> None:
        await self._stream.close()


class RequestTransports:
    """Transports over `Publish`. A request that the service may have carried out is not repeated.

    :param total: events in all, for the errors.
    """

    outlives_loss = False

    def __init__(self, calls: PubSubCalls, topic: str, schema_id: str, total: int) -> None:
        self._calls = calls
        self._topic = topic
        self._schema_id = schema_id
        self._total = total

    async def open(self) -> PublishTransport:
        return _RequestTransport(self._calls, self._topic, self._schema_id, self._total)

    async def renew(self, why: SfEventsError) -> None:
        """Raise the refusal: the RPC calls have tried a new session already.

        :raises SfEventsError: the refusal.
        """
        raise why

    def took_nothing(self, why: SfEventsError) -> bool:
        """Return whether the one request of the transport was certainly not carried out."""
        return took_nothing(why)


class _RequestTransport:
    def __init__(self, calls: PubSubCalls, topic: str, schema_id: str, total: int) -> None:
        self._calls = calls
        self._topic = topic
        self._schema_id = schema_id
        self._total = total
        self._answers: list[PublishAnswer] | None = None

    async def send(self, events: list[OutgoingEvent]) -> None:
        doing = (
            f"Publishing to {self._topic} at {self._calls.endpoint} (events {events[0].number} "
            f"to {events[-1].number} of {self._total})"
        )
        message = _request(self._topic, self._schema_id, events)
        response = await self._calls.unary("Publish", message, doing, tries=1)
        if len(response.results) != len(events):
            raise TransportError(
                f"{doing}: {counted(len(response.results), 'result')} came for "
                f"{counted(len(events), 'event')} (rpc id {response.rpc_id}).",
                rpc_id=response.rpc_id,
            )
        pairs = zip(events, response.results, strict=True)
        self._answers = [_answer(result, event.id) for event, result in pairs]

    async def answers(self, timeout_seconds: float) -> list[PublishAnswer] | None:  # noqa: ARG002
        """Answers that `send` has received already."""
        answers, self._answers = self._answers, None
        return answers

    async def end(self) -> None:
        """Nothing is left open."""

    async def close(self) -> None:
        """Nothing is left open."""


def _request(topic: str, schema_id: str, events: list[OutgoingEvent]) -> pb2.PublishRequest:
    produced = [
        pb2.ProducerEvent(id=event.id, schema_id=schema_id, payload=event.payload)
        for event in events
    ]
    return pb2.PublishRequest(topic_name=topic, events=produced)


def _answer(result: pb2.PublishResult, event_id: str = "") -> PublishAnswer:
    refused = result.HasField("error")
    return PublishAnswer(
        event_id=result.correlation_key or event_id,
        replay_id=result.replay_id,
        error=(result.error.msg or "refused without a reason") if refused else "",
    )
