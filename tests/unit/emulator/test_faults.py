"""Failures wait for the call they were made for."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.errors import EmulatorError, Refusal
from airflow_provider_sfevents.emulator.faults import Faults
from airflow_provider_sfevents.emulator.knobs import Knobs


def _outcomes(faults: Faults, rpc: str, calls: int) -> list[bool]:
    """Which of the calls went through."""
    outcomes = []
    for _ in range(calls):
        try:
            faults.check(rpc)
            outcomes.append(True)
        except Refusal:
            outcomes.append(False)
    return outcomes


def test_so_many_calls_fail_after_so_many_answered() -> None:
    """`after` counts answered calls of a unary RPC, `times` those that fail then."""
    faults = Faults(Knobs())
    faults.add("GetTopic", error_code="topic.api.unavailable", times=2, after=1)
    assert _outcomes(faults, "GetSchema", 1) == [True]
    assert _outcomes(faults, "GetTopic", 5) == [True, False, False, True, True]


def test_usual_status_goes_with_a_code() -> None:
    """A code, with or without its prefix, brings its status; a status alone is an error of the transport."""
    faults = Faults(Knobs())
    faults.add("Publish", error_code="sfdc.platform.eventbus.grpc.service.auth.error")
    faults.add("Publish", status="UNAVAILABLE")
    faults.add("Publish")
    refusals = [fault.refusal for fault in (faults.take("Publish") for _ in range(3)) if fault]
    assert [(refusal.code, refusal.status) for refusal in refusals] == [
        ("service.auth.error", "UNAUTHENTICATED"),
        ("", "UNAVAILABLE"),
        ("service.unavailable", "INTERNAL"),
    ]


def test_service_unavailable_has_the_status_of_the_knob() -> None:
    """INTERNAL was seen live, UNAVAILABLE is what gRPC would say."""
    faults = Faults(Knobs(service_unavailable="UNAVAILABLE"))
    faults.add("Subscribe")
    fault = faults.take("Subscribe")
    assert fault
    assert fault.refusal.status == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("rpc", "more", "why"),
    [
        ("Subcribe", {}, "'Subcribe' is none of"),
        ("Subscribe", {"status": "BAD"}, "'BAD' is no gRPC status"),
        ("Subscribe", {"error_code": "new.code"}, "give its status too"),
    ],
)
def test_mistakes_are_named(rpc: str, more: dict[str, str], why: str) -> None:
    """A failure that could never happen is refused when it is made."""
    with pytest.raises(EmulatorError, match=why):
        Faults(Knobs()).add(rpc, **more)  # type: ignore[arg-type]
