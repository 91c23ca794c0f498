"""A stream's next step follows the documented rules of credit, keepalive and closing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.grpc.credit_flow import (
    Close,
    CreditFlow,
    Keepalive,
    Send,
    Step,
    Wait,
)
from airflow_provider_sfevents.emulator.knobs import Knobs


def _flow(**knobs: object) -> CreditFlow:
    return CreditFlow(knobs=Knobs(**knobs), sizes=random.Random(1), at=0.0)  # type: ignore[arg-type]  # noqa: S311


def test_credit_beyond_100_can_be_refused() -> None:
    """With the knob, more than 100 outstanding events are refused."""
    flow = _flow(over_limit="reject")
    flow.request(70)
    with pytest.raises(RefusalError, match="overflow"):
        flow.request(31)


def test_a_response_holds_what_the_knob_says_and_credit_allows() -> None:
    """A response has the knob's fixed size, limited by the credit."""
    flow = _flow(response_events=4)
    flow.request(6)
    assert flow.next_step(0.0, ready=True) == Send(4)
    flow.responded(0.0, 4)
    assert (flow.pending, flow.next_step(0.0, ready=True)) == (2, Send(2))


def test_random_sizes_lie_within_their_bounds_and_repeat() -> None:
    """Random sizes are 1 to 16, vary, and repeat for the same seed."""

    def sizes() -> list[Step]:
        flow = _flow()
        flow.request(100)
        return [flow.next_step(0.0, ready=True) for _ in range(200)]

    counts = {step.events for step in sizes() if isinstance(step, Send)}
    assert sizes() == sizes()
    assert counts == set(range(1, 17))


def test_silence_then_keepalive_every_so_often() -> None:
    """A keepalive follows each silence, uses no credit and restarts the wait."""
    flow = _flow(keepalive_seconds=120)
    flow.request(10)
    assert flow.next_step(1.0, ready=False) == Wait(119.0)
    assert flow.next_step(120.0, ready=False) == Keepalive()
    flow.responded(120.0)
    assert (flow.pending, flow.next_step(121.0, ready=False)) == (10, Wait(119.0))


def test_without_credit_the_server_closes_after_a_minute() -> None:
    """Without credit a stream closes 60 s after the last response, despite waiting events."""
    flow = _flow(response_events=5, idle_close_status="UNAVAILABLE")
    flow.request(5)
    flow.responded(10.0, 5)
    assert flow.next_step(11.0, ready=True) == Wait(59.0)
    assert flow.next_step(70.0, ready=True) == Close("UNAVAILABLE")


def test_new_credit_in_time_keeps_it_open() -> None:
    """A request within the minute keeps the stream open."""
    flow = _flow(response_events=5)
    flow.request(5)
    flow.responded(10.0, 5)
    flow.request(1)
    assert flow.next_step(75.0, ready=True) == Send(1)


def test_half_close_ends_it_without_another_message() -> None:
    """After a half-close no event is sent, and the stream ends with OK."""
    flow = _flow()
    flow.request(10)
    flow.half_close(5.0)
    step = flow.next_step(5.1, ready=True)
    assert isinstance(step, Wait)
    assert step.seconds == pytest.approx(0.2)
    assert flow.next_step(5.31, ready=True) == Close("OK")


@given(st.lists(st.one_of(st.integers(1, 150), st.none()), max_size=60))
def test_outstanding_never_leaves_its_bounds(moves: list[int | None]) -> None:
    """Credit stays within 0 and 100, and no response exceeds it."""
    flow = _flow()
    for asked in moves:
        if asked is not None:
            flow.request(asked)
            continue
        step = flow.next_step(0.0, ready=True)
        if isinstance(step, Send):
            assert 1 <= step.events <= min(flow.pending, 16)
            flow.responded(0.0, step.events)
        assert 0 <= flow.pending <= 100
