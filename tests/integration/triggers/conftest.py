"""A watcher on an emulator, without Airflow, with a time of its own: its pauses pass at once."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from upath import UPath

from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.hooks.outgoing.notifiers import notify_from_trigger
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.waiting.watch_environment import WatcherEnvironment
from airflow_provider_sfevents.waiting.watch_rules import Rules
from airflow_provider_sfevents.waiting.watcher import Watcher
from tests.integration.batches.conftest import TOPIC, Consumer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

DEADLINE_SECONDS = 120.0
QUICK = Rules(max_wait=0.1)


@pytest.fixture
def bus() -> Iterator[Emulator]:
    # One response for what is published at once: a watcher announces what its first response has.
    knobs = Knobs(half_close_seconds=0.01, keepalive_seconds=0.3, response_events=100)
    with Emulator(knobs=knobs) as emulator:
        emulator.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        yield emulator
        emulator.check()


@pytest.fixture
def consumer(bus: Emulator, tmp_path: Path) -> Consumer:
    return Consumer(bus=bus, root=tmp_path / "staging")


@dataclass
class Time:
    """The watcher's time: it passes only while the watcher sleeps, and then at once."""

    passed: float = 0.0

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds
        await asyncio.sleep(0.002)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed)


@dataclass
class Watch:
    """One watcher of one consumer, as a triggerer would run it.

    :ivar said: its announcements so far.
    :ivar errors: its errors so far; an empty one says that it listens again.
    :ivar runs: number of queued and running runs that Airflow reports, by DAG.
    """

    consumer: Consumer
    rules: Rules = QUICK
    time: Time = field(default_factory=Time)
    runs: dict[str, int] = field(default_factory=dict)
    said: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    well_seconds: float = 60.0
    root: Path | None = None
    settings: Callable[[], Settings] | None = None
    request: dict[str, Any] = field(default_factory=dict)
    look_seconds: float = 900.0
    notifier: Callable[[Any], None] | None = None
    listening: Callable[[BatchRequest], None] = lambda _: None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Watch]:
        """Run the watcher for the block; then cancel it, as a stopped triggerer does."""
        task = asyncio.create_task(self._watch())
        try:
            yield self
        finally:
            assert not task.done(), f"the watcher ended by itself: {task}"
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    async def _watch(self) -> None:
        environment = WatcherEnvironment(
            settings=self.settings or (lambda: self.consumer.settings),
            area=lambda: StagingArea(UPath(self.root or self.consumer.root)),
            store=lambda _: MappingStore(self.consumer.positions, "orders"),
            runs=lambda dag: self.runs.get(dag, 0),
            sleep=self.time.sleep,
            look_seconds=self.look_seconds,
            now=self.time.now,
            spread=lambda: 1.0,
            well_seconds=self.well_seconds,
            listening=self.listening,
            keep_error=lambda _, message, __: self.errors.append(message),
            **self._notified(),
        )
        request = BatchRequest(
            **{"topic": TOPIC, "consumer": "orders", "owns": False, **self.request}
        )
        async for announcement in Watcher(request, self.rules, environment).announcements():
            self.said.append(announcement)

    def _notified(self) -> dict[str, Any]:
        return {"notify": partial(notify_from_trigger, self.notifier)} if self.notifier else {}

    async def announced(self, times: int = 1) -> dict[str, Any]:
        """Wait for the announcement of this number, and return it."""
        await until(lambda: len(self.said) >= times, f"{times} announcements, not {self.said}")
        return self.said[times - 1]

    async def announced_events(self) -> dict[str, Any]:
        """Wait for the first announcement with events, and return it.

        Announcements of trouble before it are skipped: the watcher's time passes fast, and trouble
        is announced again after some of it.
        """
        await until(
            lambda: any("trouble" not in said for said in self.said),
            f"an announcement of events, not {self.said}",
        )
        return next(said for said in self.said if "trouble" not in said)

    async def stays_silent(self, seconds: float) -> None:
        """Assert that nothing is announced while so much of the watcher's time passes."""
        before, end = len(self.said), self.time.passed + seconds
        await until(
            lambda: self.time.passed >= end or len(self.said) > before,
            f"{seconds} s of the watcher's time",
        )
        assert len(self.said) == before, self.said[before:]


async def until(true: Callable[[], Any], what: str) -> None:
    """Wait for a condition.

    :raises AssertionError: it does not come true.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not true():
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s: {what}"
        await asyncio.sleep(0.002)


async def listening(bus: Emulator, streams: int = 1) -> None:
    """Wait until so many subscriptions are open."""
    await until(lambda: bus.open_streams == streams, f"{streams} open streams")


def wrong(settings: Settings) -> Settings:
    """The same connection with a wrong secret."""
    assert isinstance(settings.login, ClientCredentials)
    return replace(settings, login=replace(settings.login, client_secret=Secret("not-the-secret")))
