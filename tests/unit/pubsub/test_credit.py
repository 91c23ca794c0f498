"""Credit rules, against a service that counts as Salesforce documents it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from airflow_provider_sfevents.pubsub import credit
from airflow_provider_sfevents.pubsub.credit import FEWEST, MAX_CREDIT, Credit


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
    service, here, received, asked, step = Service(), Credit(), 0, 0, 0
    while received < batch:
        asking = here.to_ask(credit.wanted(batch - received, None, 1.0))
        if asking:
            asked, here = asked + asking, here.asked(asking, step)
            service.under_way.append(asking)
        assert here.outstanding > 0
        service.arrive(max(1, len(service.under_way) - delays[step % len(delays)]))
        events = service.deliver(spans[step % len(spans)])
        received += events
        here = here.delivered(events, reported=service.pending, waited_seconds=0.0, at=step)
        assert here.outstanding <= MAX_CREDIT
        step += 1
    assert (asked, service.delivered, here.outstanding) == (batch, batch, 0)
    assert service.highest <= MAX_CREDIT


@dataclass
class Link:
    """A service with endless events behind a link; a tick of a millisecond brings one response.

    The way back takes no time, which changes nothing.

    :param events: of a response.
    :param ticks: from a request to the service.
    :param at_once: requests after each response, whatever was measured.
    """

    events: int
    ticks: int
    at_once: bool = False
    here: Credit = field(default_factory=Credit)
    service: Service = field(default_factory=Service)
    arriving: list[int] = field(default_factory=list)
    now: int = 0
    requests: int = 0
    idle: int = 0

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now += 1
            asking = MAX_CREDIT - self.here.outstanding
            asking = asking if self.at_once else self.here.to_ask(MAX_CREDIT)
            if asking:
                self.here = self.here.asked(asking, self.now / 1000)
                self.requests += 1
                self.service.under_way.append(asking)
                self.arriving.append(self.now + self.ticks)
            due = sum(at <= self.now for at in self.arriving)
            self.service.arrive(due)
            del self.arriving[:due]
            came = self.service.deliver(self.events)
            self.idle += came == 0
            if came:
                self.here = self.here.delivered(
                    came, reported=self.service.pending, waited_seconds=0.0, at=self.now / 1000
                )


@pytest.mark.parametrize("events", [1, 4, 16, 33])
def test_a_fast_link_is_asked_seldom_and_never_idle(events: int) -> None:
    """At a round trip of a millisecond there are at most 4 requests per 100 events, and no idle."""
    link = Link(events=events, ticks=1)
    link.run(1_000)
    assert link.idle <= 1  # the first request
    assert link.requests <= 4 * link.service.delivered / 100


@pytest.mark.parametrize("ticks", [3, 7, 10, 30, 100])
def test_a_slow_link_is_asked_after_each_response(ticks: int) -> None:
    """If all credit is gone before a request arrives, nothing is held back for long."""
    link, at_once = (Link(events=16, ticks=ticks, at_once=one) for one in (False, True))
    for one in (link, at_once):
        one.run(100 * ticks)
    assert link.service.delivered >= 0.95 * at_once.service.delivered


@pytest.mark.parametrize(
    ("outstanding", "round_trip", "wanted", "asking"),
    [
        pytest.param(41, None, 100, 0, id="not measured yet: taken for fast"),
        pytest.param(40, None, 100, 60, id="a span of the credit is gone"),
        pytest.param(40, 0.001, 100, 60, id="a fast link"),
        pytest.param(70, 0.003, 100, 30, id="75 events in a round trip"),
        pytest.param(76, 0.003, 100, 0, id="more than those are there"),
        pytest.param(96, 0.080, 100, 4, id="a slow link"),
        pytest.param(97, 0.080, 100, 0, id="a response of 3 events is not worth a request"),
        pytest.param(19, 0.080, 20, 1, id="the rest of a batch on a slow link"),
        pytest.param(11, 0.000, 20, 0, id="on a fast one"),
        pytest.param(0, 0.000, 20, 20, id="when nothing is left"),
    ],
)
def test_when_to_ask(outstanding: int, round_trip: float | None, wanted: int, asking: int) -> None:
    """A request is due when what is left could be gone before it arrives."""
    assert Credit(outstanding, round_trip).to_ask(wanted) == asking


def test_the_smallest_round_trip_counts() -> None:
    """The time of a request ends with the response that counts it, however many come before."""
    here = Credit().asked(100, 1.0)
    here = here.delivered(60, reported=40, waited_seconds=0.0, at=1.5)
    assert here == Credit(40, 0.5)
    here = here.asked(60, 2.0).delivered(10, reported=30, waited_seconds=0.0, at=2.1)
    assert here == Credit(90, 0.5, 2.0)
    assert here.delivered(10, reported=80, waited_seconds=0.0, at=2.2) == Credit(80, 2.2 - 2.0)
    assert here.delivered(10, reported=80, waited_seconds=0.0, at=2.9) == Credit(80, 0.5)


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
    """Credit is raised to what is wanted, but for a few events, and never taken back."""
    asking = Credit(outstanding, 0.004).to_ask(wanted)
    wanted = min(wanted, MAX_CREDIT)
    assert outstanding + asking == wanted if asking else outstanding > wanted - FEWEST


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
def test_the_clients_count_is_used_unless_the_services_is_higher(
    outstanding: int, delivered: int, reported: int, waited: float, after: int
) -> None:
    """The client's count is used, unless the service's is higher or certainly complete."""
    before = Credit(outstanding=outstanding)
    found = before.delivered(delivered, reported=reported, waited_seconds=waited, at=0.0)
    assert found.outstanding == after
