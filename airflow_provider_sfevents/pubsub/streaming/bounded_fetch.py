"""Fetch of one bounded batch from a subscription.

1. For each delivery: count it, request more (or half-close, when a bound is reached), and only then
   hand it over. So the stream does not idle while the caller stages, and the caller still sets the
   pace: while it works, a few responses are read at most.
2. An event beyond the batch's room was paid for. It is kept in memory for the next batch
   (`beyond`), up to `BEYOND_BYTES`; events that do not fit there are dropped from the end, and
   counted.
3. A service that is away is waited for until `max_seconds`. Then the batch ends with the events
   that came (`lost`); without an event the error is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.pubsub import bounds as rules
from airflow_provider_sfevents.pubsub.bounds import BatchTally, Bounds, EndedBy, StagedProgress
from airflow_provider_sfevents.pubsub.rpc_errors import may_pass
from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
from airflow_provider_sfevents.pubsub.streaming.event_time import EventTime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator
    from datetime import datetime

    from airflow_provider_sfevents.pubsub.clock import Clock

# The last event's time is optional: it must not fail a fetched batch, nor wait on a dead
# connection.
_TIME_OF_LAST_SECONDS = 1.0

BEYOND_BYTES = 16 * 2**20
"""Memory for events beyond a batch: five responses of the largest size."""

Receive = Callable[[Delivery], Awaitable[None]]
OnKeepalive = Callable[[str], Awaitable[None]]
ReplayId = bytes  # a name of its own: `bytes` is a field below
TimesOf = Callable[[str], Awaitable[EventTime]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """Result of one fetch; earlier parts of the batch are not in it.

    :param events: handed over.
    :param bytes: sum of their payloads.
    :param last_replay_id: of the last event; empty without one.
    :param latest_replay_id: of the last event or keepalive, the later of both; empty if nothing
        came.
    :param last_event_at: creation time of the last event; None without one or without a readable
        time.
    :param deliveries: events that the service delivered, which it counts against the org's
        allowance; on a shared stream, for all its members together.
    :param beyond: events that were delivered beyond the room of the bounds, in order.
    :param beyond_bound: events beyond those, for which memory had no room; they are left out.
    :param losses: streams that were lost and replaced.
    :param short_silence: `idle_seconds` ended it after a shorter silence, because it was announced.
    :param error: the error that ended the batch after its first event: a terminal one with
        `ended_by="error"`; with `lost` the service was away until `max_seconds`.
    """

    ended_by: EndedBy
    events: int
    bytes: int
    last_replay_id: ReplayId
    latest_replay_id: ReplayId
    last_event_at: datetime | None
    deliveries: int
    beyond: tuple[Delivery, ...] = ()
    beyond_bound: int = 0
    losses: int = 0
    short_silence: bool = False
    error: SfEventsError | None = None


class DeliverySource(Protocol):
    """Interface of a subscription for a fetch; a member of a shared stream has it too.

    `Subscription` documents the methods.
    """

    @property
    def failure(self) -> SfEventsError | None: ...

    @property
    def losses(self) -> int: ...

    def listening_since(self, now: float) -> float: ...

    async def ask_up_to(self, wanted: int) -> None: ...

    async def next(
        self, timeout_seconds: float, opening_seconds: float | None = None
    ) -> Delivery | None: ...

    async def half_close(self) -> None: ...

    def rest(self) -> AsyncIterator[Delivery]: ...

    async def close(self) -> None: ...


@contextmanager
def interrupted_by(stop: asyncio.Event | None) -> Generator[asyncio.Future[Any] | None]:
    """Yield the interrupt of a subscription: done when `stop` is set, gone after the block."""
    interrupt = asyncio.ensure_future(stop.wait()) if stop is not None else None
    try:
        yield interrupt
    finally:
        if interrupt is not None:
            interrupt.cancel()


class BoundedFetch:
    """Fetch of one batch; `run` is called once.

    :param times_of: from a schema id to the reader of its events' times.
    :param on_keepalive: awaited with the replay id in hex of each response without events, if
        given.
    :param stopped: says whether the caller wants the batch to end, if it may; the subscription's
        interrupt wakes the fetch to look.
    """

    def __init__(
        self,
        subscription: DeliverySource,
        bounds: Bounds,
        receive: Receive,
        *,
        on_keepalive: OnKeepalive | None = None,
        already: StagedProgress,
        stopped: Callable[[], bool] | None = None,
        times_of: TimesOf,
        clock: Clock,
    ) -> None:
        self._subscription = subscription
        self._bounds = bounds
        self._receive = receive
        self._on_keepalive = on_keepalive
        self._stopped = stopped
        self._times_of = times_of
        self._clock = clock
        now = clock.monotonic()
        self._tally = BatchTally(
            started_at=now,
            silent_since=now,
            already=already,
            until_reached=already.until_reached,
        )
        self._deliveries = 0
        self._latest_replay_id = b""
        self._beyond: list[Delivery] = []
        self._beyond_bound = 0
        self._last: Delivery | None = None
        self._error: SfEventsError | None = None
        self._short_silence = False

    async def run(self) -> FetchResult:
        """Fetch until a bound is reached.

        :raises SfEventsError: a terminal error before the first event of this fetch, or one of
            `receive`.
        """
        try:
            ended = await self._take_until_ended()
            async for delivery in self._subscription.rest():
                await self._hand_over(self._weighed(await self._counted(delivery)))
                await self._report_keepalive(delivery)
        finally:
            await self._subscription.close()
        return await self._result(self._unless_refused(ended))

    def _unless_refused(self, ended: EndedBy) -> EndedBy:
        """Raise the terminal error of a stream that was refused just after the idle time ended.

        A slow service can refuse a stream after `idle_seconds`; its silence then does not mean "no
        events".
        """
        failure = self._subscription.failure
        if ended != "idle_seconds" or failure is None or may_pass(failure):
            return ended
        return self._failed(failure)

    async def _take_until_ended(self) -> EndedBy:
        await self._ask()
        while (ended := self._ended_by()) is None:
            delivery = await self._next()
            if delivery is None:
                await self._ask()  # what came may have been left out below
            else:
                await self._take(delivery)
        if ended == "max_seconds" and (failure := self._subscription.failure) is not None:
            return self._failed(failure)  # time ran out while the service was away: an error
        self._short_silence = ended == "idle_seconds" and rules.is_short_silence(
            self._bounds, self._tally, self._clock.monotonic()
        )
        return ended

    async def _ask(self) -> None:
        await self._subscription.ask_up_to(rules.wanted(self._bounds, self._tally))

    def _ended_by(self) -> EndedBy | None:
        if self._error is not None:
            return "lost" if may_pass(self._error) else "error"
        now = self._clock.monotonic()
        self._tally.silent_since = max(
            self._tally.silent_since, self._subscription.listening_since(now)
        )
        ended = rules.ended_by(self._bounds, self._tally, now)
        return ended or ("stopped" if self._stopped is not None and self._stopped() else None)

    async def _next(self) -> Delivery | None:
        now = self._clock.monotonic()
        try:
            return await self._subscription.next(
                rules.seconds_left(self._bounds, self._tally, now),
                opening_seconds=rules.time_left(self._bounds, self._tally, now),
            )
        except SfEventsError as error:
            self._failed(error)
            return None

    async def _take(self, response: Delivery) -> None:
        delivery = await self._counted(response)
        weigh_first = self._bounds.max_bytes is not None
        if weigh_first:
            self._weighed(delivery)
        if self._ended_by() is None:
            await self._ask()
        else:
            await self._subscription.half_close()
        # If no bound depends on sizes, the events are read only now, while the service works on the
        # next request.
        await self._hand_over(delivery if weigh_first else self._weighed(delivery))
        await self._report_keepalive(response)

    async def _counted(self, delivery: Delivery) -> Delivery:
        """The delivery as far as the batch has room; the surplus is kept for the next batch.

        Behind an event that does not belong to the batch, no replay id is one to continue from, not
        even a keepalive's.
        """
        self._deliveries += len(delivery)
        bounds = self._bounds
        count, until_reached = rules.fitting(
            bounds,
            self._tally,
            len(delivery),
            sizes=delivery.payload_sizes if bounds.max_bytes is not None else (),
            times=await self._times(delivery) if bounds.until is not None else (),
        )
        fitting = delivery.head(count)
        if count < len(delivery):
            self._keep_for_next(delivery.tail(count))
        self._tally.count(count, caught_up=delivery.shows_nothing_pending)
        self._tally.until_reached = self._tally.until_reached or until_reached
        if count or not self._is_past_end:
            self._latest_replay_id = fitting.resume_after or self._latest_replay_id
        return fitting

    @property
    def _is_past_end(self) -> bool:
        """True if an event came that does not belong to the batch."""
        return bool(self._beyond or self._beyond_bound)

    def _keep_for_next(self, surplus: Delivery) -> None:
        held = sum(one.payload_bytes for one in self._beyond)
        sizes = accumulate(surplus.payload_sizes, initial=held)
        count = sum(size <= BEYOND_BYTES for size in islice(sizes, 1, None))
        if self._beyond_bound:
            count = 0  # the kept events have no gap
        if count:
            self._beyond.append(surplus.head(count))
        self._beyond_bound += len(surplus) - count

    def _weighed(self, delivery: Delivery) -> Delivery:
        self._tally.weigh(delivery.payload_bytes)
        return delivery

    async def _hand_over(self, delivery: Delivery) -> None:
        if len(delivery):
            self._last = delivery
            await self._receive(delivery)
            # Only time spent listening counts as silence, not the time that the caller stages.
            self._tally.silent_since = self._clock.monotonic()

    async def _report_keepalive(self, response: Delivery) -> None:
        if self._on_keepalive is None or len(response) or self._is_past_end:
            return
        if response.latest_replay_id:
            await self._on_keepalive(response.latest_replay_id.hex())

    async def _times(self, delivery: Delivery) -> list[datetime | None]:
        """Creation times of the events; none if a schema cannot be fetched."""
        try:
            readers = {
                schema_id: await self._times_of(schema_id) for schema_id in set(delivery.schema_ids)
            }
        except SfEventsError as error:
            # Without the schema `until` cannot be checked; delivered events are handed over anyway.
            self._error = self._error or error
            return []
        columns = zip(delivery.schema_ids, delivery.payloads, strict=True)
        return [readers[schema_id](payload) for schema_id, payload in columns]

    def _failed(self, error: SfEventsError) -> EndedBy:
        if not self._tally.events:
            raise error
        self._error = error
        return "lost" if may_pass(error) else "error"

    async def _result(self, ended: EndedBy) -> FetchResult:
        last = self._last
        return FetchResult(
            ended_by=ended,
            events=self._tally.events,
            bytes=self._tally.bytes,
            last_replay_id=last.replay_ids[-1] if last else b"",
            latest_replay_id=self._latest_replay_id,
            last_event_at=await self._time_of_last(last) if last else None,
            deliveries=self._deliveries,
            beyond=tuple(self._beyond),
            beyond_bound=self._beyond_bound,
            losses=self._subscription.losses,
            short_silence=self._short_silence,
            error=self._error,
        )

    async def _time_of_last(self, last: Delivery) -> datetime | None:
        try:
            async with asyncio.timeout(_TIME_OF_LAST_SECONDS):
                return (await self._times_of(last.schema_ids[-1]))(last.payloads[-1])
        except (SfEventsError, TimeoutError):
            return None
