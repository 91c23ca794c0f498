"""Crash points over Spark Connect: the next landing leaves each event once."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.failure import one_line
from tests.harness.jars import or_skip
from tests.spark.conftest import at
from tests.spark.connected import server_in, server_url, session_of
from tests.spark.lakes import by_path

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.jars import Jars
    from tests.spark.conftest import Staging

__all__ = ["server_url"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def test_a_client_killed_while_the_server_commits_is_a_twin(
    server_url: str, jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """The statement of a killed client goes on beside the next landing, and changes nothing."""
    or_skip(lambda: jars.iceberg)
    manifest = staging.write([staging.order(n) for n in range(20)])
    where = ["--manifest", manifest, "--table", str(tmp_path / "lake"), "--format", "iceberg"]
    command = [sys.executable, "-m", "tests.spark.connect_client", server_url, *where]

    killed = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1200)

    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    with session_of(server_url) as session:
        tables = by_path("iceberg", session, tmp_path / "lake")
        tables.land(manifest)
        assert tables.events() == [("0f3c-1", n) for n in range(20)]
        assert [*tables.landed()] == ["0f3c-1"]
        assert not tables.under_way()


# PySpark's own warning, that a dead server cannot be told of the end of a session.
@pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")
def test_a_server_killed_at_a_step_leaves_a_batch_that_the_next_one_completes(
    jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """The landing fails with one line, and a landing over a new server completes the batch."""
    paths = or_skip(lambda: jars.delta)
    manifest = staging.write([staging.order(n) for n in range(20)])
    for step in (steps.LANDING_MOVE, steps.LANDING_LANDED):
        with server_in(tmp_path, paths) as server, session_of(server.url) as session:
            session.client.set_retry_policies([])
            tables = by_path("delta", session, tmp_path / "lake")
            with pytest.raises(PySparkException) as failure:
                tables.land(manifest, at(step, server.kill))
        assert one_line(failure.value).startswith("The Spark Connect server does not answer.")

    with server_in(tmp_path, paths) as server, session_of(server.url) as session:
        tables = by_path("delta", session, tmp_path / "lake")
        tables.land(manifest)
        assert tables.events() == [("0f3c-1", n) for n in range(20)]
        assert [*tables.landed()] == ["0f3c-1"]
        assert not tables.under_way()
