"""Deliveries of a managed subscription for one fetch, without those that were staged before.

Three differences from a `Subscription`, which does the work.

1. Known events at the beginning of each stream are dropped, and counted.
2. A stream that is lost after new events came is not replaced: the next one would begin at the
   committed replay id, and deliver all of them again. The batch ends there instead (`cut`), and
   once it is staged its end is committed.
3. The end of a fetch closes nothing: the batch's end is committed on the stream that delivered it.
   Requested events that come at once still belong to the batch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.pubsub.managed.managed_rules import leading_known
from airflow_provider_sfevents.pubsub.rpc_errors import may_pass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.pubsub.streaming.subscription import Subscription

    Known = Callable[[], Mapping[bytes, str]]

_TEND_SECONDS = 60.0  # interval of `tend` on a quiet stream
_DRAIN_SECONDS = 5.0  # limit for requested events under way
_QUIET_SECONDS = 0.3  # after this silence nothing is under way


class ManagedDeliveries:
    """Delivery source of one fetch.

    :param known: reads the events staged before: event ids by replay id. Blocks; called when the
        first event of a stream comes.
    :param tend: awaited at least once a minute.
    :param answered: called when a stream has answered.
    :param explained: turns an error into one for users.

    `received` are new events, `dropped` known ones; `cut` is the error that ended the batch before
    a bound was reached.
    """

    def __init__(
        self,
        subscription: Subscription,
        *,
        known: Known,
        tend: Callable[[], Awaitable[None]],
        answered: Callable[[], None],
        explained: Callable[[SfEventsError], SfEventsError],
        clock: Clock,
    ) -> None:
        self._subscription = subscription
        self._read_known = known
        self._tend = tend
        self._answered = answered
        self._explained = explained
        self._clock = clock
        self._known: Mapping[bytes, str] | None = None
        self._recognises = True
        self._losses = 0
        self._dropped_at = self._came_at = clock.monotonic()
        self.received = 0
        self.dropped = 0
        self.cut: SfEventsError | None = None

    @property
    def failure(self) -> SfEventsError | None:
        failure = self._subscription.failure
        return None if failure is None else self._explained(failure)

    @property
    def losses(self) -> int:
        return self._subscription.losses

    def listening_since(self, now: float) -> float:
        """Time since when the stream is silent; known events are not silence either."""
        return max(self._subscription.listening_since(now), self._dropped_at)

    async def ask_up_to(self, wanted: int) -> None:
        await self._subscription.ask_up_to(wanted)

    async def next(
        self, timeout_seconds: float, opening_seconds: float | None = None
    ) -> Delivery | None:
        """As `Subscription.next`, without known events."""
        if self.received and not self._subscription.is_open:  # a commit has met its end
            self._is_cut(self._subscription.failure)
        if self.cut is not None:
            return None
        await self._tend()
        opening = timeout_seconds if opening_seconds is None else opening_seconds
        try:
            delivery = await self._subscription.next(min(timeout_seconds, _TEND_SECONDS), opening)
        except SfEventsError as error:
            if self._is_cut(error):
                return None
            raise self._explained(error) from error
        if delivery is None:
            if self.received and not self._subscription.is_open:
                self._is_cut(self._subscription.failure)
            return None
        self._answered()
        return await self._new_of(delivery)

    async def half_close(self) -> None:
        """Nothing to do: no more is requested; see rule 3."""

    async def rest(self) -> AsyncIterator[Delivery]:
        """Requested deliveries that are still under way; after a silence there are none."""
        until = self._clock.monotonic() + _DRAIN_SECONDS
        while self._is_owed() and self._clock.monotonic() < min(
            until, self._came_at + _QUIET_SECONDS
        ):
            delivery = await self.next(_QUIET_SECONDS)
            if delivery is not None and len(delivery):
                yield delivery

    async def close(self) -> None:
        """Nothing to do: the stream belongs to the holder of the slot."""

    def _is_owed(self) -> bool:
        return (
            self.cut is None and self._subscription.is_open and self._subscription.outstanding > 0
        )

    def _is_cut(self, error: SfEventsError | None) -> bool:
        passes = error is None or may_pass(error)
        if self.received and passes:
            self.cut = error or SfEventsError("The stream was lost.")
        return self.cut is not None

    async def _new_of(self, delivery: Delivery) -> Delivery | None:
        """The delivery without known events; None if all are known."""
        if self._losses != self.losses:  # another stream
            self._losses, self._recognises = self.losses, True
        if not len(delivery):
            return delivery
        self._came_at = self._clock.monotonic()
        fresh = delivery
        if self._recognises:
            if self._known is None:
                self._known = await asyncio.to_thread(self._read_known)
            count = leading_known(delivery.replay_ids, delivery.ids, self._known)
            self.dropped += count
            self._dropped_at = self._clock.monotonic()
            if count == len(delivery):
                return None
            self._recognises, self._known = False, None
            fresh = delivery.tail(count)
        self.received += len(fresh)
        return fresh
