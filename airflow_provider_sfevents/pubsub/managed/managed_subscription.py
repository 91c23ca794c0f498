"""Managed subscription in use: its slot, its streams, and its commits. `managed_rules` decides."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.pubsub.bounds import Bounds, StagedProgress
from airflow_provider_sfevents.pubsub.credit import MAX_CREDIT
from airflow_provider_sfevents.pubsub.managed import managed_rules as rules
from airflow_provider_sfevents.pubsub.managed.managed_config import PROCESS_CONFIGS
from airflow_provider_sfevents.pubsub.managed.managed_deliveries import ManagedDeliveries
from airflow_provider_sfevents.pubsub.managed.managed_subscribe_call import (
    NOT_SENT,
    ManagedStreamSource,
)
from airflow_provider_sfevents.pubsub.reconnect import MAX_TRIES
from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import (
    BoundedFetch,
    FetchResult,
    OnKeepalive,
    Receive,
    interrupted_by,
)
from airflow_provider_sfevents.pubsub.streaming.subscription import Subscription
from airflow_provider_sfevents.replay_point import replay_id_hex

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from types import TracebackType

    from airflow_provider_sfevents.pubsub.managed.managed_deliveries import Known
    from airflow_provider_sfevents.pubsub.pubsub_calls import PubSubCalls
    from airflow_provider_sfevents.pubsub.reconnect import Retry
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import TimesOf
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.pubsub.streaming.stream_source import LookUpTopic

log = logging.getLogger(__name__)

_LISTEN_SECONDS = 3600.0


def nothing_known() -> Mapping[bytes, str]:
    return {}


class ManagedSubscription:
    """Use as `async with`.

    The first call that needs the slot takes it, and a half-close at the end frees it.

    :param reference: id or developer name of the subscription.
    :param look_up: requests the topic.
    :param before_fetch: awaited with the topic before a fetch; an error that it raises ends the
        fetch.

    `dropped` counts known events that were delivered again; `late` counts events that came after
    the end of a batch and will be delivered again.
    """

    def __init__(
        self,
        calls: PubSubCalls,
        reference: str,
        topic: str,
        look_up: LookUpTopic,
        times_of: TimesOf,
        before_fetch: LookUpTopic | None = None,
    ) -> None:
        self._reference = rules.check_reference(reference)
        self._times_of = times_of
        self._before_fetch = before_fetch
        self._calls = calls
        self._topic = topic
        self._clock = calls.clock
        self._timeouts = calls.timeouts
        self._streams = ManagedStreamSource(calls, topic, look_up, self._reference)
        self._subscription: Subscription | None = None
        self._kept_replay_id = ""
        self._refused_since: float | None = None
        self._max_tries: int | None = MAX_TRIES
        self.dropped = 0
        self.late = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def config(
        self, *, allow_latest_recovery: bool, max_age_seconds: float = 0.0
    ) -> rules.SubscriptionConfig | None:
        """Configuration in the org's setup; None if it cannot be read, and that is accepted.

        :param max_age_seconds: of a cached answer that is good enough; 0: read it from the org, by
            one API request.
        :raises ConfigurationError: it does not fit this topic, or may lose events silently.
        """
        return await PROCESS_CONFIGS.checked(
            self._calls,
            self._reference,
            self._topic,
            allow_latest_recovery=allow_latest_recovery,
            max_age_seconds=max_age_seconds,
        )

    async def fetch(
        self,
        bounds: Bounds,
        receive: Receive,
        *,
        known: Known = nothing_known,
        kept_replay_id: str = "",
        already: StagedProgress = StagedProgress(),  # noqa: B008 - a frozen value
        on_keepalive: OnKeepalive | None = None,
        stop: asyncio.Event | None = None,
        outlast: bool = False,
    ) -> FetchResult:
        """Fetch one batch, as `PubSubClient.fetch`: the events after the last commit.

        The stream stays open for the commit. A stream lost after the first new event ends the batch
        (`ended_by="lost"`); `deliveries` counts dropped events, too.

        :param known: reads the events staged before, event ids by replay id; blocks. Such events
            are dropped if a stream begins with them.
        :param kept_replay_id: replay id, hex, that may be committed again so that the stream is not
            closed; empty: none yet.
        :param on_keepalive: awaited with the replay id of each keepalive that has been committed.
        """
        if self._before_fetch is not None:
            await self._before_fetch(self._topic)
        self._kept_replay_id = kept_replay_id or self._kept_replay_id
        self._max_tries = None if outlast else MAX_TRIES
        committed_ids: list[str] = []

        async def keepalive(replay_id: str) -> None:
            if not rules.may_commit_keepalive(received=reading.received, kept=already.events):
                return
            if why := await self._commit_here(replay_id):
                log.info("The replay id of a keepalive was not committed: %s.", why)
                return
            committed_ids.append(replay_id)
            if on_keepalive is not None:
                await on_keepalive(replay_id)

        with interrupted_by(stop) as interrupt:
            subscription = self._subscription = self._opened(interrupt)
            reading = self._reading(subscription, known)
            batch = BoundedFetch(
                reading,
                bounds,
                receive,
                on_keepalive=keepalive,
                already=already,
                stopped=lambda: reading.cut is not None or (stop is not None and stop.is_set()),
                times_of=self._times_of,
                clock=self._clock,
            )
            try:
                result = await batch.run()
            finally:
                self.dropped += reading.dropped
        return self._result(result, reading, committed_ids)

    def _result(
        self, result: FetchResult, reading: ManagedDeliveries, committed_ids: list[str]
    ) -> FetchResult:
        """The result with dropped events counted, and with committed replay ids only."""
        # Nothing beyond the batch is committed, so Salesforce delivers these again in any case.
        self.late += sum(map(len, result.beyond))
        is_cut = result.ended_by == "stopped" and reading.cut is not None
        if is_cut:
            log.info("The stream was lost; the batch ends with its last event: %s", reading.cut)
        committed = bytes.fromhex(committed_ids[-1]) if committed_ids else b""
        return replace(
            result,
            beyond=(),
            ended_by="lost" if is_cut else result.ended_by,
            latest_replay_id=result.last_replay_id or committed,
            deliveries=result.deliveries + reading.dropped,
        )

    async def commit(self, replay_id: bytes | str, stop: asyncio.Event | None = None) -> str:
        """Commit a replay id; returns the reason if the service does not keep it, otherwise empty.

        On the open stream; if that has ended, on one that requests no events. A refusal by the
        service is no exception, because the caller has staged its events already.

        :param replay_id: bytes, as deliveries have it, or hex.
        :param stop: ends the wait for another stream when set; another client may have the slot for
            a minute.
        :raises ConfigurationError: it is no replay id; the service is not asked.
        """
        text = replay_id_hex(replay_id)
        try:
            why = await self._commit_here(text)
            if not why or self._is_open():
                return why
            await self.close()
            self._max_tries = MAX_TRIES
            return await self._commit_anew(text, stop or asyncio.Event())
        except SfEventsError as error:
            return str(error)

    async def deliveries(self, credit: int = MAX_CREDIT) -> AsyncGenerator[Delivery]:
        """Deliveries without end, keepalives among them.

        After a loss, uncommitted ones are delivered again.

        :param credit: events that may be outstanding at once.
        """
        subscription = self._opened(None)
        await subscription.ask_up_to(credit)
        while True:
            self._subscription = subscription
            await self._tend()
            try:
                delivery = await subscription.next(60.0, _LISTEN_SECONDS)
            except SfEventsError as error:
                raise self._explained(error) from error
            if delivery is not None:
                self._refused_since = None
                await subscription.ask_up_to(credit)
                yield delivery

    async def first(self) -> bytes:
        """Replay id of the first event that a stream delivers.

        Requests one event, and waits without limit.
        """
        subscription = self._subscription = self._opened(None)
        await subscription.ask_up_to(1)
        while True:
            delivery = await subscription.next(_LISTEN_SECONDS, _LISTEN_SECONDS)
            if delivery is not None and len(delivery):
                self.dropped += len(delivery)
                return delivery.replay_ids[-1]

    async def close(self) -> None:
        """Half-close, and wait for the end, so that the slot is soon free again."""
        subscription, self._subscription = self._subscription, None
        if subscription is None:
            return
        rest = subscription.rest() if subscription.is_open else None
        try:
            if rest is not None:
                async with aclosing(rest) as deliveries:  # type: ignore[type-var]
                    async for delivery in deliveries:
                        self.late += len(delivery)
        finally:
            self._streams.current = None
            await subscription.close()

    def _opened(self, interrupt: asyncio.Future[Any] | None) -> Subscription:
        return Subscription(
            self._streams,
            NOT_SENT,
            self._clock,
            interrupt,
            timeouts=self._timeouts,
            next_step=self._next_step,
        )

    def _reading(self, subscription: Subscription, known: Known) -> ManagedDeliveries:
        return ManagedDeliveries(
            subscription,
            known=known,
            tend=self._tend,
            answered=self._was_answered,
            explained=self._explained,
            clock=self._clock,
        )

    def _was_answered(self) -> None:
        self._refused_since = None

    def _waited(self) -> float:
        since = self._refused_since
        return 0.0 if since is None else self._clock.monotonic() - since

    def _explained(self, error: SfEventsError) -> SfEventsError:
        explained = rules.explained(error, self._reference, self._waited())
        if not isinstance(explained, rules.SlotTakenError):
            PROCESS_CONFIGS.forget(self._calls, self._reference)
        return explained

    def _next_step(
        self, error: SfEventsError, *, tries: int, renewed: bool, chance: float
    ) -> Retry | None:
        if not rules.is_refused_for_now(error):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = self._clock.monotonic()
        return rules.next_step(
            error,
            tries=tries,
            renewed=renewed,
            chance=chance,
            waited_seconds=self._waited(),
            timeouts=self._timeouts,
            max_tries=self._max_tries,
        )

    def _is_open(self) -> bool:
        stream = self._streams.current
        return stream is not None and stream.end is None

    async def _commit_here(self, replay_id: str) -> str:
        stream = self._streams.current
        if stream is None or stream.end is not None:
            return "no stream is open"
        why = await stream.commit(replay_id, self._timeouts.commit_seconds)
        self._kept_replay_id = self._kept_replay_id if why else replay_id
        return why

    async def _commit_anew(self, replay_id: str, stop: asyncio.Event) -> str:
        tries, renewed = 0, False
        while True:
            stream = await self._streams.open()
            try:
                why = await stream.commit(replay_id, self._timeouts.commit_seconds)
                end = stream.end
                if end is None:
                    self.late += await stream.ended(self._timeouts.rest_seconds)
                    self._kept_replay_id = self._kept_replay_id if why else replay_id
                    return why
            finally:
                self._streams.current = None
                await stream.close()
            step = self._next_step(end, tries=tries, renewed=renewed, chance=self._clock.chance())
            if step is None:
                return str(self._explained(end))
            if step.renew:
                await self._streams.renew(end)
            tries, renewed = tries + 1, renewed or step.renew
            if await _is_set_within(stop, step.wait_seconds):
                return f"the task was ended before the next try: {end}"

    async def _tend(self) -> None:
        """Apply rule 4 of `managed_rules`."""
        stream = self._streams.current
        if stream is None or stream.end is not None:
            return
        since = self._clock.monotonic() - stream.committed_at
        if rules.is_commit_due(since, self._kept_replay_id):
            await stream.send_commit(self._kept_replay_id)


async def _is_set_within(stop: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
