"""Sessions shared within the process: one login for all clients, one renewal for all refusals.

Only sessions are kept, nothing that belongs to an event loop. Airflow forks: a child starts with
its parent's sessions, which is right because they are plain values.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.auth.login import log_in, look_up_user
from airflow_provider_sfevents.pubsub.keyed_lock import KeyedLock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.clock import Clock

logger = logging.getLogger(__name__)


class SessionCache:
    """Sessions by settings. A token's expiry is not reported, so it is used until it is refused."""

    def __init__(self, log_in: Callable[[Settings, Clock], Awaitable[Session]] = log_in) -> None:
        self._log_in = log_in
        self._sessions: dict[Settings, Session] = {}
        self._locks = KeyedLock()

    async def get(self, settings: Settings, clock: Clock) -> Session:
        """The session of these settings; logs in if there is none.

        :raises SfEventsError: as `log_in`.
        """
        known = self._sessions.get(settings)
        return known or await self._obtain(settings, clock, refused=None)

    async def renew(self, settings: Settings, refused: Session, clock: Clock) -> Session:
        """A session other than the refused one.

        Of two callers the second takes the session of the first.
        """
        return await self._obtain(settings, clock, refused=refused)

    async def with_user(self, settings: Settings, clock: Clock) -> Session:
        """The session with its user, which is looked up once if the login did not return it.

        :raises SfEventsError: as `log_in` and `look_up_user`.
        """
        session = await self.get(settings, clock)
        async with self._locks.hold(settings):
            session = self._sessions.get(settings, session)
            if not session.user_id:
                user_id = await look_up_user(settings, session)
                session = self._sessions[settings] = replace(session, user_id=user_id)
            return session

    async def _obtain(
        self, settings: Settings, clock: Clock, *, refused: Session | None
    ) -> Session:
        async with self._locks.hold(settings):
            known = self._sessions.get(settings)
            if known is not None and (refused is None or known.token != refused.token):
                return known
            self._sessions.pop(settings, None)
            session = self._sessions[settings] = await self._log_in(settings, clock)
            logger.info("Logged in to %s (org %s)", session.instance_url, session.org_id)
            return session


PROCESS_SESSIONS = SessionCache()
