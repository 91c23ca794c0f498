"""Tokens and sessions: issued, used, expired, revoked; locked users; the three headers."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock

HEADERS = ("accesstoken", "instanceurl", "tenantid")
_HOUR = 3600.0
_WEEK = 7 * 24 * _HOUR
_FEW = 1_000


@dataclass(slots=True, kw_only=True)
class OrgSession:
    """A token with its org and user.

    :param client: consumer key of its app; empty if a test issued the token.
    :param used_at: last use, in seconds since the epoch by the emulator's clock.
    """

    token: str = field(repr=False)
    org_id: str
    instance_url: str
    user_id: str
    username: str
    client: str
    used_at: float


class OrgSessions:
    """All sessions of an emulator. Safe to use from any thread."""

    def __init__(self, *, clock: EmulatorClock, idle_hours: float) -> None:
        self._clock = clock
        self._idle_seconds = idle_hours * _HOUR
        self._by_token: dict[str, OrgSession] = {}
        self._revoked: set[str] = set()
        self._locked_out: set[str] = set()
        self._lock = threading.Lock()
        self._forget_at = _FEW

    def issue(
        self, *, org_id: str, instance_url: str, user_id: str, username: str, client: str
    ) -> OrgSession:
        token = f"{org_id[:15]}!AR{secrets.token_urlsafe(70)[:94]}"
        session = OrgSession(
            token=token,
            org_id=org_id,
            instance_url=instance_url,
            user_id=user_id,
            username=username,
            client=client,
            used_at=self._clock.timestamp(),
        )
        with self._lock:
            self._by_token[token] = session
            if len(self._by_token) >= self._forget_at:
                self._forget()
        return session

    def find(self, token: str) -> OrgSession | None:
        """Session of a valid token. The look-up counts as a use, which prolongs the session."""
        now = self._clock.timestamp()
        with self._lock:
            session = self._by_token.get(token)
            if session is None or now - session.used_at > self._idle_seconds:
                return None
            session.used_at = now
            return session

    def prolong(self, token: str) -> OrgSession | None:
        """Session of a token that was not revoked, even if idle for too long.

        A client that stays connected keeps its session alive.
        """
        now = self._clock.timestamp()
        with self._lock:
            session = self._by_token.get(token)
            if session is not None:
                session.used_at = now
            return session

    def authenticate(self, metadata: Mapping[str, str]) -> OrgSession:
        """Session named by the headers of an RPC.

        :raises RefusalError: `service.auth.headers.invalid` if a header is missing or blank,
            `service.auth.error` if they do not name a valid session, its org and its instance.
        """
        given = {name: str(metadata.get(name, "")).strip() for name in HEADERS}
        if not all(given.values()):
            raise RefusalError("service.auth.headers.invalid")
        session = self.find(given["accesstoken"])
        if session is None or not _matches(session, given):
            raise RefusalError("service.auth.error")
        return session

    def revoke(self, token: str) -> None:
        """Invalidate an access token or a refresh token."""
        with self._lock:
            self._by_token.pop(token, None)
            self._revoked.add(token)

    def is_revoked(self, token: str) -> bool:
        with self._lock:
            return token in self._revoked

    def lock_out(self, username: str) -> None:
        """Refuse logins with this user's password; issued tokens stay valid."""
        with self._lock:
            self._locked_out.add(username.lower())

    def unlock(self, username: str) -> None:
        with self._lock:
            self._locked_out.discard(username.lower())

    def is_locked_out(self, username: str) -> bool:
        with self._lock:
            return username.lower() in self._locked_out

    def _forget(self) -> None:
        """Drop tokens that expired a week ago.

        Recently expired ones stay, because a connected client keeps its own alive.
        """
        since = self._clock.timestamp() - self._idle_seconds - _WEEK
        kept = {one.token: one for one in self._by_token.values() if one.used_at >= since}
        self._by_token, self._forget_at = kept, max(_FEW, 2 * len(kept))

    def expire_all(self) -> None:
        with self._lock:
            self._by_token.clear()


def _matches(session: OrgSession, given: Mapping[str, str]) -> bool:
    """True if the org and the instance match.

    Org ids of both lengths are accepted, as by the real service; the instance is compared
    case-insensitively.
    """
    same_org = given["tenantid"] in {session.org_id, session.org_id[:15]}
    return same_org and given["instanceurl"].rstrip("/").lower() == session.instance_url.lower()
