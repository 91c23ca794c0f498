"""What carries events to the service: a `PublishStream`, or `Publish` calls one after another."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import SfEventsError, TransportError
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.pubsub.errors import NotSent, took_nothing
from airflow_provider_sfevents.pubsub.outbox import Answer

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.calls import Calls
    from airflow_provider_sfevents.pubsub.publish_stream import Line, Pace
    from airflow_provider_sfevents.pubsub.publishing import Outgoing
    from airflow_provider_sfevents.pubsub.session import Session
    from airflow_provider_sfevents.pubsub.stream import Exchange

_FAREWELL_SECONDS = 2.0  # for the service to end a stream that nothing is unanswered on


class Streams:
    """Lines over `PublishStream`."""

    outlives_loss = True

    def __init__(self, calls: Calls, topic: str, schema_id: str, pace: Pace) -> None:
        self._calls = calls
        self._topic = topic
        self._schema_id = schema_id
        self._pace = pace
        self._session: Session | None = None

    async def open(self) -> Line:
        self._session = await self._calls.session()
        doing = f"Publishing to {self._topic} at {self._calls.endpoint}"
        exchange = self._calls.exchange("PublishStream", doing, self._session)
        return _StreamLine(exchange, self._topic, self._schema_id, self._pace.answer_seconds)

    async def renew(self, why: SfEventsError) -> None:
        if self._session is not None:
            await self._calls.renew(self._session, why)

    def took_nothing(self, why: SfEventsError) -> bool:
        """A stream may fail after it has carried out some of its requests."""
        return isinstance(why, NotSent)


class _StreamLine:
    def __init__(
        self, exchange: Exchange, topic: str, schema_id: str, answer_seconds: float
    ) -> None:
        self._exchange = exchange
        self._topic = topic
        self._schema_id = schema_id
        self._answer_seconds = answer_seconds

    async def send(self, events: list[Outgoing]) -> None:
        message = _request(self._topic, self._schema_id, events)
        try:
            await asyncio.wait_for(self._exchange.write(message), self._answer_seconds)
        except TimeoutError as error:
            raise TransportError(
                f"Publishing to {self._topic}: the service took no more for {self._answer_seconds:.0f} s. Try again; if it stays, check "
                "endpoint, network and proxy."
            ) from error

    async def answers(self, timeout_seconds: float) -> list[Answer] | None:
        arrived = await self._exchange.arrival(timeout_seconds)
        return None if arrived is None else [_answer(result) for result in arrived[2].results]

    async def end(self) -> None:
        """Half-closes, so that the service sees a publisher that is done."""
        await self._exchange.half_close()
        with suppress(SfEventsError):
            await self._exchange.arrival(_FAREWELL_SECONDS)

    async def close(self) -> None:
        await self._exchange.close()


class Requests:
    """Lines over `Publish`. A request that may have been carried out is not repeated.

    :param total: events in all, for the errors.
    """

    outlives_loss = False

    def __init__(self, calls: Calls, topic: str, schema_id: str, total: int) -> None:
        self._calls = calls
        self._topic = topic
        self._schema_id = schema_id
        self._total = total

    async def open(self) -> Line:
        return _RequestLine(self._calls, self._topic, self._schema_id, self._total)

    async def renew(self, why: SfEventsError) -> None:
        """:raises SfEventsError: the refusal, which stands: the calls have tried a new session."""
        raise why

    def took_nothing(self, why: SfEventsError) -> bool:
        """A call is one request."""
        return took_nothing(why)


class _RequestLine:
    def __init__(self, calls: Calls, topic: str, schema_id: str, total: int) -> None:
        self._calls = calls
        self._topic = topic
        self._schema_id = schema_id
        self._total = total
        self._answers: list[Answer] | None = None

    async def send(self, events: list[Outgoing]) -> None:
        doing = (
            f"Publishing to {self._topic} at {self._calls.endpoint} (events {events[0].number} to {events[-1].number} of "
            f"{self._total})"
        )
        message = _request(self._topic, self._schema_id, events)
        response = await self._calls.unary("Publish", message, doing, tries=1)
        if len(response.results) != len(events):
            raise TransportError(
                f"{doing}: {counted(len(response.results), 'result')} came for {counted(len(events), 'event')} (rpc id {response.rpc_id}).",
                rpc_id=response.rpc_id,
            )
        pairs = zip(events, response.results, strict=True)
        self._answers = [_answer(result, event.id) for event, result in pairs]

    async def answers(self, timeout_seconds: float) -> list[Answer] | None:  # noqa: ARG002 - there is nothing to wait for
        answers, self._answers = self._answers, None
        return answers

    async def end(self) -> None:
        """Nothing is left open."""

    async def close(self) -> None:
        """Nothing is left open."""


def _request(topic: str, schema_id: str, events: list[Outgoing]) -> pb2.PublishRequest:
    produced = [
        pb2.ProducerEvent(id=event.id, schema_id=schema_id, payload=event.payload)
        for event in events
    ]
    return pb2.PublishRequest(topic_name=topic, events=produced)


def _answer(result: pb2.PublishResult, event_id: str = "") -> Answer:
    refused = result.HasField("error")
    return Answer(
        event_id=result.correlation_key or event_id,
        replay_id=result.replay_id,
        error=(result.error.msg or "refused without a reason") if refused else "",
    )
