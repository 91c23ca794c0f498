"""Waits on a silent topic leave nothing and grow nothing, however many keepalives pass."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest

from tests.airflow.watches import burst, landed_once, place_kept
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]

KEEPALIVES = 24
"""The emulator sends one a second."""

MOST_GROWTH = 8 * 2**20
"""Bytes: of a process of 300 MB in which Airflow's own loops run, too."""

CHANGING = frozenset({"log", "dag_priority_parsing_request", "asset_active"})
"""Tables to which Airflow writes while DAGs are parsed and switched on.

The scheduler also activates the assets of tables that earlier runs have landed, in its own time.
"""


def test_silence_leaves_nothing(here: Deployment) -> None:
    """Many keepalives add no file, no row and no memory, and need one subscription each.

    The watcher and the deferred sensor then receive the next event.
    """
    awaited, watched = here.topic("Silent"), here.watched("idle")
    with here.switched_on("watched_idle"):
        run = here.run("deferring", awaited)
        place_kept(awaited, "deferring")
        place_kept(watched, "watched_idle")
        wait_until(lambda: _unfinished(here) == 1, "runs of the tests before have ended")
        topics = (awaited, watched)
        wait_until(lambda: _keepalive_is_kept(here, watched), "a keepalive is in the position")
        wait_until(lambda: _leases_are_released(here, *topics), "no process is at work")
        rows, files, size = _rows(here), _files(here, *topics), _memory(here)
        until = time.monotonic() + KEEPALIVES
        wait_until(lambda: time.monotonic() > until, "keepalives have passed")
        assert _files(here, *topics) == files
        assert _rows(here) == rows
        assert _memory(here) - size < MOST_GROWTH
        assert [topic.open_streams() for topic in topics] == [1, 1]
        awaited.publish(1)
        run.wait("success")
        burst(here, "watched_idle", watched, 1)
    landed_once(awaited, "deferring")
    landed_once(watched, "watched_idle")


def _files(here: Deployment, *topics: Topic) -> list[str]:
    """All that the staging area has of these topics; runs of others may still end there."""
    root = here.airflow.home.folder / "sfevents"
    return sorted(
        str(path.relative_to(root))
        for topic in topics
        for path in root.glob(f"*/*/*{topic.short}/**/*")
    )


def _keepalive_is_kept(here: Deployment, watched: Topic) -> bool:
    """Tell whether a watcher has taken the lease of the first batch, as it does once an hour."""
    return any("/0000000001/leases/" in file for file in _files(here, watched))


def _leases_are_released(here: Deployment, *topics: Topic) -> bool:
    """Tell whether no process is at work: a keepalive is put into a position under a lease."""
    leases = [Path(file) for file in _files(here, *topics) if "/leases/" in file]
    ended = {file.with_suffix("") for file in leases if file.suffix == ".released"}
    return all(file.with_suffix("") in ended for file in leases)


def _unfinished(here: Deployment) -> int:
    """Number of DAG runs that have not ended."""
    query = "SELECT count(*) FROM dag_run WHERE state IN ('queued', 'running')"
    return int(here.airflow.home._query(query)[0][0])


def _rows(here: Deployment) -> dict[str, int]:
    """Number of rows of each of Airflow's tables."""
    home = here.airflow.home
    tables = {
        name for (name,) in home._query("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    return {
        name: int(home._query(f'SELECT count(*) FROM "{name}"')[0][0])  # noqa: S608
        for name in tables - CHANGING
    }


def _memory(here: Deployment) -> int:
    """Resident bytes of the triggerer, its loop's process included."""
    triggerer = psutil.Process(here.airflow.processes["triggerer"].pid)
    processes = [triggerer, *triggerer.children(recursive=True)]
    return sum(process.memory_info().rss for process in processes)
