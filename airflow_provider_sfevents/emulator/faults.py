"""Which call is to fail, and how. A first, simple language: the next call of an RPC, so many times."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import KNOWN, PREFIX, EmulatorError, Refusal

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.knobs import Knobs

TARGETS = ("Subscribe", "GetTopic", "GetSchema", "Publish", "token", "userinfo")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failure that waits for its call.

    :param refusal: what the client gets.
    :param after: for Subscribe: events delivered on the stream before; for the others: calls answered before.
    """

    refusal: Refusal
    after: int = 0


class Faults:
    """The failures still to come, by RPC. Safe to use from any thread."""

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
        times: int = 1,
        after: int = 0,
    ) -> None:
        """Let calls of an RPC fail, see `Emulator.fail_next`.

        :raises EmulatorError: for an RPC, code or status that does not exist.
        """
        if rpc not in TARGETS:
            raise EmulatorError(f"fail_next: {rpc!r} is none of {', '.join(TARGETS)}")
        code = error_code.removeprefix(PREFIX)
        if status and status not in STATUSES:
            raise EmulatorError(
                f"fail_next: {status!r} is no gRPC status; one of {', '.join(STATUSES)}"
            )
        if code and code not in KNOWN and not status:
            raise EmulatorError(
                f"fail_next: error code {code!r} is not known here; give its status too"
            )
        if not code and not status:
            code = "service.unavailable"
        if code == "service.unavailable" and not status:
            status = self._knobs.service_unavailable
        refusal = Refusal(
            code,
            status,
            message
            or ("" if code else "upstream connect error or disconnect/reset before headers"),
        )
        calls_before = 0 if rpc == "Subscribe" else after
        with self._lock:
            waiting = self._waiting.setdefault(rpc, [])
            waiting += [
                Fault(refusal=refusal, after=after if n == 0 or not calls_before else 0)
                for n in range(times)
            ]

    def take(self, rpc: str) -> Fault | None:
        """Failure of the call that comes in now. A unary call before its turn counts the failure down."""
        with self._lock:
            waiting = self._waiting.get(rpc)
            if not waiting:
                return None
            fault = waiting.pop(0)
            if rpc == "Subscribe" or fault.after == 0:
                return fault
            waiting.insert(0, Fault(refusal=fault.refusal, after=fault.after - 1))
            return None

    def check(self, rpc: str) -> None:
        """Let a unary call through, unless it is to fail.

        :raises Refusal: when it is.
        """
        if fault := self.take(rpc):
            raise fault.refusal
