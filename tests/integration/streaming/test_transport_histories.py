"""Both of Salesforce's APIs land the same rows and the same records, whatever fails on the way.

`make proof` goes through 2,000 histories, `make histories` through as many with new seeds.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.streaming.topic_client import StreamingTopicClient
from tests.histories.seeds import REPEATED_BY, SEED
from tests.histories.transport_history import Figures, TransportHistory
from tests.histories.transport_plan import ALL_FAULTS, planned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.batches.event_source import TopicClient

log = logging.getLogger(__name__)

LANES = 8
"""Histories at once, each on an emulator of its own, as most of their time is waiting."""

FEW, MANY = 32, 2_000
KNOBS = Knobs(
    half_close_seconds=0.005,
    response_events=(1, 4),
    cometd_batch_events=2,
    cometd_time_scale=0.05,
)


async def _short(seconds: float) -> None:
    await asyncio.sleep(min(seconds, 0.01))


CLOCK = Clock(chance=lambda: 0.0, sleep=_short)


def _settings(bus: Emulator) -> Settings:
    org = bus.connection()
    return Settings(
        login=ClientCredentials(
            login_url=org["host"], client_id=org["login"], client_secret=Secret(org["password"])
        ),
        endpoint=bus.endpoint,
        plaintext=True,
    )


async def _lane(bus: Emulator, seeds: Iterator[int], figures: Figures) -> None:
    """Go through histories until there are no more seeds."""
    settings = _settings(bus)
    async with AsyncExitStack() as opened:
        clients: dict[str, TopicClient] = {
            "pubsub": await opened.enter_async_context(PubSubClient(settings, clock=CLOCK)),
            "streaming": await opened.enter_async_context(
                StreamingTopicClient(settings, clock=CLOCK)
            ),
        }
        for seed in seeds:
            await TransportHistory(planned(seed), bus, clients).run(figures)


async def _run(buses: list[Emulator], seeds: range) -> Figures:
    figures, left = Figures(), iter(seeds)
    async with asyncio.TaskGroup() as lanes:
        for bus in buses:
            lanes.create_task(_lane(bus, left, figures))
    return figures


@pytest.mark.parametrize(
    "histories",
    [FEW, pytest.param(MANY, marks=[pytest.mark.full, pytest.mark.soak])],
)
@pytest.mark.timeout(3600)
def test_both_apis_land_the_same(histories: int) -> None:
    """After each history both have the same rows, all of them once, and the same records."""
    with ExitStack() as opened:
        buses = [opened.enter_context(Emulator(knobs=KNOBS)) for _ in range(LANES)]
        figures = asyncio.run(_run(buses, range(SEED, SEED + histories)))
    log.info("%s: %s", REPEATED_BY, figures)
    assert figures.histories == histories
    assert histories == FEW or figures.faults.keys() == set(ALL_FAULTS)
