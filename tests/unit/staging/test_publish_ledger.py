"""The ledger of the events that a task has published."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging.publish_ledger import (
    KEEP_FOR,
    KEEP_RUNS,
    Accepted,
    PublishLedger,
    run_key,
    run_name,
    runs_folder,
    to_sweep,
)

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN = "scheduled__2026-01-31T12:00:00+00:00"


def ledger(
    root: Path, writer: str = "001-a", *, run: str = RUN, map_index: int = -1, now: datetime = NOW
) -> PublishLedger:
    runs = runs_folder(UPath(root), "00D000000000001EAA", "/event/Order__e", "dag.task")
    return PublishLedger(runs, run=run, map_index=map_index, writer=writer, now=now)


def accepted(*numbers: int) -> list[Accepted]:
    return [Accepted(record=number, id=f"e{number}", replay_id="00") for number in numbers]


def noted(root: Path, writer: str = "009-z") -> list[Accepted]:
    """Return the events that a new try knows before it publishes."""
    return list(ledger(root, writer).known().values())


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_the_next_try_reads_what_this_one_wrote(tmp_path: Path) -> None:
    """The next try reads the ledger of the previous one on any day, and adds to it."""
    first = ledger(tmp_path)
    first.write(accepted(1, 2))
    second = ledger(tmp_path, "002-b", now=NOW + timedelta(days=1))
    assert list(second.known().values()) == accepted(1, 2)
    second.write(accepted(3))
    assert second.folder == first.folder
    assert noted(tmp_path) == accepted(1, 2, 3)


def test_another_run_or_mapped_task_has_a_ledger_of_its_own(tmp_path: Path) -> None:
    """Another run or map index has a ledger of its own."""
    first = ledger(tmp_path)
    first.write(accepted(1))
    assert ledger(tmp_path, run="manual").known() == {}
    assert ledger(tmp_path, map_index=0).known() == {}


def test_two_first_tries_at_once_lose_nothing(tmp_path: Path) -> None:
    """Two first tries at once make two folders, and a later try reads both."""
    one, other = ledger(tmp_path), ledger(tmp_path, "001-b", now=NOW + timedelta(seconds=5))
    for number, made in enumerate((one, other)):
        made.write(accepted(number))
    assert one.folder != other.folder
    assert noted(tmp_path) == accepted(0, 1)


def test_a_ledger_that_is_none_is_refused(tmp_path: Path) -> None:
    """A ledger file that cannot be parsed is an error with file and remedy."""
    first = ledger(tmp_path)
    first.write(accepted(1))
    [file] = files(tmp_path)
    file.write_text('{"record": 1}\n')
    with pytest.raises(StagingError, match=rf"{file.name} is no publish record"):
        noted(tmp_path)


def test_what_has_had_its_time_is_swept() -> None:
    """Sweeping selects ledgers that are old and not among the newest, and nothing else."""
    old = [run_name(NOW - KEEP_FOR - timedelta(days=days), run_key("r")) for days in (1, 2, 3)]
    young = [run_name(NOW - timedelta(hours=hours), run_key("r")) for hours in range(KEEP_RUNS)]
    assert to_sweep([*young, *old, "notes"], NOW) == sorted(old)
    assert to_sweep([*young[1:], *old], NOW) == sorted(old[1:])
    assert to_sweep(old, NOW) == []


def test_sweeping_removes_the_folders(tmp_path: Path) -> None:
    """Sweeping removes old ledgers and keeps the one of the current run."""
    for day in range(KEEP_RUNS + 2):
        made = ledger(tmp_path, run=f"run {day}", now=NOW - timedelta(days=100 - day))
        made.write(accepted(day))
    last = ledger(tmp_path, run="last")
    last.write(accepted(99))
    last.sweep(NOW)
    assert len(files(tmp_path)) == KEEP_RUNS
    assert list(ledger(tmp_path, run="last").known().values()) == accepted(99)
