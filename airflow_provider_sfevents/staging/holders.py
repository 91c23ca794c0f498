"""Who is at work on a batch, and whether that process still lives. The judgement is pure; the looking is thin."""

from __future__ import annotations

import enum
import json
import os
import secrets
import socket
import time
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT_SECONDS = 10.0
"""How often a holder shows a sign of life: one small write, so that even an object store charges next to nothing."""

LEASE_SECONDS = 30.0
"""How long an observer watches for one: three beats, so that a single slow write does not look like death."""

PAUSE: ContextVar[Callable[[float], None]] = ContextVar("PAUSE", default=time.sleep)
"""Sleep between two looks at another's lease; a task that can be ended sets one that raises when it is."""

_PROC = Path("/proc/self/stat")  # where it is not (macOS), psutil tells, which Airflow brings along

_held: set[str] = set()
"""Tokens of the claims this very process has; a claim of this process that is not among them was leaked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a claim.

    :param host: for people; two machines may have the same name.
    :param pid_space: where `pid` has its meaning: this boot of this kernel, this PID namespace (a container has its own).
    :param process_start: tells the process from a later one with the same pid.
    :param claimed_at: ISO-8601, UTC, by the holder's clock; for people.
    :param token: random; this claim and no other.
    """

    host: str
    pid: int
    pid_space: str
    process_start: str
    claimed_at: str
    run: Run = field(default_factory=Run)
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @classmethod
    def here(cls, run: Run, claimed_at: str) -> Holder:
        """The holder that this process is."""
        return cls(
            host=socket.gethostname(),
            pid=os.getpid(),
            pid_space=pid_space(),
            process_start=process_start(os.getpid()) or "",
            claimed_at=claimed_at,
            run=run,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Holder:
        """Whoever wrote this; a claim that cannot be read is held by somebody of whom we know nothing but the beat."""
        try:
            value = json.loads(text)
            return cls(**{**value, "pid": int(value["pid"]), "run": Run(**value["run"])})
        except (ValueError, TypeError, KeyError):
            return cls(
                host="an unknown host",
                pid=0,
                pid_space="",
                process_start="",
                claimed_at="",
                token="",
            )

    def describe(self) -> str:
        """Who it is, in a sentence for people."""
        run = self.run
        task = (
            f"task {run.dag}.{run.task} of run {run.run}, map index {run.map_index}, try {run.try_number}, "
            if run.dag
            else ""
        )
        return f"{task}process {self.pid} on {self.host}" + (
            f", since {self.claimed_at}" if self.claimed_at else ""
        )


class Verdict(enum.Enum):
    """What an observer may do about a claim."""

    FREE = "released"
    DEAD = "the holder is gone"
    ALIVE = "the holder is at work"
    WATCH = "not known yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What an observer saw of a claim.

    :param released: its holder has let go of it.
    :param process_alive: whether the holder's process runs; `None` where that cannot be seen from here.
    :param first_beat, last_beat: content of the heartbeat when first and when last looked at; `None`: there was none.
    :param watched_seconds: between the two, by the observer's monotonic clock.
    """

    released: bool
    process_alive: bool | None
    first_beat: str | None = None
    last_beat: str | None = None
    watched_seconds: float = 0.0


def judge(seen: Sighting, lease_seconds: float = LEASE_SECONDS) -> Verdict:
    """Whether a claim may be taken over. No two machines' clocks are compared: a beat counts when it *changes* while we watch."""
    if seen.released:
        return Verdict.FREE
    if seen.process_alive is not None:
        return Verdict.ALIVE if seen.process_alive else Verdict.DEAD
    if seen.last_beat != seen.first_beat:
        return Verdict.ALIVE
    return Verdict.DEAD if seen.watched_seconds >= lease_seconds else Verdict.WATCH


def is_alive(holder: Holder) -> bool | None:
    """Whether the holder's process still has the claim; `None` where this process cannot know."""
    if not holder.pid_space or holder.pid_space != pid_space():
        return None
    started = process_start(holder.pid)
    if started is None and _is_hidden(holder.pid):
        return None
    if holder.pid == os.getpid() and holder.process_start == started:
        return holder.token in _held
    return holder.process_start == started


def pause(seconds: float) -> None:
    """Sleep between two looks at another's lease."""
    PAUSE.get()(seconds)


def remember(holder: Holder) -> None:
    _held.add(holder.token)


def forget(holder: Holder) -> None:
    _held.discard(holder.token)


def pid_space() -> str:
    """Where a pid means the same process: two containers on one machine, or one host before and after a boot, differ.

    Empty where the system does not say; then only the beat tells.
    """
    try:
        if _PROC.exists():
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
        import psutil  # type: ignore[import-untyped]

        return f"{socket.gethostname()}/{psutil.boot_time():.0f}"
    except (OSError, ImportError):
        return ""


def process_start(pid: int) -> str | None:
    """When a process started, as the kernel counts it; `None` for none, or one that is only waiting to be reaped."""
    if _PROC.exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
        return None if fields[0] in ("Z", "X") else fields[19]
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None


def _is_hidden(pid: int) -> bool:
    """Whether there is such a process, of another user, in a system that shows each user only their own."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False
