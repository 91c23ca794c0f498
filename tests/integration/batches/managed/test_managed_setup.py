from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.event_source import SETUP_SECONDS
from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from tests.integration.batches.conftest import publish
from tests.integration.batches.managing import (
    NAME,
    PATIENT,
    ManagedConsumer,
    ManagedWaiter,
    define,
    refused,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator


def asked(bus: Emulator) -> int:
    """Return the number of API requests so far; each counts against the org's limit."""
    return sum(call.rpc == "rest" for call in bus.requests)


def test_pokes_ask_for_the_setup_now_and_then(
    bus: Emulator, consumer: ManagedConsumer, waiter: ManagedWaiter
) -> None:
    """A sensor that pokes each minute reads the subscription's setup every quarter of an hour."""
    define(bus)
    for _ in range(3):
        assert not waiter.poke().enough
    assert asked(bus) == 1
    bus.set_managed_subscription(NAME, error_recovery_replay="LATEST")
    consumer.later = SETUP_SECONDS - 60
    assert not waiter.poke().enough
    consumer.later = SETUP_SECONDS + 60
    assert "errorRecoveryReplay LATEST" in refused(waiter.poke)
    assert asked(bus) == 2
    bus.set_managed_subscription(NAME, error_recovery_replay="EARLIEST")
    assert not waiter.poke().enough  # an unsuitable setup is not cached


def test_a_task_that_fetches_asks_each_time(
    bus: Emulator, consumer: ManagedConsumer, waiter: ManagedWaiter
) -> None:
    """A fetching task reads the subscription's setup each time, and refuses a lossy one."""
    define(bus)
    publish(bus, 1, 1)
    assert waiter.poke().enough
    bus.set_managed_subscription(NAME, error_recovery_replay="LATEST")
    with pytest.raises(ConfigurationError, match="errorRecoveryReplay LATEST"):
        consumer.stage()
    assert "errorRecoveryReplay LATEST" in refused(waiter.poke)  # all share a fresh answer


def test_a_poke_notices_that_it_was_stopped_or_deleted(
    bus: Emulator, consumer: ManagedConsumer, waiter: ManagedWaiter
) -> None:
    """A poke reads the setup again once the service refuses the stream, and names the remedy."""
    define(bus)
    assert not waiter.poke().enough
    bus.set_managed_subscription(NAME, state="STOP")
    assert "state to RUN" in refused(waiter.poke)
    assert "has state STOP" in refused(waiter.poke)
    bus.set_managed_subscription(NAME, state="RUN")
    assert not waiter.poke().enough
    bus.delete_managed_subscription(NAME)
    consumer.timeouts = replace(PATIENT, propagation_seconds=0.0)
    with pytest.raises(TransportError, match="does not know it"):
        waiter.poke()
    assert "the org has none with this developer name" in refused(waiter.poke)
