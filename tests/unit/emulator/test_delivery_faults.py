"""Delivery faults on plain lists of events."""

from __future__ import annotations

from airflow_provider_sfevents.emulator.bus.replay_log import StoredEvent
from airflow_provider_sfevents.emulator.faults.delivery_faults import DeliveryFaults
from airflow_provider_sfevents.emulator.knobs import Knobs


def _events(*positions: int) -> list[StoredEvent]:
    return [StoredEvent(position, 0.0, "/event/A__e", b"") for position in positions]


def _out(faults: DeliveryFaults, *positions: int) -> list[int]:
    return [event.position for event in faults.with_faults(_events(*positions))]


def test_repeats_go_on_over_responses() -> None:
    """The ordered number of events is repeated across several responses."""
    faults = DeliveryFaults(Knobs())
    faults.repeat(2)
    faults.repeat(1)
    assert _out(faults, 1, 2) == [1, 1, 2, 2]
    assert _out(faults, 3, 4) == [3, 3, 4]
    assert _out(faults, 5) == [5]


def test_reordered_events_may_be_repeated() -> None:
    """A reordering and a repetition apply together."""
    faults = DeliveryFaults(Knobs())
    faults.reorder(2)
    faults.repeat(1)
    assert _out(faults, 1, 2) == [2, 2, 1]


def test_clearing_forgets_all() -> None:
    """After a clear no ordered fault occurs."""
    faults = DeliveryFaults(Knobs())
    faults.repeat(1)
    faults.reorder(2)
    faults.resend(1, times=1)
    faults.keepalives_paused = True
    assert [fault.how for fault in faults.waiting()] == [
        "repeat",
        "reorder",
        "pause keepalives",
        "resend",
    ]
    faults.clear()
    assert faults.waiting() == ()
    assert _out(faults, 1, 2) == [1, 2]


def test_rates_repeat_and_reorder_by_themselves() -> None:
    """The rates repeat events and reverse responses, equally for the same seed."""
    faults = DeliveryFaults(Knobs(repeat_rate=1.0, reorder_rate=1.0))
    assert _out(faults, 1, 2) == [2, 2, 1, 1]
    few = [_out(DeliveryFaults(Knobs(repeat_rate=0.3)), *range(100)) for _ in range(2)]
    assert few[0] == few[1]
    assert 100 < len(few[0]) < 160
