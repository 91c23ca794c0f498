"""Fixture `spark` for tests over Spark Connect, in the place of the classic session.

A module imports `spark` and the tests of other modules, which then run in sessions of a server.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.submit.connect_session import ConnectSession
from scripts.local_spark_connect import LocalSparkConnect
from tests.harness.jars import Jars, or_skip
from tests.harness.leaks import TESTS
from tests.harness.spark import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path


def server_in(folder: Path, jars: Sequence[Path]) -> AbstractContextManager[LocalSparkConnect]:
    """A server whose Python finds this package."""
    return LocalSparkConnect.running(
        folder,
        {**os.environ, **environment(), "PYTHONPATH": str(TESTS.parent)},
        jars=[str(one) for one in jars],
        conf={
            "spark.sql.shuffle.partitions": "2",
            # A client that dies at such a report needs one before a quick statement has ended.
            "spark.connect.progress.reportInterval": "50ms",
        },
    )


@pytest.fixture(scope="session")
def server_url(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server with the jars of all formats."""
    paths = [*or_skip(lambda: jars.delta), *or_skip(lambda: jars.iceberg)]
    with server_in(tmp_path_factory.mktemp("connect"), paths) as server:
        yield server.url


@contextmanager
def session_of(url: str) -> Iterator[Any]:
    """A session of a server, as a task has it; within the block, PySpark is that of Connect."""
    from pyspark.sql.connect.session import SparkSession

    # PySpark chooses its functions by it; other tests have a classic session.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        session = SparkSession.builder.remote(url).create()
        try:
            yield session
        finally:
            ConnectSession(session, url).release()


@pytest.fixture
def spark(server_url: str) -> Iterator[Any]:
    """A session for each test."""
    with session_of(server_url) as session:
        yield session
