"""Which call is to go wrong, and how: orders that wait for the next call of an RPC, by count and by time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import KNOWN, PREFIX, EmulatorError, Refusal
from airflow_provider_sfevents.emulator.frames import HOWS

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.knobs import Knobs

OVER_HTTP = ("token", "userinfo", "rest")
TARGETS = ("Subscribe", "GetTopic", "GetSchema", "Publish", *OVER_HTTP)
STATUSES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
_NO_CODE = "upstream connect error or disconnect/reset before headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that is to go wrong.

    :param rpc: whose call; empty where it is not about one RPC.
    :param how: `reset`, `goaway` or `rst_stream` instead of a status; for other verbs their name.
    :param times: so many calls are left.
    :param after: for Subscribe: events delivered on the stream before; for the others: calls answered before.
    :param after_seconds: since the call began; with `after`, whichever comes first.
    """

    rpc: str = ""
    error_code: str = ""
    status: str = ""
    message: str = ""
    how: str = ""
    times: int = 1
    after: int = 0
    after_seconds: float | None = None

    @property
    def refusal(self) -> Refusal:
        """What the client gets."""
        return Refusal(self.error_code, self.status, self.message)

    def is_due(self, delivered: int, seconds: float) -> bool:
        """Whether a stream has delivered enough events, or lasted long enough."""
        if self.after_seconds is not None and seconds >= self.after_seconds:
            return True
        return self.counts_events and delivered >= self.after

    @property
    def counts_events(self) -> bool:
        """Whether it waits for events, not for time alone."""
        return bool(self.after) or self.after_seconds is None


class Faults:
    """The orders still waiting, by RPC, oldest first. Safe to use from any thread."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._waiting: dict[str, list[Fault]] = {}
        self._lock = threading.Lock()

    def add(
        self,
        rpc: str,
        *,
        error_code: str = "",
        status: str = "",
        message: str = "",
        how: str = "",
        times: int = 1,
        after: int = 0,
        after_seconds: float | None = None,
    ) -> None:
        """Let calls of an RPC fail, see `Emulator.fail_next`.

        :raises EmulatorError: for an RPC, code, status or combination that does not exist.
        """
        fault = Fault(
            rpc=rpc,
            error_code=error_code.removeprefix(PREFIX),
            status=status,
            message=message,
            how=how,
            times=times,
            after=after,
            after_seconds=after_seconds,
        )
        _check(fault)
        if not fault.how:
            fault = self._completed(fault)
        with self._lock:
            self._waiting.setdefault(rpc, []).append(fault)

    def take(self, rpc: str) -> Fault | None:
        """Failure of the call that comes in now. A unary call before its turn counts the failure down."""
        with self._lock:
            waiting = self._waiting.get(rpc)
            if not waiting:
                return None
            fault = waiting[0]
            if rpc != "Subscribe" and fault.after:
                waiting[0] = replace(fault, after=fault.after - 1)
                return None
            if fault.times > 1:
                waiting[0] = replace(fault, times=fault.times - 1)
            else:
                del waiting[0]
            return replace(fault, times=1)

    def give_back(self, fault: Fault) -> None:
        """Let the next stream have it: the one that took it ended before it was due."""
        with self._lock:
            self._waiting.setdefault(fault.rpc, []).insert(0, fault)

    def waiting(self) -> tuple[Fault, ...]:
        with self._lock:
            return tuple(fault for faults in self._waiting.values() for fault in faults)

    def clear(self, rpc: str = "") -> None:
        """Forget what waits, for one RPC or for all."""
        with self._lock:
            if rpc:
                self._waiting.pop(rpc, None)
            else:
                self._waiting.clear()

    def _completed(self, fault: Fault) -> Fault:
        """Fill in the status that goes with a code, and the text that goes without one."""
        code, status = fault.error_code, fault.status
        if not code and not status:
            code = "service.unavailable"
        if code == "service.unavailable" and not status:
            status = self._knobs.service_unavailable
        refusal = Refusal(code, status, fault.message or ("" if code else _NO_CODE))
        return replace(fault, error_code=code, status=refusal.status, message=refusal.message)


def _check(fault: Fault) -> None:
    """:raises EmulatorError: for an order that could not be carried out."""
    if fault.rpc not in TARGETS:
        raise EmulatorError(f"fail_next: {fault.rpc!r} is none of {', '.join(TARGETS)}")
    if fault.times < 1 or fault.after < 0 or (fault.after_seconds or 0) < 0:
        raise EmulatorError(
            "fail_next: times must be at least 1, after and after_seconds 0 or more"
        )
    if fault.how:
        _check_cut(fault)
        return
    if fault.status and fault.status not in STATUSES:
        raise EmulatorError(
            f"fail_next: {fault.status!r} is no gRPC status; one of {', '.join(STATUSES)}"
        )
    if fault.error_code and fault.error_code not in KNOWN and not fault.status:
        raise EmulatorError(
            f"fail_next: error code {fault.error_code!r} is not known here; give its status too"
        )
    if fault.status == "OK" and (fault.rpc != "Subscribe" or fault.error_code):
        raise EmulatorError(
            "fail_next: status OK is the polite end of a Subscribe stream; it has no error code, and no other call fails with it"
        )


def _check_cut(fault: Fault) -> None:
    if fault.how not in HOWS:
        raise EmulatorError(f"fail_next: how={fault.how!r} is none of {', '.join(HOWS)}")
    if fault.rpc in OVER_HTTP:
        raise EmulatorError(
            f"fail_next: how={fault.how!r} is for RPCs; {fault.rpc} is HTTP, give it a status"
        )
    if fault.error_code or fault.status or fault.message:
        raise EmulatorError(
            f"fail_next: how={fault.how!r} cuts the connection; leave error_code, status and message out"
        )
