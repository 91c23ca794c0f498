"""Error handling of the watcher: log, notify, back off. `watch_rules` decides."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.batches.next_batch import NextBatch
from airflow_provider_sfevents.batches.position import position_look
from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.waiting import batch_status, watch_rules

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.waiting.watch_environment import WatcherEnvironment
    from airflow_provider_sfevents.waiting.watch_rules import Rules, WatchFailure

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """Connection and position as last read; compared to see whether one has changed.

    :param place: the next batch and its plan, or the error that hides them.
    """

    settings: Settings | None = None
    place: str = ""


@dataclass(slots=True)
class WatchBackoff:
    """Error state of one watcher.

    :ivar request, settings, session: of the current round; the watcher sets them as it proceeds.
    :ivar _kept: kind of the error that is recorded; empty: none; None: not known after a start.
    :ivar listens_since: time at which the watcher began to listen; None: it does not listen.
    """

    request: BatchRequest
    rules: Rules
    environment: WatcherEnvironment
    settings: Settings | None = None
    session: Session | None = None
    listens_since: datetime | None = None
    _trouble: WatchFailure | None = None
    _kept: str | None = None
    _state: ConnectionState = field(default_factory=ConnectionState)

    async def is_to_be_waited_out(self) -> bool:
        """Return whether another try would only repeat the last error."""
        if self._trouble is None:
            return False
        changed = await self._now() != self._state
        return not watch_rules.is_worth_a_try(
            self._trouble, self.rules, self.environment.now(), changed=changed
        )

    def pause(self) -> float:
        """Return the seconds until the next look."""
        if self._trouble is None:
            return 1.0
        return watch_rules.trouble_pause(self._trouble, self.environment.spread())

    async def met(self, error: Exception) -> str:
        """Record an error; return the message of a notification, empty if none is due now."""
        now = self.environment.now()
        if watch_rules.was_well(self.listens_since, now):
            self._trouble = None
        state = await self._now()
        if watch_rules.is_for_people(error) and state.settings != self.settings:
            self._trouble = None  # the connection was changed while the old one was still in use
            return ""
        trouble = watch_rules.next_trouble(self._trouble, error, now)
        _log(self._trouble, trouble, error, self.request.topic)
        await self._keep(trouble.message, trouble.kind)
        message = ""
        if watch_rules.is_due(trouble, self.rules, now):
            trouble = watch_rules.told(trouble, now)
            if not await self.environment.any_run(
                [self.request.consumer]
            ):  # otherwise the task says it
                message = trouble.message
        self._trouble, self._state = trouble, state
        return message

    def notice(self, message: str) -> dict[str, Any]:
        """Return what a user's notifier is told of the last error."""
        trouble = self._trouble
        return {
            "kind": "watcher",
            "org_id": self.session.org_id if self.session else "",
            "consumer": self.request.consumer,
            "topic": self.request.topic,
            "since": trouble.since.isoformat() if trouble else "",
            "tries": trouble.tries if trouble else 0,
            "seen": message,
            "remedy": "The watcher starts runs again once the cause is gone; its own log is the "
            "triggerer's.",
        }

    async def is_over(self) -> None:
        await self.is_well()
        if self._trouble is not None:
            log.info("Watching %s again.", self.request.topic)
            self._trouble = None

    async def is_well(self) -> None:
        """Record that the watcher listens."""
        await self._keep("", "")

    async def _keep(self, message: str, kind: str) -> None:
        """Record an error, unless one of its kind is recorded; an empty message ends it."""
        if kind == self._kept:
            return
        now = self.environment.now()
        await asyncio.to_thread(self.environment.keep_error, self.request, message, now)
        self._kept = kind

    async def _now(self) -> ConnectionState:
        try:
            settings = await asyncio.to_thread(self.environment.settings)
        except Exception:  # noqa: BLE001 - the next try reports any error
            return ConnectionState()
        try:
            return ConnectionState(settings=settings, place=await asyncio.to_thread(self._place))
        except Exception as error:  # noqa: BLE001 - as above
            return ConnectionState(settings=settings, place=str(error))

    def _place(self) -> str:
        if self.session is None:
            return ""
        area = self.environment.area()
        position = position_look.look(self.request, self.session, area, self.environment.store)
        if position is None:
            return ""
        next_batch = NextBatch.after(position, self.request.managed)
        return f"{next_batch} {batch_status.read_status(next_batch, area).plan}"


def _log(before: WatchFailure | None, trouble: WatchFailure, error: Exception, topic: str) -> None:
    """Log the first error of a row of equal ones, with a traceback if it is not of this package."""
    known = before is not None and before.kind == trouble.kind
    log.log(
        logging.DEBUG if known else logging.WARNING,
        "%s is not watched for now: %s",
        topic,
        trouble.message,
        exc_info=None if isinstance(error, SfEventsError) else error,
    )
