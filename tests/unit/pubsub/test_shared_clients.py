"""One client per loop and settings, while it has users."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from typing_extensions import override

from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken, Settings
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.shared_clients import SharedClients

SETTINGS = Settings(
    login=SessionToken(token=Secret("t"), instance_url="https://x.my.salesforce.com")
)
OTHER = replace(SETTINGS, endpoint="api.deu.pubsub.salesforce.com:443")


class Made:
    """Clients that were made, and the number of times each was closed."""

    def __init__(self) -> None:
        self.closed: list[int] = []
        self.shared = SharedClients(self._make)

    def _make(self, settings: Settings) -> PubSubClient:
        at = len(self.closed)
        self.closed.append(0)
        made = self

        class Counted(PubSubClient):
            @override
            async def __aexit__(self, *_: object) -> None:
                made.closed[at] += 1
                await asyncio.sleep(0)

        return Counted(settings)


def test_equal_settings_share_a_client() -> None:
    """Equal settings share a client even as different objects; other settings have their own."""

    async def play() -> Made:
        made = Made()
        async with (
            made.shared.client(SETTINGS) as first,
            made.shared.client(replace(SETTINGS)) as second,
            made.shared.client(OTHER) as third,
        ):
            assert first is second
            assert first is not third
        return made

    assert asyncio.run(play()).closed == [1, 1]


def test_it_survives_that_its_first_user_leaves() -> None:
    """A client is closed once, by the last user that leaves."""

    async def play() -> None:
        made, left, stay = Made(), asyncio.Event(), asyncio.Event()

        async def use(until: asyncio.Event) -> None:
            async with made.shared.client(SETTINGS):
                await until.wait()

        first, second = asyncio.ensure_future(use(left)), asyncio.ensure_future(use(stay))
        await asyncio.sleep(0)
        left.set()
        await first
        assert made.closed == [0]
        second.cancel()
        await asyncio.wait((second,))
        assert made.closed == [1]

    asyncio.run(play())


def test_a_user_that_comes_while_it_closes_gets_another() -> None:
    """A user that comes while a client closes gets another one."""

    async def play() -> None:
        made = Made()

        async def use() -> PubSubClient:
            async with made.shared.client(SETTINGS) as client:
                return client

        first = asyncio.ensure_future(use())
        await asyncio.sleep(0)  # it is closing now
        assert await use() is not await first
        assert made.closed == [1, 1]

    asyncio.run(play())


def test_each_loop_has_its_own() -> None:
    """Each event loop has its own client, because channels belong to their loop."""
    made = Made()

    async def use() -> PubSubClient:
        async with made.shared.client(SETTINGS) as client:
            return client

    assert asyncio.run(use()) is not asyncio.run(use())
