"""Which tokens are good: given out, used, idle too long, revoked; who is locked out; what the three headers must say."""

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
    """A token and what it stands for.

    :param client: consumer key of the app it was given to; empty for one made by hand.
    :param used_at: seconds since the epoch on the emulator's clock.
    """

    token: str = field(repr=False)
    org_id: str
    instance_url: str
    user_id: str
    username: str
    client: str
    used_at: float


class OrgSessions:
    """All tokens of an emulator. Safe to use from any thread."""

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
        """Session of a token that is still good; asking is using, which prolongs it."""
        now = self._clock.timestamp()
        with self._lock:
            session = self._by_token.get(token)
            if session is None or now - session.used_at > self._idle_seconds:
                return None
            session.used_at = now
            return session

    def prolong(self, token: str) -> OrgSession | None:
        """Session of a token that was not revoked, however long unused: of a client that stays connected, which keeps it alive."""
        now = self._clock.timestamp()
        with self._lock:
            session = self._by_token.get(token)
            if session is not None:
                session.used_at = now
            return session

    def authenticate(self, metadata: Mapping[str, str]) -> OrgSession:
        """Session an RPC's headers name.

        :raises RefusalError: with `service.auth.headers.invalid` where one is missing or blank, with `service.auth.error`
            where they do not name a good session, its org and its instance.
        """
        given = {name: str(metadata.get(name, "")).strip() for name in HEADERS}
        if not all(given.values()):
            raise RefusalError("service.auth.headers.invalid")
        session = self.find(given["accesstoken"])
        if session is None or not _matches(session, given):
            raise RefusalError("service.auth.error")
        return session

    def revoke(self, token: str) -> None:
        """Make an access token or a refresh token stop being good."""
        with self._lock:
            self._by_token.pop(token, None)
            self._revoked.add(token)

    def is_revoked(self, token: str) -> bool:
        with self._lock:
            return token in self._revoked

    def lock_out(self, username: str) -> None:
        """Let a user no longer log in with a password; tokens that were given out stay good."""
        with self._lock:
            self._locked_out.add(username.lower())

    def unlock(self, username: str) -> None:
        with self._lock:
            self._locked_out.discard(username.lower())

    def is_locked_out(self, username: str) -> bool:
        with self._lock:
            return username.lower() in self._locked_out

    def _forget(self) -> None:
        """Drop tokens that have expired long ago; not at once, for a client that stays connected keeps its own."""
        since = self._clock.timestamp() - self._idle_seconds - _WEEK
        kept = {one.token: one for one in self._by_token.values() if one.used_at >= since}
        self._by_token, self._forget_at = kept, max(_FEW, 2 * len(kept))

    def expire_all(self) -> None:
        with self._lock:
            self._by_token.clear()


def _matches(session: OrgSession, given: Mapping[str, str]) -> bool:
    """Both lengths of org id are accepted, as by the real service; the instance is compared without case."""
    same_org = given["tenantid"] in {session.org_id, session.org_id[:15]}
    return same_org and given["instanceurl"].rstrip("/").lower() == session.instance_url.lower()
