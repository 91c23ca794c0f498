"""Limits on requests, clients and events, and seeded random decisions."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.grpc.credit_flow import Keepalive, Wait
from airflow_provider_sfevents.emulator.grpc.publishing_stream import Ends, PublishFlow
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.seeded_random import SeededRandom
from airflow_provider_sfevents.emulator.state.client_limits import (
    ClientLimits,
    ClientSlots,
    RateLimit,
)
from airflow_provider_sfevents.emulator.state.publish_allocation import PublishAllocation


def test_so_often_in_any_second() -> None:
    """Only actions of the last second count; without a limit none is refused."""
    limit = RateLimit(2, "too.much")
    limit.take(0.0)
    limit.take(0.9)
    with pytest.raises(RefusalError, match=r"too\.much"):
        limit.take(0.99)
    limit.take(1.0)
    for _ in range(10_000):
        RateLimit(None, "too.much").take(0.0)


def test_orgs_are_counted_apart() -> None:
    """Each org has its own counts of calls and clients."""
    protection = ClientLimits(calls_per_second=1, max_clients=1)
    protection.call("a", 0.0)
    protection.call("b", 0.0)
    with pytest.raises(RefusalError, match=r"service\.protection\.triggered"):
        protection.call("a", 0.5)
    clients = protection.clients
    with (
        clients.holding("a"),
        clients.holding("b"),
        pytest.raises(RefusalError, match="concurrent"),
    ):
        clients.holding("a").__enter__()
    with protection.clients.holding("a"):
        pass


@pytest.mark.parametrize(("limit", "admitted"), [(0, 0), (2, 2), (None, 1_000)])
def test_clients_at_once(limit: int | None, admitted: int) -> None:
    """A limit admits its number of concurrent clients; without a limit, all."""
    clients = ClientSlots(limit)

    def come() -> int:
        with ExitStack() as held:
            for number in range(1_000):
                try:
                    held.enter_context(clients.holding("a"))
                except RefusalError:
                    return number
        return 1_000

    assert [come(), come()] == [admitted, admitted]


def test_events_of_an_hour() -> None:
    """Each org may publish its allowance, and again as the hour moves on."""
    clock = EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
    allocation = PublishAllocation(clock=clock, knobs=Knobs(publish_allocation=10))
    assert [allocation.take("a", 6), allocation.take("a", 6), allocation.take("a", 1)] == [6, 4, 0]
    assert (allocation.used("a"), allocation.used("b"), allocation.take("b", 3)) == (10, 0, 3)
    clock.advance(minutes=59)
    assert allocation.take("a", 1) == 0
    clock.advance(minutes=1)
    assert (allocation.used("a"), allocation.take("a", 1)) == (0, 1)


def test_without_an_allocation_events_are_counted_only() -> None:
    """Without an allocation events are still counted for REST's limits, for one hour."""
    clock = EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
    allocation = PublishAllocation(clock=clock, knobs=Knobs(publish_allocation=None))
    for _ in range(180):
        clock.advance(minutes=1)
        assert allocation.take("a", 1_000_000) == 1_000_000
    assert len(allocation._recent["a"]) == 60
    assert allocation.used("a") == 60_000_000


def test_a_publish_stream_is_kept_alive_then_swept() -> None:
    """Keepalives follow the last response, the sweep follows the last request."""
    flow = PublishFlow(knobs=Knobs(publish_keepalive_seconds=270, publish_idle_seconds=600), at=0.0)
    assert flow.next_step(0.0) == Wait(270.0)
    assert flow.next_step(270.0) == Keepalive()
    flow.responded(270.0)
    flow.requested(500.0)
    flow.responded(500.0)
    assert flow.next_step(600.0) == Wait(170.0)
    flow.responded(1_000.0)
    assert flow.next_step(1_099.0) == Wait(1.0)
    assert flow.next_step(1_100.0) == Ends()


def test_chance_is_repeatable_and_free_at_zero() -> None:
    """A seed repeats its decisions; a share of 0 never happens, of 1 always."""
    several = [SeededRandom("a").doubled(range(50), 0.4) for _ in range(2)]
    assert several[0] == several[1]
    assert SeededRandom("a").doubled([1, 2], 0.0) == [1, 2]
    assert SeededRandom("a").doubled([1, 2], 1.0) == [1, 1, 2, 2]
    assert not any(SeededRandom("a").happens(0.0) for _ in range(100))
