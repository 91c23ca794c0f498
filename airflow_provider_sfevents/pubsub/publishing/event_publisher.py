"""Publisher: sends requests over transports that may break, and yields the results as they come.

`send_queue` decides what is sent and what an answer means; this module sends and reads. A transport
(`publish_transport`) carries requests and answers: a `PublishStream`, or `Publish` calls one after
another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    PublishInterruptedError,
    QuotaExceededError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.publishing.event_encoder import (
    check,
    checked,
    events,
    numbered,
    requests,
)
from airflow_provider_sfevents.pubsub.publishing.send_queue import (
    FIRST_WAIT_SECONDS,
    MAX_LOSSES,
    MAX_REQUESTS,
    PublishAnswer,
    SendQueue,
    is_limit,
)
from airflow_provider_sfevents.pubsub.reconnect import next_step

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping

    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import (
        EventEncoder,
        OutgoingEvent,
        PublishResult,
    )

    Take = Callable[[], Awaitable[list[OutgoingEvent] | None]]

logger = logging.getLogger(__name__)

SAME_IDS = (
    "To continue, publish these records again under the same ids, which `left` of this error has "
    "by record number: an event that is on the bus twice is recognised by its id."
)
_SPANS = 10
"""Spans of records that a message names; it counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPace:
    """Pace and timeouts of a publisher.

    :param max_requests: unanswered ones at most.
    :param answer_seconds: without any answer, while some are due, before the stream is replaced.
    :param first_wait_seconds: before a refused event is sent again; twice that before the next
        time.
    """

    max_requests: int = MAX_REQUESTS
    answer_seconds: float = 60.0
    first_wait_seconds: float = FIRST_WAIT_SECONDS


class PublishTransport(Protocol):
    """Interface that carries requests to the service, and its answers back."""

    async def send(self, events: list[OutgoingEvent]) -> None: ...

    async def answers(self, timeout_seconds: float) -> list[PublishAnswer] | None:
        """Answers that came; None if none came in time.

        :raises SfEventsError: no more will come.
        """

    async def end(self) -> None:
        """Close politely, after every answer has come."""

    async def close(self) -> None:
        """Close whatever is open."""


class TransportFactory(Protocol):
    """Interface that opens transports.

    :param outlives_loss: repeat events that the service may have taken.
    """

    outlives_loss: bool

    def took_nothing(self, why: SfEventsError) -> bool:
        """Return whether the service certainly took nothing from a transport with this error."""

    async def open(self) -> PublishTransport: ...

    async def renew(self, why: SfEventsError) -> None:
        """Get a session other than that of the last transport, which was refused."""


