"""Crash points over Spark Connect: the next job lands and applies each event once."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark import apply, land
from airflow_provider_sfevents.spark.failure import one_line
from tests.harness.jars import or_skip
from tests.spark.conftest import at
from tests.spark.connected import server_in, server_url, session_of
from tests.spark.lakes import by_path
from tests.spark.orgs import A, B, CurrentState, event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    from tests.harness.jars import Jars
    from tests.harness.step_hooks import OnStep
    from tests.spark.conftest import Staging

__all__ = ["server_url"]

C = "001000000000003AAA"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def die_in(job: ModuleType, before: str, url: str, arguments: list[str]) -> None:
    """Run a job in a process that is killed while the server runs the commit after a step."""
    command = [sys.executable, "-m", "tests.spark.connect_client", url, job.__name__, before]
    killed = subprocess.run(
        [*command, *arguments], check=False, capture_output=True, text=True, timeout=1200
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]


def test_a_client_killed_while_the_server_commits_is_a_twin(
    server_url: str, jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """The statement of a killed client goes on beside the next landing, and changes nothing."""
    or_skip(lambda: jars.iceberg)
    manifest = staging.write([staging.order(n) for n in range(20)])
    where = ["--manifest", manifest, "--table", str(tmp_path / "lake"), "--format", "iceberg"]

    die_in(land, steps.LANDING_MOVE, server_url, where)

    with session_of(server_url) as session:
        tables = by_path("iceberg", session, tmp_path / "lake")
        tables.land(manifest)
        assert tables.events() == [("0f3c-1", n) for n in range(20)]
        assert [*tables.landed()] == ["0f3c-1"]
        assert not tables.under_way()


# PySpark's own warning, that a dead server cannot be told of the end of a session.
@pytest.mark.soak
@pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")
def test_a_server_killed_before_the_ledger_leaves_a_batch_that_the_next_one_completes(
    jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """The landing fails with one line, and a landing over a new server completes the batch."""
    paths = or_skip(lambda: jars.delta)
    manifest = staging.write([staging.order(n) for n in range(20)])
    with server_in(tmp_path, paths) as server, session_of(server.url) as session:
        session.client.set_retry_policies([])
        tables = by_path("delta", session, tmp_path / "lake")
        with pytest.raises(PySparkException) as failure:
            tables.land(manifest, at(steps.LANDING_LANDED, server.kill))
    assert one_line(failure.value).startswith("The Spark Connect server does not answer.")

    with server_in(tmp_path, paths) as server, session_of(server.url) as session:
        tables = by_path("delta", session, tmp_path / "lake")
        tables.land(manifest)
        assert tables.events() == [("0f3c-1", n) for n in range(20)]
        assert [*tables.landed()] == ["0f3c-1"]
        assert not tables.under_way()


def second_batch(state: CurrentState, staging: Staging) -> str:
    """Apply a first batch; return the manifest of one that changes every table."""
    first = state.stage(
        event(staging, 1, "CREATE", A, Industry="Mining"),
        event(staging, 2, "CREATE", B, Industry="Farming"),
    )
    second = state.stage(
        event(staging, 3, "UPDATE", A, Industry="Shipping"),
        event(staging, 4, "DELETE", B),
        event(staging, 5, "GAP_UPDATE", C),
        event(staging, 6, "UPDATE", C, Industry="kept"),
        event(staging, 7, "UPDATE", A, Industry="held"),
        ended_by="max_events",
    )
    state.apply(first)
    return second


def state_in(session: Any, folder: Path, staging: Staging) -> CurrentState:
    options = {"new_entities": "empty", "history": True}
    return CurrentState(session, str(folder / "current state"), "iceberg", staging, options)


def check_applied(state: CurrentState) -> None:
    """Each change of `second_batch` is applied once, and the last transaction stays open."""
    assert state.rows("Account", "record_id", "Industry") == [
        {"record_id": A, "Industry": "Shipping"}
    ]
    assert [row["record_id"] for row in state.rows("tombstones")] == [B]
    assert [row["record_id"] for row in state.rows("resync")] == [C]
    assert [row["record_id"] for row in state.rows("kept")] == [C]
    assert len(state.rows("open_transaction")) == 1
    spans = state.rows("Account_history", "Industry", "valid_to")
    assert {row["Industry"]: row["valid_to"] is None for row in spans} == {
        "Mining": False,
        "Farming": False,
        "Shipping": True,
    }
    assert len(spans) == 3


@pytest.mark.soak
def test_a_client_killed_while_the_server_applies_is_a_twin(
    server_url: str, jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """Rows that the server commits for a killed client are there once after the next job."""
    or_skip(lambda: jars.iceberg)
    with session_of(server_url) as session:
        state = state_in(session, tmp_path, staging)
        second = second_batch(state, staging)
        where = ["--manifest", second, "--table", state.log, "--current-state", state.root]
        options = ["--format", "iceberg", "--new-entities", "empty", "--history"]

        die_in(apply, f"{steps.APPLY_COMMIT} rows", server_url, [*where, *options])

        state.apply(second)
        check_applied(state)


@pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")
def test_a_server_killed_between_two_commits_of_an_apply(
    jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """The job fails with one line, and the one over the next server applies each change once.

    `test_apply` kills the same job after each commit, in a classic session.
    """
    paths = or_skip(lambda: jars.iceberg)
    second = ""
    for table in ("rows", ""):
        with server_in(tmp_path, paths) as server, session_of(server.url) as session:
            session.client.set_retry_policies([])
            state = state_in(session, tmp_path, staging)
            second = second or second_batch(state, staging)
            if not table:
                state.apply(second)
                check_applied(state)
                return
            with pytest.raises(PySparkException) as failure:
                state.apply(second, after_commit_of(table, server.kill))
        assert one_line(failure.value).startswith("The Spark Connect server does not answer.")


def after_commit_of(table: str, act: Callable[[], object]) -> OnStep:
    """Call a function after the first commit of this name, of `tables.APPLY_ORDER`."""
    taken: list[str] = []

    def step(name: str, about: str) -> None:
        if not taken and name == steps.APPLY_COMMITTED and about.partition(" ")[0] == table:
            taken.append(about)
            act()

    return step
