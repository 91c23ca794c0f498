"""Ordered faults, waiting for the next call of an RPC, by count and by time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import (
    KNOWN,
    PREFIX,
    STATUSES,
    EmulatorError,
    RefusalError,
)
from airflow_provider_sfevents.emulator.faults.http2_frames import HOWS
from airflow_provider_sfevents.emulator.seeded_random import SeededRandom

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.knobs import Knobs

OVER_HTTP = ("token", "userinfo", "soap", "rest", "cometd")
OVER_COMETD = ("reset", "hold", "cookies")
"""Ways to disturb an answer of the Streaming API."""
DELIVERING = ("Subscribe", "ManagedSubscribe")
STREAMS = (*DELIVERING, "PublishStream")
PUBLISHING = ("Publish", "PublishStream")
TARGETS = (*STREAMS, "GetTopic", "GetSchema", "Publish", *OVER_HTTP)
_BY_CHANCE = (  # how, status, error code: seen by clients of live orgs
    ("rst_stream", "", ""),
    ("goaway", "", ""),
    ("", "UNAVAILABLE", ""),
    ("", "", "service.unavailable"),
)
_EVENTS_BEFORE_CHANCE = 100
_NO_CODE = "upstream connect error or disconnect/reset before headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOrder:
    """One ordered fault.

    :param rpc: RPC that fails; empty if the fault does not concern an RPC.
    :param how: `reset`, `goaway` or `rst_stream` instead of a status; for `cometd` one of
        `OVER_COMETD`; for other verbs, their name.
    :param times: number of calls left.
    :param after: streams: events delivered or published before on the stream; other calls: calls
        answered before.
    :param after_seconds: seconds since the call began; with `after`, whichever comes first.
    :param late: the call does its work and only its answer is lost.
    """

    rpc: str = ""
    error_code: str = ""
    status: str = ""
    message: str = ""
    how: str = ""
    times: int = 1
    after: int = 0
    after_seconds: float | None = None
    late: bool = False

    @property
    def refusal(self) -> RefusalError:
        """Refusal that the client receives."""
        return RefusalError(self.error_code, self.status, self.message)

    def is_due(self, delivered: int, seconds: float) -> bool:
        """True if a stream has delivered enough events or lasted long enough."""
        if self.after_seconds is not None and seconds >= self.after_seconds:
            return True
        return self.counts_events and delivered >= self.after

    @property
    def counts_events(self) -> bool:
        """True if the fault waits for events, not only for time."""
        return bool(self.after) or self.after_seconds is None


class RandomFault(FaultOrder):
    """A random fault; if it is not used, no other call gets it."""

    __slots__ = ()


class FaultOrders:
    """Pending faults by RPC, oldest first. Safe to use from any thread."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs
        self._waiting: dict[str, list[FaultOrder]] = {}
        self._on_streams: dict[int, FaultOrder] = {}  # by identity: equal faults may be on two
        self._seeded = SeededRandom(f"{knobs.seed}:faults")
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
        late: bool = False,
    ) -> None:
        """Order a fault, see `Emulator.fail_next`.

        :raises EmulatorError: unknown RPC, code or status, or an impossible combination.
        """
        fault = FaultOrder(
            rpc=rpc,
            error_code=error_code.removeprefix(PREFIX),
            status=status,
            message=message,
            how=how,
            times=times,
            after=after,
            after_seconds=after_seconds,
            late=late,
        )
        _check(fault)
        if not fault.how:
            fault = self._completed(fault)
        with self._lock:
            self._waiting.setdefault(rpc, []).append(fault)

    def take(self, rpc: str) -> FaultOrder | None:
        """Take the fault of an incoming call.

        A unary call before the ordered one counts the fault down.
        """
        with self._lock:
            waiting = self._waiting.get(rpc)
            if not waiting:
                return self._by_seeded(rpc)
            fault = waiting[0]
            if rpc not in STREAMS and fault.after:
                waiting[0] = replace(fault, after=fault.after - 1)
                return None
            if fault.times > 1:
                waiting[0] = replace(fault, times=fault.times - 1)
            else:
                del waiting[0]
            taken = replace(fault, times=1)
            if rpc in STREAMS:
                self._on_streams[id(taken)] = taken
            return taken

    def is_cleared(self, fault: FaultOrder) -> bool:
        """True if the fault of an open stream was cleared meanwhile."""
        with self._lock:
            return not isinstance(fault, RandomFault) and id(fault) not in self._on_streams

    def happens(self, fault: FaultOrder) -> None:
        """Forget the fault of a stream, which is due."""
        with self._lock:
            self._on_streams.pop(id(fault), None)

    def give_back(self, fault: FaultOrder) -> None:
        """Return an unused fault to the queue: its stream ended before it was due."""
        with self._lock:
            if self._on_streams.pop(id(fault), None):
                self._waiting.setdefault(fault.rpc, []).insert(0, fault)

    def waiting(self) -> tuple[FaultOrder, ...]:
        """Faults that have not happened yet, those of open streams first."""
        with self._lock:
            queued = (fault for faults in self._waiting.values() for fault in faults)
            return (*self._on_streams.values(), *queued)

    def clear(self, rpc: str = "") -> None:
        """Remove the pending faults of one RPC, or all, also those of open streams."""
        with self._lock:
            for name in [rpc] if rpc else TARGETS:
                self._waiting.pop(name, None)
                for key in [k for k, one in self._on_streams.items() if one.rpc == name]:
                    del self._on_streams[key]

    def _by_seeded(self, rpc: str) -> FaultOrder | None:
        """Random fault by the knob `fault_rate`; on a stream within its first 100 events."""
        if rpc in OVER_HTTP or not self._seeded.happens(self._knobs.fault_rate):
            return None
        after = self._seeded.below(_EVENTS_BEFORE_CHANCE) if rpc in STREAMS else 0
        how, status, code = self._seeded.one_of(_BY_CHANCE)
        if how:
            return RandomFault(rpc=rpc, how=how, after=after)
        return self._completed(RandomFault(rpc=rpc, status=status, error_code=code, after=after))

    def _completed(self, fault: FaultOrder) -> FaultOrder:
        """Fill in the status that belongs to a code, and the text of a fault without a code.

        A lost answer has no code, because the transport reports it.
        """
        code, status = fault.error_code, fault.status
        if not code and not status:
            code, status = ("", "UNAVAILABLE") if fault.late else ("service.unavailable", "")
        if code == "service.unavailable" and not status:
            status = self._knobs.service_unavailable
        refusal = RefusalError(code, status, fault.message or ("" if code else _NO_CODE))
        return replace(fault, error_code=code, status=refusal.status, message=refusal.message)