class EventPublisher:
    """Sends events until there are no more, and yields their results.

    `repeated` counts the events that were sent again; each of them may be on the bus more than
    once, under its one id.
    """

    def __init__(
        self, transports: TransportFactory, topic: str, clock: Clock, pace: PublishPace
    ) -> None:
        self._transports = transports
        self._topic = topic
        self._clock = clock
        self._pace = pace
        self._queue = SendQueue(
            max_requests=pace.max_requests, first_wait_seconds=pace.first_wait_seconds
        )
        self._transport: PublishTransport | None = None
        self._tries = 0
        self._renewed = False
        self._answered_at = 0.0
        self._accepted = 0

    @property
    def repeated(self) -> int:
        return self._queue.repeated

    async def run(self, take: Take) -> AsyncGenerator[list[PublishResult]]:
        """Send requests until `take` returns None, and yield results.

        :param take: returns the next request; None: there is none any more.
        :raises QuotaExceededError: after the answers to the requests under way.
        """
        more = True
        try:
            while more or not self._queue.is_done:
                if more and self._wants_more():
                    events = await take()
                    more = events is not None
                    if events:
                        self._queue.add(events)
                if results := await self._step(more=more):
                    self._accepted += sum(not result.error for result in results)
                    yield results
                if self._queue.limit and not self._queue.unanswered:
                    raise self._limit(self._queue.limit)
            if self._transport is not None:
                await self._transport.end()
        finally:
            await self._drop()

    def _wants_more(self) -> bool:
        due_at = self._queue.due_at
        is_due = due_at is not None and due_at <= self._clock.monotonic()
        return self._queue.takes_more and not is_due

    async def _step(self, *, more: bool) -> list[PublishResult]:
        """Send what is due, read answers, or wait; returns the results that are settled."""
        try:
            await self._send_due()
            answers = await self._listen(more=more)
        except SfEventsError as error:
            await self._lost(error)
            return []
        if answers is None:
            return []
        self._tries, self._renewed = 0, False
        if answers:
            steps.reached(steps.EVENTS_ANSWERED, self._topic)
            self._answered_at = self._clock.monotonic()
        return self._queue.answered(answers, self._clock.monotonic())

    async def _send_due(self) -> None:
        due_at = self._queue.due_at
        if due_at is None or due_at > self._clock.monotonic():
            return
        if not self._queue.unanswered:
            await self._leave_ended_transport()
            self._answered_at = self._clock.monotonic()
        if self._transport is None:
            self._transport = await self._transports.open()
        if events := self._queue.give(self._clock.monotonic()):
            await self._transport.send(events)
            steps.reached(steps.EVENTS_SENT, self._topic)

    async def _leave_ended_transport(self) -> None:
        """Replace a stream that the service ended because it was idle; nothing is lost with it."""
        if self._transport is None:
            return
        try:
            await self._transport.answers(0)
        except SfEventsError as error:
            logger.info(
                "The stream ended while there was nothing to publish; opening another one: %s",
                error,
            )
            await self._drop()

    async def _listen(self, *, more: bool) -> list[PublishAnswer] | None:
        now, due_at = self._clock.monotonic(), self._queue.due_at
        until_due = max(0.0, due_at - now) if due_at is not None else None
        if self._transport is None or not self._queue.unanswered:
            if not more or not self._queue.takes_more:
                await asyncio.sleep(until_due or 0)
            return None
        answer_left = self._answered_at + self._pace.answer_seconds - now
        waits = [0.0] if more and self._queue.takes_more else [answer_left]
        answers = await self._transport.answers(
            max(0.0, min([*waits, answer_left if until_due is None else until_due]))
        )
        if answers is None and answer_left <= 0:
            raise TransportError(
                f"Publishing to {self._topic}: no answer came for {self._pace.answer_seconds:.0f} "
                f"s to {counted(self._queue.unanswered, 'event')} "
                "on the way. Try again; if it stays, check endpoint, network and proxy."
            )
        return answers

    async def _lost(self, error: SfEventsError) -> None:
        """Open another transport if that helps, and repeat the events under way.

        :raises SfEventsError: the error if it does not help, with the events that may be on the
            bus.
        """
        await self._drop()
        under_way, took_nothing = self._queue.unanswered, self._transports.took_nothing(error)
        losses = self._queue.lost(took_nothing=took_nothing)
        if is_limit(str(error)):
            raise self._limit(str(error)) from error
        step = next_step(
            error, tries=self._tries, renewed=self._renewed, chance=self._clock.chance()
        )
        may_repeat = took_nothing or self._transports.outlives_loss or not under_way
        if step is None or losses >= MAX_LOSSES or not may_repeat:
            raise self._interrupted(error)
        if step.renew:
            await self._transports.renew(error)
        logger.info(
            "%s Sending again what is under way (%s) in %.1f s.",
            error,
            counted(under_way, "event"),
            step.wait_seconds,
        )
        self._renewed, self._tries = self._renewed or step.renew, self._tries + (not step.renew)
        await asyncio.sleep(step.wait_seconds)

    def _interrupted(self, error: SfEventsError) -> SfEventsError:
        if not isinstance(error, TransportError) or isinstance(error, QuotaExceededError):
            return error
        return PublishInterruptedError(
            str(error),
            error.error_code,
            error.rpc_id,
            self._queue.uncertain,
            self._queue.unsent,
        )

    async def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def _limit(self, said: str) -> QuotaExceededError:
        return QuotaExceededError(
            f"Publishing to {self._topic} ended after {counted(self._accepted, 'event')}: "
            f"{said.rstrip('.')}. The org's allowance of published events for an hour is "
            "used up: wait, publish less, or buy more.",
            error_code="LIMIT_EXCEEDED",
        )


