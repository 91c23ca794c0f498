"""One managed subscription in use: its slot, its streams, and what is committed on them. `managed_rules` decides."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.pubsub import managed_rules as rules
from airflow_provider_sfevents.pubsub.bounds import Bounds, Progress
from airflow_provider_sfevents.pubsub.credit import MAX_CREDIT
from airflow_provider_sfevents.pubsub.fetch import Fetch, FetchResult, Heard, Receive
from airflow_provider_sfevents.pubsub.managed_config import PROCESS_CONFIGS
from airflow_provider_sfevents.pubsub.managed_reading import ManagedReading
from airflow_provider_sfevents.pubsub.reconnect import MAX_TRIES
from airflow_provider_sfevents.pubsub.start import replay_id_hex
from airflow_provider_sfevents.pubsub.subscription import Subscription
from airflow_provider_sfevents.pubsub.topic_streams import ManagedStreams

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from types import TracebackType

    from airflow_provider_sfevents.pubsub.calls import Calls
    from airflow_provider_sfevents.pubsub.delivery import Delivery
    from airflow_provider_sfevents.pubsub.fetch import TimesOf
    from airflow_provider_sfevents.pubsub.managed_reading import Known
    from airflow_provider_sfevents.pubsub.reconnect import Again
    from airflow_provider_sfevents.pubsub.topic_streams import Reach

log = logging.getLogger(__name__)

_LISTEN_SECONDS = 3600.0


def nothing_known() -> Mapping[bytes, str]:
    return {}


class Managed:
    """Use as `async with`: the slot is taken by the first call that needs it, and given back at the end by a half-close.

    :param reference: id or developer name of the subscription.
    :param look_up: asks for the topic.
    :param before_fetch: awaited with the topic before a fetch; what it raises ends that.

    `dropped` are events that came again and were known; `late` such as came after the end of a batch, and will come again.
    """

    def __init__(
        self,
        calls: Calls,
        reference: str,
        topic: str,
        look_up: Reach,
        times_of: TimesOf,
        before_fetch: Reach | None = None,
    ) -> None:
        self._reference = rules.check_reference(reference)
        self._times_of = times_of
        self._before_fetch = before_fetch
        self._calls = calls
        self._topic = topic
        self._clock = calls.clock
        self._patience = calls.patience
        self._streams = ManagedStreams(calls, topic, look_up, self._reference)
        self._subscription: Subscription | None = None
        self._place = ""
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
    ) -> rules.Config | None:
        """What the org's setup says of it; None where it cannot be read, and that is accepted.

        :param max_age_seconds: how old an answer may be that this process was given before; 0: the org is asked, by one API request.
        :raises ConfigurationError: it is not fit for this topic, or may lose events without a word.
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
        place: str = "",
        already: Progress = Progress(),  # noqa: B008 - a frozen value
        heard: Heard | None = None,
        stop: asyncio.Event | None = None,
        outlast: bool = False,
    ) -> FetchResult:
        """One batch, as `PubSubClient.fetch` has it: the events after what was committed last. The stream stays open, for the commit.

        A stream lost after the first new event ends the batch (`ended_by="lost"`); `deliveries` counts what was dropped, too.

        :param known: reads what was staged before, event ids by replay id; blocks. Such events are dropped where a stream begins with them.
        :param place: replay id, hex, that may be committed again so that the stream is not closed; empty: none yet.
        :param heard: awaited with the replay id of each keepalive that has been committed.
        """
        if self._before_fetch is not None:
            await self._before_fetch(self._topic)
        self._place = place or self._place
        self._max_tries = None if outlast else MAX_TRIES
        interrupt = asyncio.ensure_future(stop.wait()) if stop is not None else None
        subscription = self._subscription = self._opened(interrupt)
        reading = self._reading(subscription, known)
        kept_places: list[str] = []

        async def keepalive(replay_id: str) -> None:
            if not rules.may_commit_keepalive(received=reading.received, kept=already.events):
                return
            if why := await self._commit_here(replay_id):
                log.info("The place a keepalive told was not committed: %s.", why)
                return
            kept_places.append(replay_id)
            if heard is not None:
                await heard(replay_id)

        try:
            batch = Fetch(
                reading,
                bounds,
                receive,
                heard=keepalive,
                already=already,
                stopped=lambda: reading.cut is not None or (stop is not None and stop.is_set()),
                times_of=self._times_of,
                clock=self._clock,
            )
            result = await batch.run()
        finally:
            self.dropped += reading.dropped
            if interrupt is not None:
                interrupt.cancel()
        # Salesforce keeps the place, and delivers these again whatever becomes of them here.
        self.late += sum(map(len, result.beyond))
        result = replace(result, beyond=())
        if result.ended_by == "stopped" and reading.cut is not None:
            log.info("The stream was lost, and the batch ends there: %s", reading.cut)
            result = replace(result, ended_by="lost")
        latest = result.last_replay_id or bytes.fromhex(kept_places[-1] if kept_places else "")
        return replace(
            result, latest_replay_id=latest, deliveries=result.deliveries + reading.dropped
        )

    async def commit(self, replay_id: bytes | str, stop: asyncio.Event | None = None) -> str:
        """Let the service keep a replay id; the reason if it does not, otherwise empty.

        On the open stream; if that has ended, on one that asks for nothing. A refusal by the
        service is no exception, because the caller has staged its events already.

        :param replay_id: bytes, as deliveries have it, or hex.
        :param stop: ends the wait for another stream when set; another client may have the slot for
            a minute.
        :raises ConfigurationError: it is no replay id; the service is not asked.
        """
        place = replay_id_hex(replay_id)
        try:
            why = await self._commit_here(place)
            if not why or self._is_open():
                return why
            await self.close()
            self._max_tries = MAX_TRIES
            return await self._commit_anew(place, stop or asyncio.Event())
        except SfEventsError as error:
            return str(error)

    async def deliveries(self, credit: int = MAX_CREDIT) -> AsyncGenerator[Delivery]:
        """Deliveries without end, keepalives among them; after a loss those come again that were not committed.

        :param credit: how many events may be asked for at once.
        """
        subscription = self._opened(None)
        await subscription.ask_up_to(credit)
        while True:
            self._subscription = subscription
            await self._tend()
            try:
                delivery = await subscription.next(60.0, _LISTEN_SECONDS)
            except SfEventsError as error:
                raise self._told(error) from error
            if delivery is not None:
                self._refused_since = None
                await subscription.ask_up_to(credit)
                yield delivery

    async def first(self) -> bytes:
        """Replay id of the first event that a stream of the subscription delivers. It alone is asked for, and waited for without end."""
        subscription = self._subscription = self._opened(None)
        await subscription.ask_up_to(1)
        while True:
            delivery = await subscription.next(_LISTEN_SECONDS, _LISTEN_SECONDS)
            if delivery is not None and len(delivery):
                self.dropped += len(delivery)
                return delivery.replay_ids[-1]

    async def close(self) -> None:
        """Half-close, and wait for the end: so the slot is soon free again."""
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
            "",
            self._clock,
            interrupt,
            patience=self._patience,
            next_step=self._next_step,
        )

    def _reading(self, subscription: Subscription, known: Known) -> ManagedReading:
        return ManagedReading(
            subscription,
            known=known,
            tend=self._tend,
            answered=self._was_answered,
            told=self._told,
            clock=self._clock,
        )

    def _was_answered(self) -> None:
        self._refused_since = None

    def _waited(self) -> float:
        since = self._refused_since
        return 0.0 if since is None else self._clock.monotonic() - since

    def _told(self, error: SfEventsError) -> SfEventsError:
        told = rules.told(error, self._reference, self._waited())
        if not isinstance(told, rules.SlotTaken):
            PROCESS_CONFIGS.forget(self._calls, self._reference)
        return told

    def _next_step(
        self, error: SfEventsError, *, tries: int, renewed: bool, chance: float
    ) -> Again | None:
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
            patience=self._patience,
            max_tries=self._max_tries,
        )

    def _is_open(self) -> bool:
        stream = self._streams.current
        return stream is not None and stream.end is None

    async def _commit_here(self, replay_id: str) -> str:
        stream = self._streams.current
        if stream is None or stream.end is not None:
            return "no stream is open"
        why = await stream.commit(replay_id, self._patience.commit_seconds)
        self._place = self._place if why else replay_id
        return why

    async def _commit_anew(self, replay_id: str, stop: asyncio.Event) -> str:
        tries, renewed = 0, False
        while True:
            stream = await self._streams.open("")
            try:
                why = await stream.commit(replay_id, self._patience.commit_seconds)
                end = stream.end
                if end is None:
                    self.late += await stream.ended(self._patience.rest_seconds)
                    self._place = self._place if why else replay_id
                    return why
            finally:
                self._streams.current = None
                await stream.close()
            step = self._next_step(end, tries=tries, renewed=renewed, chance=self._clock.chance())
            if step is None:
                return str(self._told(end))
            if step.renew:
                await self._streams.renew(end)
            tries, renewed = tries + 1, renewed or step.renew
            if await _is_set_within(stop, step.wait_seconds):
                return f"the task was ended while it waited to try again: {end}"

    async def _tend(self) -> None:
        """Rule 4 of `managed_rules`."""
        stream = self._streams.current
        if stream is None or stream.end is not None:
            return
        since = self._clock.monotonic() - stream.committed_at
        if rules.is_commit_due(since, self._place):
            await stream.send_commit(self._place)


async def _is_set_within(stop: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
