from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.staging import lease_holder
from airflow_provider_sfevents.staging.lease_holder import (
    LeaseHolder,
    LeaseState,
    LifeSigns,
    judge,
)
from tests.unit.staging.building import elsewhere, here

heartbeats = st.one_of(st.none(), st.sampled_from(["0", "1", "2"]))


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (LifeSigns(released=True, process_alive=True), LeaseState.FREE),
        (LifeSigns(released=False, process_alive=True), LeaseState.ALIVE),
        (LifeSigns(released=False, process_alive=False), LeaseState.DEAD),
        (
            LifeSigns(released=False, process_alive=None, first_heartbeat="1", last_heartbeat="1"),
            LeaseState.WATCH,
        ),
        (
            LifeSigns(
                released=False,
                process_alive=None,
                first_heartbeat="1",
                last_heartbeat="2",
                watched_seconds=99,
            ),
            LeaseState.ALIVE,
        ),
        (
            LifeSigns(
                released=False,
                process_alive=None,
                first_heartbeat=None,
                last_heartbeat="0",
                watched_seconds=5,
            ),
            LeaseState.ALIVE,
        ),
        (
            LifeSigns(
                released=False,
                process_alive=None,
                first_heartbeat="1",
                last_heartbeat="1",
                watched_seconds=30,
            ),
            LeaseState.DEAD,
        ),
        (LifeSigns(released=False, process_alive=None, watched_seconds=30), LeaseState.DEAD),
    ],
    ids=[
        "let go",
        "process runs",
        "process gone",
        "too early",
        "beat changed",
        "first beat",
        "silent",
        "never a beat",
    ],
)
def test_verdicts(seen: LifeSigns, verdict: LeaseState) -> None:
    """`judge` returns one state for each observation of a lease."""
    assert judge(seen, lease_seconds=30) is verdict


@given(heartbeats, heartbeats, st.floats(0, 100))
def test_another_machines_holder_is_dead_only_after_a_silent_lease(
    first: str | None, last: str | None, watched: float
) -> None:
    """A holder on another machine is dead only after a whole lease without a heartbeat."""
    seen = LifeSigns(
        released=False,
        process_alive=None,
        first_heartbeat=first,
        last_heartbeat=last,
        watched_seconds=watched,
    )
    assert (judge(seen, lease_seconds=30) is LeaseState.DEAD) == (first == last and watched >= 30)


def test_this_process_lives_while_it_has_the_lease() -> None:
    """A lease that this process no longer tracks is dead, although the process is alive."""
    holder = here()
    assert lease_holder.is_alive(holder) is False
    lease_holder.remember(holder)
    assert lease_holder.is_alive(holder) is True
    lease_holder.forget(holder)
    assert lease_holder.is_alive(holder) is False


def test_another_process_lives_until_it_is_killed() -> None:
    """A running child process is alive, and a killed one is dead even before it is reaped."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        holder = replace(
            here(), pid=child.pid, process_start=lease_holder.process_start(child.pid) or ""
        )
        assert lease_holder.is_alive(holder) is True
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and left a zombie
        assert lease_holder.is_alive(holder) is False


def test_a_later_process_with_the_same_pid_is_another() -> None:
    """A process with the same pid and another start time is another process."""
    holder = replace(here(), pid=os.getppid(), process_start="1")
    assert lease_holder.is_alive(holder) is False


def test_of_another_machines_process_nothing_is_known() -> None:
    """The state of a process in another pid space is unknown."""
    assert lease_holder.is_alive(elsewhere()) is None
    assert lease_holder.is_alive(replace(here(), pid_space="")) is None


def test_a_holder_survives_its_text() -> None:
    """A holder reads back from its lease file as it was written."""
    assert LeaseHolder.from_json(here().to_json()).pid == os.getpid()
    assert LeaseHolder.from_json(elsewhere().to_json()).run == elsewhere().run


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"run": 1}', '{"pid": "x", "run": {}}', '{"host": "a", "run": {"x": 1}}'],
)
def test_an_unreadable_lease_is_held_by_an_unknown_holder(text: str) -> None:
    """A lease file that cannot be parsed is still held: its heartbeat decides."""
    holder = LeaseHolder.from_json(text)
    assert lease_holder.is_alive(holder) is None
    assert "unknown host" in holder.describe()


def test_a_holder_describes_itself() -> None:
    """The description of a holder names task, run, try, process, host and time."""
    assert elsewhere().describe() == (
        "task load.fetch of run run-0, map index -1, try 1, process 4711 on worker-2, "
        "since 2026-01-01T00:00:00+00:00"
    )
