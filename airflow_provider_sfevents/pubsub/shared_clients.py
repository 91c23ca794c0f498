"""One client per event loop and settings: the waits of a triggerer share its channels and streams.

A client counts its users and is closed with the last of them.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.client import PubSubClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from airflow_provider_sfevents.pubsub.auth.settings import Settings


@dataclass(slots=True)
class _Shared:
    client: PubSubClient
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    users: int = 0


def _client(settings: Settings) -> PubSubClient:
    return PubSubClient(settings, share_streams=True)


class SharedClients:
    """Clients by loop and settings.

    An entry keeps its loop alive, so the loop's `id()` is a safe key while the entry has users.
    """

    def __init__(self, make: Callable[[Settings], PubSubClient] = _client) -> None:
        self._make = make
        self._shared: dict[tuple[int, Settings], _Shared] = {}

    @asynccontextmanager
    async def client(self, settings: Settings) -> AsyncIterator[PubSubClient]:
        """The client of this loop and these settings; it stays open while it has users."""
        key = (id(asyncio.get_running_loop()), settings)
        if key not in self._shared:
            self._shared[key] = _Shared(self._make(settings))
        shared = self._shared[key]
        shared.users += 1
        try:
            yield shared.client
        finally:
            shared.users -= 1
            if not shared.users:
                # first: a user that comes while it closes gets another client
                del self._shared[key]
                await shared.client.__aexit__(None, None, None)


_PROCESS = SharedClients()


def shared_client(settings: Settings) -> AbstractAsyncContextManager[PubSubClient]:
    """One client per running loop and settings.

    Its streams are shared (`PubSubClient(share_streams=True)`).
    """
    return _PROCESS.client(settings)
