"""One task at a time on a batch: numbered claims of which the highest holds.

    claims/0001.json   who; created exclusively
    claims/0001.beat   a counter, written again every `beat_seconds` while the holder lives; and how many events it has received
    claims/0001.done   let go in good order, by the holder of this token: the next one need not watch; with the last count

A claim is not a lock. A holder that was taken for dead and wakes up again finds a higher number when it
calls `Claim.check`, which it does before everything that cannot be undone (manifest, landing, commit),
and gives way. A holder whose last sign of life is older than the lease renews it first; if it cannot,
it stops as well, because another process may be about to take the batch.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from airflow_provider_sfevents.exceptions import BatchClaimed, LeaseGoneError, StagingError
from airflow_provider_sfevents.staging import durable, holders, layout
from airflow_provider_sfevents.staging.holders import (
    BEAT_SECONDS,
    LEASE_SECONDS,
    Holder,
    Sighting,
    Verdict,
    judge,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from upath import UPath

log = logging.getLogger(__name__)

KEPT_CLAIMS = 5
"""Released and dead claims that are kept for people to look at; a quiet topic's next batch may be claimed every hour for months."""

_CLAIM = re.compile(r"(\d+)\.json")
_LEFTOVER = re.compile(r"\.(\d+)\.")
_RECEIVED = re.compile(rb".* (\d+) received\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to watch a claim, and by which clock.

    :param beat_seconds: between two signs of life of ours, and between two looks at another's.
    :param lease_seconds: silence after which another is taken for dead.
    """

    beat_seconds: float = BEAT_SECONDS
    lease_seconds: float = LEASE_SECONDS
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = holders.pause


_PATIENCE = Patience()


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """One of several looks at a claim, by somebody who has other things to do in between.

    :param beat: its last sign of life; `None`: there was none.
    :param since: when this beat was first seen, by the observer's monotonic clock.
    """

    number: int
    holder: Holder
    beat: str | None
    since: float
    verdict: Verdict

    @property
    def may_be_alive(self) -> bool:
        return self.verdict in (Verdict.ALIVE, Verdict.WATCH)


class Claim:
    """A batch is ours until `release`, or until somebody took us for dead. A context manager that releases."""

    def __init__(self, folder: UPath, number: int, holder: Holder, patience: Patience) -> None:
        self.folder = folder
        self.number = number
        self.holder = holder
        self._patience = patience
        self._beat_seconds = patience.beat_seconds
        self._renewed_at = patience.monotonic()
        self._count = 0
        self._received = 0
        self._stop = threading.Event()
        self._beats = threading.Thread(
            target=self._beat, name=f"sfevents-claim-{number}", daemon=True
        )

    def check(self) -> None:
        """Make sure that this process still holds the batch. Call it before what cannot be undone.

        :raises BatchClaimed: another process took this one for dead and holds the batch now.
        :raises LeaseGoneError: the claim is gone.
        :raises StagingError: the store does not answer, or the claim was not renewed for its length.
        """
        if self._patience.monotonic() - self._renewed_at > self._patience.lease_seconds:
            self._renew()
        numbers = claim_numbers(self.folder)
        if numbers and numbers[-1] > self.number:
            holder = _read_holder(self.folder, numbers[-1])
            raise BatchClaimed(
                f"Batch {self.folder} was taken over by {holder.describe()} (claim {numbers[-1]}): this task, with claim "
                f"{self.number}, showed no sign of life and was thought dead. It gives way; the other one lands the batch."
            )
        if self.number not in numbers or not self._is_ours():
            raise LeaseGoneError(
                f"Claim {self.number} of batch {self.folder} is gone: somebody emptied the staging area while this task was at "
                "work. Keep it until its batches are committed; the next try begins the batch again."
            )

    def note_received(self, events: int) -> None:
        """So many more have come; the next sign of life says so, should it be the last one."""
        self._received += events

    def release(self) -> None:
        """Let go. Never raises: what cannot be released now is found dead by the next one."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._beats.join(timeout=self._beat_seconds)
        try:
            if self._is_ours():  # otherwise the staging area was emptied, and nothing belongs there
                said = _released(self.holder, f"in good order, {self._received} received")
                durable.replace(_file(self.folder, self.number, "done"), said)
        except StagingError as error:
            log.warning(
                "Claim %d of batch %s could not be released: %s", self.number, self.folder, error
            )
        holders.forget(self.holder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def show_life(self) -> None:
        """Begin the heartbeat; `take` has done so."""
        self._try_to_beat()
        self._beats.start()

    def _beat(self) -> None:
        while not self._stop.wait(self._beat_seconds):
            self._try_to_beat()

    def _try_to_beat(self) -> None:
        try:
            self._write_beat()
        except StagingError as error:  # one missed beat does no harm; after a lease `check` tells
            log.warning(
                "No sign of life for claim %d of batch %s: %s", self.number, self.folder, error
            )

    def _write_beat(self) -> None:
        if self._count and not self._is_ours():  # a removed folder must not come back empty
            return
        said = f"{self._count} beats, {self._received} received\n".encode()
        durable.replace(_file(self.folder, self.number, "beat"), said, durable=False)
        self._count += 1
        self._renewed_at = self._patience.monotonic()

    def _renew(self) -> None:
        """:raises StagingError: the lease has run out, and no sign of life can be written."""
        try:
            self._write_beat()
        except StagingError as error:
            raise StagingError(
                f"Claim {self.number} of batch {self.folder} could not be renewed for "
                f"{self._patience.lease_seconds:.0f} s, the length of a lease, so another task may be "
                f"about to take the batch; this task stops before it writes. Try again when the store "
                f"answers. {error}"
            ) from error

    def _is_ours(self) -> bool:
        """Whether our claim is there still; numbers begin anew in a staging area that was emptied."""
        return _read_holder(self.folder, self.number).token == self.holder.token


def take(folder: UPath, holder: Holder, patience: Patience | None = None) -> Claim:
    """Take a batch, from a holder that is gone where need be.

    Blocks up to `lease_seconds` to watch a claim of another machine that was not released; not for an event loop.

    :raises BatchClaimed: another holder is alive.
    :raises StagingError: the store does not answer.
    """
    patience = patience or Patience()
    holders.remember(holder)
    try:
        number = _create(folder, holder, patience)
        claim = Claim(folder, number, holder, patience)
        claim.show_life()
    except BaseException:  # Airflow's timeout is no Exception
        holders.forget(holder)
        raise
    _remove_old(folder, number)
    return claim


def may_be_held(folder: UPath) -> bool:
    """Whether somebody may be at work on a batch; answers at once, and rather yes than no."""
    numbers = claim_numbers(folder)
    if not numbers:
        return False
    seen = _look(folder, numbers[-1], _read_holder(folder, numbers[-1]))
    return judge(seen) in (Verdict.ALIVE, Verdict.WATCH)


def holder_of(folder: UPath) -> tuple[int, Holder] | None:
    """Number and holder of the claim that counts, dead or alive; `None` where the batch was never claimed."""
    numbers = claim_numbers(folder)
    return (numbers[-1], _read_holder(folder, numbers[-1])) if numbers else None


def seen(folder: UPath, patience: Patience | None = None) -> tuple[int, Holder, Verdict] | None:
    """Number and holder of the claim that counts, and what can be said of that holder; `None` where the batch was never claimed.

    :param patience: to watch a claim of another machine as `take` does; without it one look, and such a claim stays `WATCH`.
    """
    found = holder_of(folder)
    if found is None:
        return None
    number, holder = found
    verdict = (
        judge(_look(folder, number, holder))
        if patience is None
        else _watch(folder, number, holder, patience)
    )
    return number, holder, verdict


def glance(
    folder: UPath, before: Glance | None = None, patience: Patience = _PATIENCE
) -> Glance | None:
    """One look at the claim that counts; answers at once. `None` where the batch was never claimed.

    :param before: the look before this one. Of a holder on another machine only several tell whether it lives.
    """
    found = holder_of(folder)
    if found is None:
        return None
    number, holder = found
    now = patience.monotonic()
    known = before if before and (before.number, before.holder) == found else None
    seen = (
        _look(folder, number, holder, known.beat, now - known.since)
        if known
        else _look(folder, number, holder)
    )
    return Glance(
        number=number,
        holder=holder,
        beat=seen.last_beat,
        since=known.since if known and known.beat == seen.last_beat else now,
        verdict=judge(seen, patience.lease_seconds),
    )


def let_go(folder: UPath, number: int) -> None:
    """Release another's claim. A holder that lives after all finds a higher one at its next `check`, and gives way.

    :raises StagingError: the store does not answer.
    """
    said = _released(_read_holder(folder, number), "by hand")
    durable.replace(_file(folder, number, "done"), said)


def claim_numbers(folder: UPath) -> list[int]:
    """Numbers of the claims on a batch, ascending."""
    found = (_CLAIM.fullmatch(name) for name in durable.names(folder / layout.CLAIMS))
    return sorted(int(match[1]) for match in found if match)


def received(folder: UPath) -> dict[int, int]:
    """How many events each claim's holder had received when it let go or last showed life, by number of the claim."""
    found = {}
    for number in claim_numbers(folder):
        said = (durable.read(_file(folder, number, suffix)) or b"" for suffix in ("beat", "done"))
        if counts := [int(match[1]) for match in map(_RECEIVED.fullmatch, said) if match]:
            found[number] = max(counts)
    return found


def _create(folder: UPath, holder: Holder, patience: Patience) -> int:
    """Number of the new claim."""
    record = holder.to_json().encode()
    while True:
        number = _next_number(folder, patience)
        # Somebody may be quicker by a moment; or so much quicker that the number was free again, cleared away as an old one.
        if (
            durable.create_once(_file(folder, number, "json"), record)
            and claim_numbers(folder)[-1] == number
        ):
            return number


def _next_number(folder: UPath, patience: Patience) -> int:
    """:raises BatchClaimed: the highest claim's holder is alive."""
    numbers = claim_numbers(folder)
    if not numbers:
        return 1
    holder = _read_holder(folder, numbers[-1])
    verdict = _watch(folder, numbers[-1], holder, patience)
    if verdict is Verdict.ALIVE:
        raise BatchClaimed(
            f"Batch {folder} is held by {holder.describe()} (claim {numbers[-1]}). This task gives way and has spent nothing. "
            "Let the other one finish, or end it and try again; `max_active_runs=1` keeps runs of one DAG apart, and two DAGs "
            "on one topic each need a `consumer` of their own."
        )
    if verdict is Verdict.DEAD:
        log.warning(
            "Batch %s was held by %s, which is gone; taking it over.", folder, holder.describe()
        )
    return numbers[-1] + 1


def _watch(folder: UPath, number: int, holder: Holder, patience: Patience) -> Verdict:
    begun = patience.monotonic()
    first = seen = _look(folder, number, holder)
    while (verdict := judge(seen, patience.lease_seconds)) is Verdict.WATCH:
        log.info(
            "Batch %s is held by %s; watching whether it is still at work.",
            folder,
            holder.describe(),
        )
        patience.sleep(min(patience.beat_seconds, patience.lease_seconds) / 2)
        seen = _look(folder, number, holder, first.first_beat, patience.monotonic() - begun)
    return verdict


_FIRST_LOOK = "\0"


def _look(
    folder: UPath,
    number: int,
    holder: Holder,
    first_beat: str | None = _FIRST_LOOK,
    watched_seconds: float = 0.0,
) -> Sighting:
    beat = durable.read(_file(folder, number, "beat"))
    last_beat = None if beat is None else beat.decode(errors="replace")
    return Sighting(
        released=_is_release(durable.read(_file(folder, number, "done")), holder),
        process_alive=holders.is_alive(holder),
        first_beat=last_beat if first_beat == _FIRST_LOOK else first_beat,
        last_beat=last_beat,
        watched_seconds=watched_seconds,
    )


def _read_holder(folder: UPath, number: int) -> Holder:
    data = durable.read(_file(folder, number, "json"))
    return Holder.from_json((data or b"").decode(errors="replace"))


def _released(holder: Holder, how: str) -> bytes:
    return f"{holder.token} released {how}\n".encode()


def _is_release(done: bytes | None, holder: Holder) -> bool:
    """Whether it was this holder's claim that was let go, not one of the same number from before the area was emptied."""
    return done is not None and done.decode(errors="replace").split(" ")[0] == holder.token


def _remove_old(folder: UPath, number: int) -> None:
    """Clear old claims away, the claim itself last, as without it the rest says nothing; and what their holders had begun to write."""
    with suppress(StagingError):
        for one in [one for one in claim_numbers(folder) if one <= number - KEPT_CLAIMS]:
            for suffix in ("beat", "done", "json"):
                durable.remove(_file(folder, one, suffix))
        for name in filter(durable.is_leftover, durable.names(folder / layout.CLAIMS)):
            begun = _LEFTOVER.match(name)
            if begun and int(begun[1]) < number:  # who is after this very number is alive
                durable.remove(folder / layout.CLAIMS / name)


def _file(folder: UPath, number: int, suffix: str) -> UPath:
    return folder / layout.CLAIMS / f"{number:04d}.{suffix}"
