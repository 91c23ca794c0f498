"""One client for all that runs in one event loop with equal settings: a triggerer's waits share its channels and streams.

A client is counted by its users and closed with the last of them.
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
    """Loops are told apart by identity, which holds while one of them has users: an entry keeps its loop alive."""

    def __init__(self, make: Callable[[Settings], PubSubClient] = _client) -> None:
        self._make = make
        self._shared: dict[tuple[int, Settings], _Shared] = {}

    @asynccontextmanager
    async def client(self, settings: Settings) -> AsyncIterator[PubSubClient]:
        """The client of this loop and these settings, open for as long as one of its users is here."""
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
                del self._shared[key]  # first: whoever comes while it closes gets another
                await shared.client.__aexit__(None, None, None)


_PROCESS = SharedClients()


def shared_client(settings: Settings) -> AbstractAsyncContextManager[PubSubClient]:
    """One client per running loop and settings; its streams are shared (`PubSubClient(share_streams=True)`)."""
    return _PROCESS.client(settings)
