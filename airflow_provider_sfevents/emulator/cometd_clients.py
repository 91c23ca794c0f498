"""Which CometD clients there are: let in by a handshake, kept by connecting again in time, lost otherwise.

Times are seconds on any clock that does not go back, and are passed in.
"""

from __future__ import annotations

import math
import secrets
import string
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.records import Subscription

# Streaming API Developer Guide, "Clients and Timeouts": a connect is held for so long, and the next has to come within so long.
POLL_SECONDS, RECONNECT_SECONDS = 110.0, 40.0
_LETTERS = string.ascii_lowercase + string.digits


class Held(Protocol):
    """A connect that is held back."""

    def release(self) -> None:
        """Let it look again, and answer if its time has come; called from any thread."""

    def supersede(self) -> None:
        """Answer it now: another one has come, or the emulator stops; called from any thread."""


@dataclass(slots=True, kw_only=True)
class Subscribed:
    """One channel of a client.

    :param after: place on the bus that all events up to have been delivered.
    :param page: its page in the book.
    """

    channel: str
    after: int
    page: Subscription


@dataclass(slots=True, kw_only=True)
class Client:
    """One session of the Streaming API.

    :param token: it came with last; a connected client keeps it from expiring.
    :param browser: value of its cookie BAYEUX_BROWSER.
    :param server: value of its cookie sfdc-stream, which leads it to the server that knows it.
    :param numbering: of the bus when it came; another one means that the org has moved.
    :param until: when it is lost unless it connects; never while a connect is held.
    """

    client_id: str
    org_id: str
    user_id: str
    token: str = field(repr=False)
    browser: str
    server: str
    numbering: int
    until: float
    connected: bool = False
    held: Held | None = None
    subscriptions: dict[str, Subscribed] = field(default_factory=dict)


class Clients:
    """All CometD clients of an emulator. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, Client] = {}
        self.closed = False

    def add(
        self,
        *,
        org_id: str,
        user_id: str,
        token: str,
        browser: str,
        server: str,
        numbering: int,
        until: float,
    ) -> Client:
        """Let a client in.

        :param browser: value of the cookie it brought along; a new one is made where it is empty, and so for `server`: several
            clients in one browser share them.
        """
        client = Client(
            client_id=_random(26),
            org_id=org_id,
            user_id=user_id,
            token=token,
            browser=browser or _random(26),
            server=server or f"!{secrets.token_urlsafe(40)}",
            numbering=numbering,
            until=until,
        )
        with self._lock:
            self._by_id[client.client_id] = client
        return client

    def find(self, client_id: object, org_id: str, at: float) -> Client | None:
        """Client of this org that is not lost yet."""
        with self._lock:
            client = self._by_id.get(client_id) if isinstance(client_id, str) else None
            if client is None or client.org_id != org_id or client.until < at:
                return None
            return client

    def holds(self, client: Client) -> bool:
        with self._lock:
            return client.client_id in self._by_id

    def remove(self, client: Client) -> None:
        with self._lock:
            self._by_id.pop(client.client_id, None)
        if client.held:
            client.held.release()

    def lost(self, at: float) -> list[Client]:
        """Clients whose time has run out."""
        with self._lock:
            return [client for client in self._by_id.values() if client.until < at]

    def next_loss(self) -> float | None:
        """When the next client is lost, unless it connects."""
        with self._lock:
            times = [one.until for one in self._by_id.values() if one.until < math.inf]
            return min(times, default=None)

    def count(self, org_id: str) -> int:
        """How many an org has: what its limit of concurrent clients is about."""
        with self._lock:
            return sum(1 for client in self._by_id.values() if client.org_id == org_id)

    def close(self) -> None:
        """Answer every connect that is held, and hold none from now on."""
        with self._lock:
            self.closed = True
            held = [client.held for client in self._by_id.values() if client.held]
        for one in held:
            one.supersede()


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
