"""Retry rules after a failure."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.exceptions import (
    QuotaExceededError,
    ReplayIdRefusedError,
    SfEventsError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.reconnect import MAX_TRIES, Retry, next_step
from airflow_provider_sfevents.pubsub.rpc_errors import OwnFaultError, TokenRefusedError
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import StreamEndedError


@pytest.mark.parametrize(
    "error",
    [
        ReplayIdRefusedError("x"),
        TopicError("x"),
        QuotaExceededError("x"),
        OwnFaultError("x"),
        SfEventsError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_another_stream_would_not_mend(error: SfEventsError) -> None:
    """An error that another try cannot help is raised at once."""
    assert next_step(error, tries=0, renewed=False, chance=0.5) is None


@pytest.mark.parametrize(
    "error", [TransportError("x"), StreamEndedError("x")], ids=["failed", "ended"]
)
def test_waits_grow_up_to_a_limit(error: SfEventsError) -> None:
    """Waits double from try to try up to a limit, until the last try raises the error."""
    steps = [next_step(error, tries=tries, renewed=False, chance=1.0) for tries in range(MAX_TRIES)]
    waits = [step.wait_seconds for step in steps if step is not None]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert steps[-1] is None


def test_waits_are_spread_from_nothing() -> None:
    """Clients that lost their streams together wait for different times."""
    assert next_step(TransportError("x"), tries=3, renewed=False, chance=0.25) == Retry(
        wait_seconds=1.0
    )


def test_a_refused_token_is_renewed_once() -> None:
    """A refused session is renewed at once; if the new one is refused too, the error is raised."""
    error = TokenRefusedError("x")
    assert next_step(error, tries=0, renewed=False, chance=0.5) == Retry(
        wait_seconds=0.0, renew=True
    )
    assert next_step(error, tries=0, renewed=True, chance=0.5) is None
