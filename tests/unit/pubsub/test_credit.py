"""Credit rules, against a service that counts as Salesforce documents it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from airflow_provider_sfevents.pubsub import credit


@dataclass
class Service:
    """Adds requests, delivers on demand, clamps at 100.

    Requests reach it late, as the test decides.
    """

    pending: int = 0
    delivered: int = 0
    highest: int = 0
    under_way: list[int] = field(default_factory=list)

    def arrive(self, requests: int) -> None:
        for asked in self.under_way[:requests]:
            self.pending += asked
            self.highest = max(self.highest, self.pending)
            self.pending = min(self.pending, 100)
        del self.under_way[:requests]

    def deliver(self, events: int) -> int:
        events = min(events, self.pending)
        self.pending -= events
        self.delivered += events
        return events


@settings(deadline=None)  # a busy machine is no defect
@given(
    batch=st.integers(1, 2_000),
    spans=st.lists(st.integers(1, 100), min_size=1, max_size=40),
    delays=st.lists(st.integers(0, 3), min_size=1, max_size=40),
)
def test_a_batch_is_asked_for_exactly_and_never_starved(
    batch: int, spans: list[int], delays: list[int]
) -> None:
    """Credit never exceeds 100 and never starves, however late requests arrive."""
    service, outstanding, received, asked, step = Service(), 0, 0, 0, 0
    while received < batch:
        asking = credit.to_ask(outstanding, credit.wanted(batch - received, None, 1.0))
        asked, outstanding = asked + asking, outstanding + asking
        assert outstanding > 0
        if asking:
            service.under_way.append(asking)
        service.arrive(max(1, len(service.under_way) - delays[step % len(delays)]))
        events = service.deliver(spans[step % len(spans)])
        received += events
        outstanding = credit.after_delivery(
            outstanding, delivered=events, reported=service.pending, waited_seconds=0.0
        )
        assert outstanding <= 100
        step += 1
    assert (asked, service.delivered, outstanding) == (batch, batch, 0)
    assert service.highest <= 100


@settings(deadline=None)  # a busy machine is no defect
@given(
    room=st.integers(-5, 500),
    room_bytes=st.none() | st.integers(-5, 100_000),
    mean=st.floats(0, 1e6),
)
def test_what_is_wanted_stays_within_the_room(
    room: int, room_bytes: int | None, mean: float
) -> None:
    """Credit is 0 without room, otherwise from 1 up to 100 and up to the room."""
    wanted = credit.wanted(room, room_bytes, mean)
    if room <= 0 or (room_bytes is not None and room_bytes <= 0):
        assert wanted == 0
    else:
        assert 1 <= wanted <= min(100, room)


@pytest.mark.parametrize(
    ("room_bytes", "mean", "wanted"),
    [
        (1_000_000, 1_000.0, 100),
        (10_000, 1_000.0, 10),
        (10_001, 1_000.0, 11),
        (1, 1_000.0, 1),
        (5, 0.0, 5),
    ],
)
def test_credit_runs_down_as_bytes_run_out(room_bytes: int, mean: float, wanted: int) -> None:
    """Near `max_bytes` the credit is the number of events that fit by mean size, rounded up."""
    assert credit.wanted(10_000, room_bytes, mean) == wanted


@settings(deadline=None)  # a busy machine is no defect
@given(outstanding=st.integers(0, 100), wanted=st.integers(0, 500))
def test_asking_reaches_the_wanted_credit_or_leaves_it(outstanding: int, wanted: int) -> None:
    """Credit is raised to what is wanted and never taken back."""
    asking = credit.to_ask(outstanding, wanted)
    assert outstanding + asking == max(outstanding, min(wanted, 100))


@pytest.mark.parametrize(
    ("outstanding", "delivered", "reported", "waited", "after"),
    [
        pytest.param(100, 10, 83, 0.1, 90, id="a request is under way"),
        pytest.param(100, 10, 95, 0.1, 95, id="the service counts more than the client"),
        pytest.param(100, 10, 70, 11.0, 70, id="nothing can be under way any more"),
        pytest.param(100, 10, 70, 10.0, 70, id="from ten seconds on"),
        pytest.param(100, 10, 70, 9.999, 90, id="and not a moment before"),
        pytest.param(100, 0, 84, 120.0, 84, id="keepalive after a clamp"),
        pytest.param(5, 8, 0, 0.1, 0, id="more came than was asked for"),
        pytest.param(100, 1, 250, 0.1, 100, id="no service holds more than 100"),
    ],
)
def test_whose_count_is_believed(
    outstanding: int, delivered: int, reported: int, waited: float, after: int
) -> None:
    """The client's count is used, unless the service's is higher or certainly complete."""
    assert after == credit.after_delivery(
        outstanding, delivered=delivered, reported=reported, waited_seconds=waited
    )
