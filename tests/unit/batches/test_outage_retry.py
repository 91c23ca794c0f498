from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.outage_retry import outlast
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    QuotaExceededError,
    SfEventsError,
    StoppedError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.reconnect import MAX_WAIT_SECONDS
from tests.harness.quick_loop import run_quickly

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

AWAY = TransportError("The service is away.")


class Service:
    """A service that is away until a time of the loop's clock, and records its calls."""

    def __init__(self, until: float, error: SfEventsError = AWAY) -> None:
        self.until = until
        self.error = error
        self.called_at: list[float] = []

    async def call(self) -> str:
        now = asyncio.get_running_loop().time()
        self.called_at.append(now)
        if now < self.until:
            raise self.error
        return "answer"


def outlasted(call: Callable[[], Awaitable[str]], deadline: float) -> str:
    async def wait() -> str:
        return await outlast(call, deadline, asyncio.Event())

    return str(run_quickly(wait()))


@pytest.mark.parametrize("seconds", [0, 10, 30, 300])
def test_an_outage_that_ends_in_time_is_waited_out(seconds: float) -> None:
    """A call is repeated during an outage, with pauses that grow up to half a minute."""
    service = Service(until=seconds)
    assert outlasted(service.call, 600) == "answer"
    pauses = [after - before for before, after in itertools.pairwise(service.called_at)]
    assert all(pause <= MAX_WAIT_SECONDS for pause in pauses)
    assert len(service.called_at) <= 5 + seconds / (MAX_WAIT_SECONDS / 2) + 6


@pytest.mark.parametrize("deadline", [1, 30, 600])
def test_an_outage_that_outlasts_the_deadline_is_the_calls_error(deadline: float) -> None:
    """An outage beyond the deadline raises the call's error, and no pause ends after it."""
    service = Service(until=10_000)
    with pytest.raises(TransportError, match="The service is away"):
        outlasted(service.call, deadline)
    assert service.called_at[-1] <= deadline
    assert service.called_at[-1] >= deadline - MAX_WAIT_SECONDS


def test_a_call_is_made_once_even_after_the_deadline() -> None:
    """A call is made once even if its deadline has passed."""
    assert outlasted(Service(until=0).call, -1) == "answer"
    with pytest.raises(TransportError):
        outlasted(Service(until=1).call, -1)


@pytest.mark.parametrize(
    "error", [ConfigurationError("no such topic"), QuotaExceededError("the allowance is used up")]
)
def test_an_error_that_does_not_pass_is_raised_at_once(error: SfEventsError) -> None:
    """A configuration error or an exhausted allowance is raised without a retry."""
    service = Service(until=1, error=error)
    with pytest.raises(type(error)):
        outlasted(service.call, 600)
    assert service.called_at == [0.0]


def test_a_stop_ends_the_wait() -> None:
    """A task that is stopped during an outage does not call again."""
    service = Service(until=10_000)

    async def wait() -> None:
        stopping = asyncio.Event()
        asyncio.get_running_loop().call_later(20, stopping.set)
        await outlast(service.call, 600, stopping)

    with pytest.raises(StoppedError, match="nothing was fetched"):
        run_quickly(wait())
    assert service.called_at[-1] < 20


def test_a_warning_says_until_when_tries_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """The warning of a retry says for how long the call is retried at most."""
    with pytest.raises(TransportError):
        outlasted(Service(until=100).call, 10)
    assert caplog.messages[0].startswith("Trying again ")
    assert caplog.messages[0].endswith("and for 10 s at most: The service is away.")
