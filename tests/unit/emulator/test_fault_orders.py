"""Faults wait for the call that they were ordered for."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.faults.fault_orders import FaultOrder, FaultOrders
from airflow_provider_sfevents.emulator.knobs import Knobs


def _outcomes(faults: FaultOrders, rpc: str, calls: int) -> list[bool]:
    """Results of the calls, in order."""
    return [faults.take(rpc) is None for _ in range(calls)]


def test_so_many_calls_fail_after_so_many_answered() -> None:
    """`after` calls of a unary RPC are answered first, then `times` calls fail."""
    faults = FaultOrders(Knobs())
    faults.add("GetTopic", error_code="topic.api.unavailable", times=2, after=1)
    assert _outcomes(faults, "GetSchema", 1) == [True]
    assert _outcomes(faults, "GetTopic", 5) == [True, False, False, True, True]


def test_usual_status_goes_with_a_code() -> None:
    """A code, with or without prefix, has its status; a status alone is a transport error."""
    faults = FaultOrders(Knobs())
    faults.add("Publish", error_code="sfdc.platform.eventbus.grpc.service.auth.error")
    faults.add("Publish", status="UNAVAILABLE")
    faults.add("Publish")
    refusals = [fault.refusal for fault in (faults.take("Publish") for _ in range(3)) if fault]
    assert [(refusal.code, refusal.status) for refusal in refusals] == [
        ("service.auth.error", "UNAUTHENTICATED"),
        ("", "UNAVAILABLE"),
        ("service.unavailable", "INTERNAL"),
    ]


@pytest.mark.parametrize(
    ("rpc", "more", "why"),
    [
        ("Subcribe", {}, "'Subcribe' is not one of"),
        ("Subscribe", {"status": "BAD"}, "'BAD' is not a gRPC status"),
        ("Subscribe", {"error_code": "new.code"}, "give its status too"),
    ],
)
def test_mistakes_are_named(rpc: str, more: dict[str, str], why: str) -> None:
    """An impossible fault is refused when it is ordered."""
    with pytest.raises(EmulatorError, match=why):
        FaultOrders(Knobs()).add(rpc, **more)  # type: ignore[arg-type]


def test_a_fault_is_due_by_count_or_by_time() -> None:
    """A fault is due by count or time, whichever is first; with neither, at once."""
    assert FaultOrder().is_due(0, 0.0)
    assert [FaultOrder(after=2).is_due(n, 99.0) for n in (1, 2)] == [False, True]
    assert [FaultOrder(after_seconds=2).is_due(99, at) for at in (1.9, 2.0)] == [False, True]
    both = FaultOrder(after=2, after_seconds=2)
    assert [both.is_due(n, at) for n, at in ((1, 1.0), (2, 1.0), (1, 2.0))] == [False, True, True]


def test_what_waits_is_listed_as_it_is_left() -> None:
    """A listing has the remaining counts and what open streams wait for, until it happens."""
    faults = FaultOrders(Knobs())
    faults.add("Subscribe", error_code="topic.not.found", times=2)
    faults.add("Publish", how="reset", after=1)
    taken = faults.take("Subscribe")
    faults.take("Publish")
    assert [(one.rpc, one.times, one.after) for one in faults.waiting()] == [
        ("Subscribe", 1, 0),
        ("Subscribe", 1, 0),
        ("Publish", 1, 0),
    ]
    assert taken
    faults.give_back(taken)
    again = faults.take("Subscribe")
    assert again == taken
    faults.happens(again)
    assert [one.rpc for one in faults.waiting()] == ["Subscribe", "Publish"]
    faults.clear("Subscribe")
    assert [one.rpc for one in faults.waiting()] == ["Publish"]
    faults.clear()
    assert faults.waiting() == ()


def test_faults_by_chance_wait_for_no_client() -> None:
    """With the rate 1 each RPC fails, logins do not, and returned faults are dropped."""
    faults = FaultOrders(Knobs(fault_rate=1.0))
    taken = [faults.take("Subscribe") for _ in range(50)]
    assert None not in taken
    assert {fault.how or fault.error_code for fault in taken if fault} == {
        "rst_stream",
        "goaway",
        "",
        "service.unavailable",
    }
    assert all(0 <= fault.after <= 100 for fault in taken if fault)
    assert faults.take("token") is None
    for fault in filter(None, taken):
        faults.give_back(fault)
    assert faults.waiting() == ()


def test_only_publishing_can_be_late() -> None:
    """`late` is refused for a call that does no work."""
    with pytest.raises(EmulatorError, match="late works for Publish and PublishStream only"):
        FaultOrders(Knobs()).add("GetTopic", late=True)
