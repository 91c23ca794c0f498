"""A watcher: it stages a topic's events, and announces each batch once. `watch_rules` decides.

Each round reads the next batch again: the position, the staged events, the lease. So a watcher
that is killed at any point, or runs twice for a while, changes only the number of announcements. An
extra announcement starts a run that finds no event.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.event_source import SETUP_SECONDS, resolve_first_start
from airflow_provider_sfevents.batches.next_batch import NextBatch
from airflow_provider_sfevents.batches.position import open_position, position_look
from airflow_provider_sfevents.batches.position.position_writes import Pin
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import LeaseHeldError, StagingError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.topic_names import retention, transport_for
from airflow_provider_sfevents.staging.sidecar_files import Announced
from airflow_provider_sfevents.waiting import batch_status, listen, watch_rules
from airflow_provider_sfevents.waiting.wait_result import GAVE_WAY
from airflow_provider_sfevents.waiting.watch_backoff import WatchBackoff
from airflow_provider_sfevents.waiting.watch_rules import Rules, Step, WatchState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.waiting.batch_status import BatchStatus
    from airflow_provider_sfevents.waiting.wait_result import WaitResult
    from airflow_provider_sfevents.waiting.watch_environment import WatcherEnvironment

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Batch:
    """The next batch, as far as this watcher knows it.

    :param status: status at the last look; only two looks show whether a holder on another machine
        is alive.
    :param announced: by this watcher; `kept` says whether that is recorded beside the batch.
    :param known_for: seconds since its events were first seen while no process held the lease.
    :param waited: seconds since the batch was left to another process.
    """

    batch_id: str = ""
    status: BatchStatus | None = None
    announced: Announced | None = None
    kept: bool = True
    known_for: float = 0.0
    waited: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """State of the next batch.

    :param pin: writes the replay id of `latest` into the position, if the batch begins there.
    :param dags: DAGs whose runs may be about to land it.
    """

    next_batch: NextBatch
    store: PositionStore
    pin: Pin | None
    status: BatchStatus
    announced: Announced | None
    dags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """Result of a round: an announcement, if any, and the pause after it in seconds."""

    pause: float
    said: dict[str, Any] | None = None


@dataclass(slots=True)
class Watcher:
    """Watches a topic for a consumer; for one event loop, and one iteration of `announcements`.

    :param transport: API for topics that both have; empty: that of the connection.
    """

    request: BatchRequest
    rules: Rules
    environment: WatcherEnvironment
    transport: str = ""
    _backoff: WatchBackoff = field(init=False)
    _batch: _Batch = field(init=False, default_factory=_Batch)
    _resolved_for: Settings | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._backoff = WatchBackoff(self.request, self.rules, self.environment)

    async def announcements(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield announcements without end, as plain JSON. No lease is held meanwhile.

        It ends only by cancellation and raises no other error: Airflow would start the trigger
        again.
        """
        while True:
            done = await self._round()
            if done.said is not None:
                yield done.said
            await self.environment.sleep(done.pause)
            self._batch.known_for += done.pause

    async def _round(self) -> _Round:
        try:
            if await self._backoff.is_to_be_waited_out():
                return _Round(pause=self._backoff.pause())
            done = await self._watch()
        except LeaseHeldError:  # another task is about to begin the position
            done = self._later()
        except Exception as error:  # noqa: BLE001 - Airflow would restart the trigger endlessly
            message = await self._backoff.met(error)
            if message:
                await self.environment.notify(self._backoff.notice(message))
            said = {**self._said(), "trouble": message} if message else None
            return _Round(pause=self._backoff.pause(), said=said)
        await self._backoff.is_over()
        return done

    async def _watch(self) -> _Round:
        """Look at the next batch, listen if it has no event, and announce it if that is due."""
        self._backoff.settings = self._backoff.listens_since = None
        settings = await asyncio.to_thread(self.environment.settings)
        self._backoff.settings = settings
        area = await asyncio.to_thread(self.environment.area)
        transport = transport_for(self.request.topic, self.transport or settings.transport)
        self.request = replace(self.request, transport=transport.value)
        if self._resolved_for != settings:
            self._backoff.request = self.request
        async with self.environment.client(settings, transport) as client:
            session = self._backoff.session = await client.session()
            if self._resolved_for != settings:
                self._backoff.request = await resolve_first_start(
                    self.request, client, area, max_age_seconds=SETUP_SECONDS
                )
                self._resolved_for = settings
            look = await asyncio.to_thread(self._look, session, area)
            if look.status.held_by or not look.status.events:
                self._batch.known_for = 0.0
            scene = WatchState(
                events=look.status.events,
                held=bool(look.status.held_by),
                announced=look.announced,
                known_for=self._batch.known_for,
            )
            step = watch_rules.next_step(scene, self.rules, self.environment.now())
            if step is not Step.LISTEN:
                return await self._act(step, look, scene, staged=scene.events > 0)
            waited = await self._listen(look, client, area)
        scene = WatchState(
            events=waited.events,
            held=bool(waited.held_by) or waited.ended_by in GAVE_WAY,
            own=True,
            announced=await asyncio.to_thread(self._remembered, look.next_batch, area),
        )
        step = watch_rules.next_step(scene, self.rules, self.environment.now())
        return await self._act(step, look, scene, staged=waited.staged)

    async def _listen(self, look: _Look, client: TopicClient, area: StagingArea) -> WaitResult:
        """Listen until an event can be announced, another process has the batch, or it moved."""

        async def max_wait() -> float:
            at_work = await self.environment.any_run(look.dags)
            return watch_rules.gather_seconds(self.rules, at_work=at_work)

        self._backoff.listens_since = self.environment.now()
        await asyncio.to_thread(self.environment.listening, self.request)
        self._resolved_for = None  # the subscription's setup may change until the next round
        stop = asyncio.Event()
        looks = asyncio.create_task(self._stop_when_moved(look.next_batch, area, stop))
        try:
            return await listen.listen(
                look.next_batch,
                look.status.plan,
                client,
                area,
                Bounds.by_count(self.rules.max_events),
                run=self.request.run,
                store=look.store,
                pin=look.pin,
                stop=stop,
                max_wait=max_wait,
            )
        finally:
            looks.cancel()

    async def _stop_when_moved(
        self, next_batch: NextBatch, area: StagingArea, stop: asyncio.Event
    ) -> None:
        """Set `stop` after a manual change of position or connection; no event reports it.

        A listening that lasts ends the last error, too.
        """
        first = min(self.environment.well_seconds, self.environment.look_seconds)
        await asyncio.sleep(first)
        await self._backoff.is_well()
        pause = self.environment.look_seconds - first
        while not stop.is_set():
            await asyncio.sleep(pause)
            pause = self.environment.look_seconds
            await asyncio.to_thread(self.environment.listening, self.request)
            if await asyncio.to_thread(self._has_moved, next_batch, area):
                stop.set()

    def _has_moved(self, next_batch: NextBatch, area: StagingArea) -> bool:
        """Return whether the position or the connection has changed. Blocks."""
        session = self._backoff.session
        try:
            if session is None or self.environment.settings() != self._backoff.settings:
                return True
            request = self._backoff.request
            position = position_look.look(request, session, area, self.environment.store)
            if position is None:
                return not next_batch.topic_folder(area).after_forgetting(next_batch.epoch)
            return not NextBatch.after(position, next_batch.managed).is_same(next_batch)
        except Exception as error:  # noqa: BLE001 - a failed look must not end the listening
            log.debug("Could not check whether %s has moved: %s", next_batch.batch_id, error)
            return False

    async def _act(self, step: Step, look: _Look, scene: WatchState, *, staged: bool) -> _Round:
        if step is Step.ANNOUNCE_IF_IDLE and not await self.environment.any_run(look.dags):
            step = Step.ANNOUNCE
        if step is Step.ANNOUNCE:
            return self._announce(look.next_batch, scene, staged=staged)
        return self._later()

    def _later(self) -> _Round:
        """Leave the batch to another process for now."""
        pause = watch_rules.pause(self._batch.waited)
        self._batch.waited += pause
        return _Round(pause=pause)

    def _announce(self, next_batch: NextBatch, scene: WatchState, *, staged: bool) -> _Round:
        before, at = scene.announced, self.environment.now().isoformat()
        now = Announced(
            events=scene.events or (before.events if before else 0),
            at=at,
            times=before.times + 1 if before else 1,
        )
        self._batch.announced, self._batch.kept, self._batch.waited = now, False, 0.0
        _log(next_batch, now, self.rules)
        said = self._said(
            batch_id=next_batch.batch_id,
            batch_number=next_batch.batch_number,
            events=now.events,
            staged=staged,
        )
        return _Round(pause=watch_rules.pause(0.0), said=said)

    def _said(
        self, *, batch_id: str = "", batch_number: int = 0, events: int = 0, staged: bool = False
    ) -> dict[str, Any]:
        return {
            "topic": self.request.topic,
            "consumer": self.request.consumer,
            "batch_id": batch_id,
            "batch_number": batch_number,
            "events": events,
            "staged": staged,
        }

    def _look(self, session: Session, area: StagingArea) -> _Look:
        """Read the state of the next batch. Blocks."""
        request = self._backoff.request
        opened = open_position.opened(request, session, area, self.environment.store)
        next_batch = NextBatch.after(opened.position, request.managed)
        store = self.environment.store(session.org_id)
        pin = None
        if not opened.position.is_pinned:
            pin = Pin(
                draft=opened.position,
                stored=opened.stored,
                store=store,
                folder=next_batch.topic_folder(area),
                staging_id=area.known_id(),
            )
        if next_batch.batch_id != self._batch.batch_id:
            self._batch = _Batch(batch_id=next_batch.batch_id)
        status = self._batch.status = batch_status.read_status(next_batch, area, self._batch.status)
        return _Look(
            next_batch=next_batch,
            store=store,
            pin=pin,
            status=status,
            announced=self._remembered(next_batch, area),
            dags=self._dags(status),
        )

    def _remembered(self, next_batch: NextBatch, area: StagingArea) -> Announced | None:
        """Return the last announcement of a batch; record this watcher's own if due. Blocks."""
        folder = next_batch.folder(area)
        own = self._batch.announced
        if (
            own is not None
            and not self._batch.kept
            and watch_rules.is_settled(own, self.environment.now())
        ):
            self._batch.kept = True
            try:
                folder.write_announced(own)
                steps.reached(steps.ANNOUNCED, next_batch.batch_id)
            except StagingError as error:
                log.warning(
                    "Could not record the announcement of batch %s; a triggerer that is restarted "
                    "announces it again. %s",
                    next_batch.batch_id,
                    error,
                )
        return max(
            filter(None, (own, folder.read_announced())),
            key=lambda announced: announced.times,
            default=None,
        )

    def _dags(self, status: BatchStatus) -> tuple[str, ...]:
        """Return the DAGs whose runs may land the batch: its last worker's, and the consumer.

        The consumer is the id of a DAG by default.
        """
        held = status.lease.holder.run.dag if status.lease else ""
        staged = "" if isinstance(status.plan, recovery.FetchPlan) else status.plan.manifest.run.dag
        return tuple(dict.fromkeys(filter(None, (held, staged, self.request.consumer))))


def _log(next_batch: NextBatch, announced: Announced, rules: Rules) -> None:
    if announced.times == 1:
        log.info(
            "Announcing batch %s of %s: %s.",
            next_batch.batch_id,
            next_batch.topic,
            counted(announced.events, "event"),
        )
        return
    log.warning(
        "Batch %s of %s was announced %d times, is not committed, and no run works on it: "
        "announcing it again. Find out why its runs fail; events that do not land leave the bus "
        "after %d hours. Next time in %s.",
        next_batch.batch_id,
        next_batch.topic,
        announced.times - 1,
        retention(next_batch.topic) // timedelta(hours=1),
        watch_rules.again_after(rules, announced.times),
    )
