"""Lease holders, and whether their processes are alive. The judgement is pure."""

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

from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from upath import UPath

HEARTBEAT_SECONDS = 10.0
"""Seconds between two lease heartbeats, each one small write, to keep object stores cheap."""

LEASE_SECONDS = 30.0
"""Length of a lease: three heartbeats, so that a single slow write does not look like a death."""

PAUSE: ContextVar[Callable[[float], None]] = ContextVar("PAUSE", default=time.sleep)
"""Sleep between two checks of another holder's lease; may raise if the task is ended."""

_PROC = Path("/proc/self/stat")  # without it (macOS) psutil answers, which Airflow depends on

_held: set[str] = set()
"""Tokens of the leases that this process holds; one that is missing here was leaked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """Process that holds a lease.

    :param host: for people; two machines may have the same name.
    :param pid_space: the space in which `pid` is unique: this boot of this kernel, this PID
        namespace (a container has its own).
    :param process_start: distinguishes the process from a later one with the same pid.
    :param leased_at: ISO-8601, UTC, by the holder's clock; for people.
    :param run: the task of Airflow that the process runs.
    :param token: random; identifies this lease.
    """

    host: str
    pid: int
    pid_space: str
    process_start: str
    leased_at: str
    run: Run = field(default_factory=Run)
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @classmethod
    def here(cls, run: Run, leased_at: str) -> LeaseHolder:
        """Return the holder for the current process."""
        return cls(
            host=socket.gethostname(),
            pid=os.getpid(),
            pid_space=pid_space(),
            process_start=process_start(os.getpid()) or "",
            leased_at=leased_at,
            run=run,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> LeaseHolder:
        """Parse a lease file; an unreadable one gives an unknown holder.

        Then only the lease heartbeat shows whether the holder is alive.
        """
        try:
            value = json.loads(text)
            return cls(**{**value, "pid": int(value["pid"]), "run": Run(**value["run"])})
        except (ValueError, TypeError, KeyError):
            return cls(
                host="an unknown host",
                pid=0,
                pid_space="",
                process_start="",
                leased_at="",
                token="",
            )

    def describe(self) -> str:
        """Describe the holder for people: task, process, host, time."""
        run = self.run
        task = (
            f"task {run.dag}.{run.task} of run {run.run}, map index {run.map_index}, "
            f"try {run.try_number}, "
            if run.dag
            else ""
        )
        return f"{task}process {self.pid} on {self.host}" + (
            f", since {self.leased_at}" if self.leased_at else ""
        )


class LeaseState(enum.Enum):
    """State of a lease, as an observer sees it."""

    FREE = "released"
    DEAD = "the holder is gone"
    ALIVE = "the holder is at work"
    WATCH = "not known yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeSigns:
    """Signs of life of a lease holder, as `judge` weighs them.

    :param released: its holder has released it.
    :param process_alive: whether the holder's process runs; None if this process cannot know.
    :param first_heartbeat: content of the heartbeat at the first look; None if there was none.
    :param last_heartbeat: content of the lease heartbeat at the last look; None if there was none.
    :param watched_seconds: between the two looks, by the observer's monotonic clock.
    """

    released: bool
    process_alive: bool | None
    first_heartbeat: str | None = None
    last_heartbeat: str | None = None
    watched_seconds: float = 0.0


def judge(seen: LifeSigns, lease_seconds: float = LEASE_SECONDS) -> LeaseState:
    """Return the state of a lease.

    No two machines' clocks are compared: a heartbeat counts if it *changes* while it is watched.
    """
    if seen.released:
        return LeaseState.FREE
    if seen.process_alive is not None:
        return LeaseState.ALIVE if seen.process_alive else LeaseState.DEAD
    if seen.last_heartbeat != seen.first_heartbeat:
        return LeaseState.ALIVE
    return LeaseState.DEAD if seen.watched_seconds >= lease_seconds else LeaseState.WATCH


def is_alive(holder: LeaseHolder) -> bool | None:
    """Return whether the holder's process still has the lease; None if this process cannot know."""
    if not holder.pid_space or holder.pid_space != pid_space():
        return None
    started = process_start(holder.pid)
    if started is None and _is_hidden(holder.pid):
        return None
    if holder.pid == os.getpid() and holder.process_start == started:
        return holder.token in _held
    return holder.process_start == started


def pause(seconds: float) -> None:
    """Sleep between two checks of another holder's lease."""
    PAUSE.get()(seconds)


def remember(holder: LeaseHolder) -> None:
    _held.add(holder.token)


def forget(holder: LeaseHolder) -> None:
    _held.discard(holder.token)


def pid_space() -> str:
    """Return the space in which a pid is unique: one boot of a host, one container.

    Empty if the system does not say; then only the lease heartbeat shows whether a holder lives.
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
    """Return a process's start time, as the kernel counts it; None if it is gone or a zombie."""
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
    """Return whether the process exists but belongs to a user whose processes the system hides."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return False


def release_of(folder: UPath) -> str:
    """Return the command that releases a batch; empty for a lease of another kind."""
    if not folder.name.isdecimal():
        return ""
    batch_id = layout.batch_id(folder.parent.name, int(folder.name))
    return (
        ", or, if you know that it is gone, `airflow sfevents batches release <consumer> <topic> "
        f"{batch_id}`"
    )