def explain_interruption(
    error: PublishInterruptedError,
    advice: str,
    *,
    unsent: Mapping[int, str] | None = None,
    results: Sequence[PublishResult] = (),
) -> PublishInterruptedError:
    """The error for users: events that may be on the bus, those that are not, and the way on.

    :param unsent: in place of the error's own, which are those that were taken from the source.
    """
    left = error.unsent if unsent is None else dict(unsent)
    said = [error.message]
    if error.uncertain:
        said.append(
            f"May be on the bus, since the answer is lost: {record_spans(error.uncertain)}."
        )
    if left:
        said.append(f"Not on the bus: {record_spans(left)}.")
    message = " ".join([*said, advice])
    return PublishInterruptedError(
        message, error.error_code, error.rpc_id, error.uncertain, left, tuple(results)
    )


def record_spans(numbers: Iterable[int]) -> str:
    """Records by their numbers: `records 1 to 3, 7`; the first few spans of many."""
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    words = [str(one) if one == last else f"{one} to {last}" for one, last in spans]
    more = [f"and {len(words) - _SPANS} more spans"] * (len(words) > _SPANS)
    several = len(spans) > 1 or any(one != last for one, last in spans)
    return f"record{'s' * several} {', '.join([*words[:_SPANS], *more])}"


async def send_all(
    publisher: EventPublisher, outgoing: Iterator[OutgoingEvent], schema_id: str
) -> AsyncGenerator[list[PublishResult]]:
    """Make events in another thread and send them, request by request; yields results.

    An error of `outgoing`, also one of the user's source of records, is raised at the end, after
    the answers to the events made before.
    """
    failure: list[Exception] = []

    def until_failure() -> Iterator[OutgoingEvent]:
        try:
            yield from outgoing
        except Exception as error:  # noqa: BLE001 - raised once the answers are there
            failure.append(error)

    batches = requests(until_failure(), schema_id)

    async def take() -> list[OutgoingEvent] | None:
        return await asyncio.to_thread(next, batches, None)

    async with aclosing(publisher.run(take)) as answered:
        async for results in answered:
            yield results
    if failure:
        raise failure[0]


async def stream_records(
    publisher: EventPublisher, encoder: EventEncoder, records: Iterable[Mapping[str, Any]]
) -> AsyncGenerator[PublishResult]:
    """Check records, all of them first if they are a sequence, and send them; a result for each.

    All work on records is done in another thread, so that it does not hold up the event loop.
    """
    if isinstance(records, Sequence):
        await asyncio.to_thread(check, encoder, numbered(records))
    made = events(encoder, numbered(records))
    try:
        async with aclosing(send_all(publisher, made, encoder.schema_id)) as answered:
            async for results in answered:
                for result in results:
                    yield result
    except PublishInterruptedError as error:
        raise explain_interruption(
            error, f"Records after these were not taken. {SAME_IDS}"
        ) from error


async def publish_whole(
    publisher: EventPublisher, encoder: EventEncoder, records: Sequence[Mapping[str, Any]]
) -> list[PublishResult]:
    """Make events of all records, then send them; a result for each, in order."""
    made = await asyncio.to_thread(checked, encoder, numbered(records))
    found: list[PublishResult] = []
    try:
        async with aclosing(send_all(publisher, iter(made), encoder.schema_id)) as answered:
            async for results in answered:
                found += results
    except PublishInterruptedError as error:
        done = {result.number for result in found} | error.uncertain.keys()
        unsent = {event.number: event.id for event in made if event.number not in done}
        raise explain_interruption(error, SAME_IDS, unsent=unsent, results=found) from error
    return sorted(found, key=lambda result: result.number)
