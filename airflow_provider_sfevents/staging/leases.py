"""Leases: one task at a time works on a batch. Leases are numbered, and the highest one holds.

    leases/0001.json        the holder; created exclusively
    leases/0001.heartbeat   lease heartbeat: a counter and the number of received events
    leases/0001.released    release by the holder of this token, with the final number of events

1. A lease is not a lock. A holder calls `Lease.check` before everything that cannot be undone
   (manifest, landing, commit). A holder that was taken for dead finds a higher number there and
   gives way.
2. A holder whose last heartbeat is older than the lease renews it first. If it cannot, it stops,
   because another process may be about to take the batch.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from airflow_provider_sfevents.exceptions import LeaseGoneError, LeaseHeldError, StagingError
from airflow_provider_sfevents.staging import layout, lease_holder
from airflow_provider_sfevents.staging.lease_holder import (
    LeaseHolder,
    LeaseState,
    LifeSigns,
    judge,
)
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from upath import UPath

log = logging.getLogger(__name__)

KEPT_LEASES = 5
"""Old leases that are kept for people; a quiet topic's batch may have a new one every hour."""

_LEASE = re.compile(r"(\d+)\.json")
_LEFTOVER = re.compile(r"\.(\d+)\.")
_RECEIVED = re.compile(rb".* (\d+) received\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """Timing of a lease, and its clock.

    :param heartbeat_seconds: between two heartbeats, and between two looks at another lease.
    :param lease_seconds: time without a heartbeat after which a holder is taken for dead.
    """

    heartbeat_seconds: float = lease_holder.HEARTBEAT_SECONDS
    lease_seconds: float = lease_holder.LEASE_SECONDS
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = lease_holder.pause


_TIMING = LeaseTiming()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseObservation:
    """Observation of the current lease of a batch.

    :param heartbeat: its last heartbeat; None if there was none.
    :param since: time at which this heartbeat was first seen, by the observer's monotonic clock.
    """

    number: int
    holder: LeaseHolder
    heartbeat: str | None
    since: float
    state: LeaseState

    @property
    def may_be_alive(self) -> bool:
        return self.state in (LeaseState.ALIVE, LeaseState.WATCH)


class Lease:
    """Lease of a batch, for `with`; held until `release` or until another process takes it over."""

    def __init__(
        self, folder: UPath, number: int, holder: LeaseHolder, timing: LeaseTiming
    ) -> None:
        self.folder = folder
        self.number = number
        self.holder = holder
        self._timing = timing
        self._heartbeat_seconds = timing.heartbeat_seconds
        self._renewed_at = timing.monotonic()
        self._count = 0
        self._received = 0
        self._stop = threading.Event()
        self._heartbeats = threading.Thread(
            target=self._heartbeat, name=f"sfevents-lease-{number}", daemon=True
        )

    def check(self) -> None:
        """Check that this process still holds the batch; call it before each step that is final.

        :raises LeaseHeldError: another process took this holder for dead and holds the batch now.
        :raises LeaseGoneError: the lease file is gone.
        :raises StagingError: the store does not answer, or the lease was not renewed for its
            length.
        """
        if self._timing.monotonic() - self._renewed_at > self._timing.lease_seconds:
            self._renew()
        numbers = lease_numbers(self.folder)
        if numbers and numbers[-1] > self.number:
            holder = _read_holder(self.folder, numbers[-1])
            raise LeaseHeldError(
                f"Batch {self.folder} was taken over by {holder.describe()} (lease {numbers[-1]}): "
                f"this task, with lease {self.number}, wrote no heartbeat and was taken for dead. "
                "It gives way; the other task lands the batch."
            )
        if self.number not in numbers or not self._is_ours():
            raise LeaseGoneError(
                f"Lease {self.number} of batch {self.folder} is gone: the staging area was emptied "
                "while this task was at work. Keep it until its batches are committed; the next "
                "try begins the batch again."
            )

    def note_received(self, events: int) -> None:
        """Add received events to the count; the next heartbeat writes it."""
        self._received += events

    def release(self) -> None:
        """Release the lease. Never raises: a lease that cannot be released expires."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._heartbeats.join(timeout=self._heartbeat_seconds)
        try:
            if self._is_ours():  # otherwise the staging area was emptied, and nothing belongs there
                said = _released(self.holder, f"in good order, {self._received} received")
                durable_files.replace(_file(self.folder, self.number, "released"), said)
        except StagingError as error:
            log.warning(
                "Lease %d of batch %s could not be released: %s", self.number, self.folder, error
            )
        lease_holder.forget(self.holder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def show_life(self) -> None:
        """Start the heartbeat; `take` calls this."""
        self._try_to_heartbeat()
        self._heartbeats.start()

    def _heartbeat(self) -> None:
        while not self._stop.wait(self._heartbeat_seconds):
            self._try_to_heartbeat()

    def _try_to_heartbeat(self) -> None:
        try:
            self._write_heartbeat()
        except StagingError as error:  # one missed heartbeat is harmless; `check` finds more
            log.warning("No heartbeat of lease %d, batch %s: %s", self.number, self.folder, error)

    def _write_heartbeat(self) -> None:
        if self._count and not self._is_ours():  # a removed folder must not come back empty
            return
        said = f"{self._count} heartbeats, {self._received} received\n".encode()
        durable_files.replace(_file(self.folder, self.number, "heartbeat"), said, durable=False)
        self._count += 1
        self._renewed_at = self._timing.monotonic()

    def _renew(self) -> None:
        """Write the next heartbeat of a lease that has run out.

        :raises StagingError: the heartbeat cannot be written.
        """
        try:
            self._write_heartbeat()
        except StagingError as error:
            raise StagingError(
                f"Lease {self.number} of batch {self.folder} could not be renewed for "
                f"{self._timing.lease_seconds:.0f} s, the length of a lease, so another task may "
                "be about to take the batch; this task stops before it writes. Try again when the "
                f"store answers. {error}"
            ) from error

    def _is_ours(self) -> bool:
        """Return whether this lease's file exists; numbers begin anew in an emptied area."""
        return _read_holder(self.folder, self.number).token == self.holder.token


def take(folder: UPath, holder: LeaseHolder, timing: LeaseTiming = _TIMING) -> Lease:
    """Take the lease of a batch, if need be from a holder that is gone.

    Blocks up to `lease_seconds` to watch an unreleased lease of another machine; not for an event
    loop.

    :raises LeaseHeldError: another holder is alive.
    :raises StagingError: the store does not answer.
    """
    lease_holder.remember(holder)
    try:
        number = _create(folder, holder, timing)
        lease = Lease(folder, number, holder, timing)
        lease.show_life()
    except BaseException:  # Airflow's timeout is no Exception
        lease_holder.forget(holder)
        raise
    _remove_old(folder, number)
    return lease


def may_be_held(folder: UPath) -> bool:
    """Return whether a task may be at work on a batch; answers at once, and in doubt with True."""
    found = observe(folder)
    return found is not None and found.may_be_alive


def holder_of(folder: UPath) -> tuple[int, LeaseHolder] | None:
    """Return number and holder of the current lease, dead or alive; None if there never was one."""
    numbers = lease_numbers(folder)
    return (numbers[-1], _read_holder(folder, numbers[-1])) if numbers else None


def observe(
    folder: UPath, before: LeaseObservation | None = None, timing: LeaseTiming = _TIMING
) -> LeaseObservation | None:
    """Observe the current lease once, without a wait; None if there never was one.

    :param before: the previous observation. Only several of them show whether a holder on another
        machine is alive.
    """
    found = holder_of(folder)
    if found is None:
        return None
    number, holder = found
    now = timing.monotonic()
    written = durable_files.read(_file(folder, number, "heartbeat"))
    heartbeat = None if written is None else written.decode(errors="replace")
    if before is not None and (before.number, before.holder) != found:
        before = None
    signs = LifeSigns(
        released=_is_release(durable_files.read(_file(folder, number, "released")), holder),
        process_alive=lease_holder.is_alive(holder),
        first_heartbeat=before.heartbeat if before else heartbeat,
        last_heartbeat=heartbeat,
        watched_seconds=now - before.since if before else 0.0,
    )
    return LeaseObservation(
        number=number,
        holder=holder,
        heartbeat=heartbeat,
        since=before.since if before and before.heartbeat == heartbeat else now,
        state=judge(signs, timing.lease_seconds),
    )


def watch(folder: UPath, timing: LeaseTiming = _TIMING) -> LeaseObservation | None:
    """Observe the current lease until it is known whether its holder is alive.

    Blocks up to `lease_seconds`.
    """
    found = observe(folder, timing=timing)
    while found is not None and found.state is LeaseState.WATCH:
        log.info("Batch %s is held by %s; watching its heartbeat.", folder, found.holder.describe())
        timing.sleep(min(timing.heartbeat_seconds, timing.lease_seconds) / 2)
        found = observe(folder, found, timing)
    return found


def let_go(folder: UPath, number: int) -> None:
    """Release another holder's lease. If that holder lives, its next `check` makes it give way.

    :raises StagingError: the store does not answer.
    """
    said = _released(_read_holder(folder, number), "by hand")
    durable_files.replace(_file(folder, number, "released"), said)


def lease_numbers(folder: UPath) -> list[int]:
    """Return the numbers of the leases of a batch, ascending."""
    found = (_LEASE.fullmatch(name) for name in durable_files.names(folder / layout.LEASES))
    return sorted(int(match[1]) for match in found if match)


def received(folder: UPath) -> dict[int, int]:
    """Return the number of events that each lease's holder reported last, by lease."""
    found = {}
    for number in lease_numbers(folder):
        said = (
            durable_files.read(_file(folder, number, suffix)) or b""
            for suffix in ("heartbeat", "released")
        )
        if counts := [int(match[1]) for match in map(_RECEIVED.fullmatch, said) if match]:
            found[number] = max(counts)
    return found


def _create(folder: UPath, holder: LeaseHolder, timing: LeaseTiming) -> int:
    """Create a lease and return its number."""
    record = holder.to_json().encode()
    while True:
        number = _next_number(folder, timing)
        # Another process may be faster; or so much faster that its lease was removed as an old one.
        if (
            durable_files.create_once(_file(folder, number, "json"), record)
            and lease_numbers(folder)[-1] == number
        ):
            return number


def _next_number(folder: UPath, timing: LeaseTiming) -> int:
    """Return the number of the next lease.

    :raises LeaseHeldError: the holder of the current lease is alive.
    """
    current = watch(folder, timing)
    if current is None:
        return 1
    holder = current.holder.describe()
    if current.state is LeaseState.ALIVE:
        raise LeaseHeldError(
            f"Batch {folder} is held by {holder} (lease {current.number}). This task gives "
            "way; it has fetched nothing. Let the other task finish, or end it and try again"
            f"{lease_holder.release_of(folder)}; `max_active_runs=1` keeps runs of one DAG apart, "
            "and two DAGs on one topic each need a `consumer` of their own."
        )
    if current.state is LeaseState.DEAD:
        log.warning("Batch %s was held by %s, which is gone; taking it over.", folder, holder)
    return current.number + 1


def _read_holder(folder: UPath, number: int) -> LeaseHolder:
    data = durable_files.read(_file(folder, number, "json"))
    return LeaseHolder.from_json((data or b"").decode(errors="replace"))


def _released(holder: LeaseHolder, how: str) -> bytes:
    return f"{holder.token} released {how}\n".encode()


def _is_release(done: bytes | None, holder: LeaseHolder) -> bool:
    """Return whether this lease was released, not one of the same number in an emptied area."""
    return done is not None and done.decode(errors="replace").split(" ")[0] == holder.token


def _remove_old(folder: UPath, number: int) -> None:
    """Remove old leases (the `json` file last: without it the rest means nothing) and leftovers."""
    with suppress(StagingError):
        for one in [one for one in lease_numbers(folder) if one <= number - KEPT_LEASES]:
            for suffix in ("heartbeat", "released", "json"):
                durable_files.remove(_file(folder, one, suffix))
        for name in filter(durable_files.is_leftover, durable_files.names(folder / layout.LEASES)):
            begun = _LEFTOVER.match(name)
            if begun and int(begun[1]) < number:  # a process that creates this very number is alive
                durable_files.remove(folder / layout.LEASES / name)


def _file(folder: UPath, number: int, suffix: str) -> UPath:
    return folder / layout.LEASES / f"{number:04d}.{suffix}"