def _check(fault: FaultOrder) -> None:
    """Check an order.

    :raises EmulatorError: the order is impossible.
    """
    if fault.rpc not in TARGETS:
        raise EmulatorError(f"fail_next: {fault.rpc!r} is not one of {', '.join(TARGETS)}")
    if fault.times < 1 or fault.after < 0 or (fault.after_seconds or 0) < 0:
        raise EmulatorError(
            "fail_next: times must be at least 1, after and after_seconds 0 or more"
        )
    if fault.late and fault.rpc not in PUBLISHING:
        raise EmulatorError(
            f"fail_next: late works for {' and '.join(PUBLISHING)} only, where the events can be "
            "published and the answer lost"
        )
    if fault.how:
        _check_cut(fault)
        return
    if fault.status and fault.status not in STATUSES:
        raise EmulatorError(
            f"fail_next: {fault.status!r} is not a gRPC status; use one of {', '.join(STATUSES)}"
        )
    if fault.error_code and fault.error_code not in KNOWN and not fault.status:
        raise EmulatorError(
            f"fail_next: error code {fault.error_code!r} is not known here; give its status too"
        )
    if fault.status == "OK" and (fault.rpc not in STREAMS or fault.error_code):
        raise EmulatorError(
            "fail_next: status OK is the polite end of a stream; it has no error code, and no "
            "other call fails with it"
        )


def _check_cut(fault: FaultOrder) -> None:
    hows = OVER_COMETD if fault.rpc == "cometd" else HOWS
    if fault.how not in hows:
        raise EmulatorError(f"fail_next: how={fault.how!r} is not one of {', '.join(hows)}")
    if fault.rpc in OVER_HTTP and fault.rpc != "cometd":
        raise EmulatorError(
            f"fail_next: how={fault.how!r} is for RPCs; {fault.rpc} is HTTP, give it a status"
        )
    if fault.error_code or fault.status or fault.message:
        raise EmulatorError(
            f"fail_next: how={fault.how!r} disturbs the connection; leave error_code, status and "
            "message out"
        )
