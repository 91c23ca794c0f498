"""CometD clients of an emulator: added by a handshake, lost if they do not reconnect in time.

Times are seconds of a monotonic clock and are passed in.
"""

from __future__ import annotations

import math
import secrets
import string
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator.state.call_log import RecordedSubscription

# Streaming API Developer Guide, "Clients and Timeouts": a connect is held for 110 s, and the next
# one must come within 40 s.
POLL_SECONDS, RECONNECT_SECONDS = 110.0, 40.0
_LETTERS = string.ascii_lowercase + string.digits


class HeldConnect(Protocol):
    """A connect without an answer yet."""

    def release(self) -> None:
        """Check again whether to answer; called from any thread."""

    def supersede(self) -> None:
        """Answer at once: another connect came, or the emulator stops; from any thread."""


@dataclass(slots=True, kw_only=True)
class Subscribed:
    """One subscription of a client.

    :param channel: as named by the client, with its filter.
    :param after: position up to which all events have been delivered.
    :param entry: its entry in the call log.
    :param topic: topic of the bus; the channel if empty.
    :param admits: decides by its payload if an event is for this subscription; None: all are.
    """

    channel: str
    after: int
    entry: RecordedSubscription
    topic: str = ""
    admits: Callable[[bytes], bool] | None = None

    @property
    def topic_name(self) -> str:
        """Topic of the bus."""
        return self.topic or self.channel


@dataclass(slots=True, kw_only=True)
class CometdClient:
    """One client session of the Streaming API.

    :param token: token of its last request; a connected client keeps it from expiring.
    :param browser: value of its cookie BAYEUX_BROWSER.
    :param server: value of its cookie sfdc-stream, which routes requests to the server of the
        session.
    :param numbering: numbering of the bus at the handshake; another one means that the org has
        moved.
    :param until: time at which the client is lost unless it connects; infinite while a connect is
        held.
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
    held: HeldConnect | None = None
    subscriptions: dict[str, Subscribed] = field(default_factory=dict)


class CometdClients:
    """All CometD clients of an emulator. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, CometdClient] = {}
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
    ) -> CometdClient:
        """Add a client.

        :param browser: value of the cookie that the client sent; generated if empty, as is
            `server`. Several clients in one browser share them.
        """
        client = CometdClient(
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

    def find(self, client_id: object, org_id: str, at: float) -> CometdClient | None:
        """Find a client of this org that is not lost."""
        with self._lock:
            client = self._by_id.get(client_id) if isinstance(client_id, str) else None
            if client is None or client.org_id != org_id or client.until < at:
                return None
            return client

    def holds(self, client: CometdClient) -> bool:
        with self._lock:
            return client.client_id in self._by_id

    def remove(self, client: CometdClient) -> None:
        with self._lock:
            self._by_id.pop(client.client_id, None)
        if client.held:
            client.held.release()

    def lose_all(self) -> None:
        """Forget every client: a held connect and every later message is answered so."""
        with self._lock:
            clients = [*self._by_id.values()]
        for client in clients:
            if client.held:
                self.remove(client)
            else:
                client.until = -math.inf

    def lost(self, at: float) -> list[CometdClient]:
        """Clients that did not reconnect in time."""
        with self._lock:
            return [client for client in self._by_id.values() if client.until < at]

    def next_loss(self) -> float | None:
        """Time at which the next client is lost, unless it connects."""
        with self._lock:
            times = [one.until for one in self._by_id.values() if one.until < math.inf]
            return min(times, default=None)

    def count(self, org_id: str) -> int:
        """Number of clients of an org, which its limit of concurrent clients counts."""
        with self._lock:
            return sum(1 for client in self._by_id.values() if client.org_id == org_id)

    def subscribers(self, org_id: str, topic: str) -> list[str]:
        """User ids of all subscriptions to a topic, once per subscription."""
        with self._lock:
            return [
                client.user_id
                for client in self._by_id.values()
                if client.org_id == org_id
                for one in tuple(client.subscriptions.values())
                if one.topic_name == topic
            ]

    def close(self) -> None:
        """Answer every held connect, and hold no further one."""
        with self._lock:
            self.closed = True
            held = [client.held for client in self._by_id.values() if client.held]
        for one in held:
            one.supersede()


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))
