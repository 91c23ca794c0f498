"""Fixture `spark` for tests over Spark Connect, in the place of the classic session.

A module imports `spark` and the tests of other modules, which then run in sessions of a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.tables import delta
from airflow_provider_sfevents.spark.tables.sessions import EXTENSIONS
from tests.harness.connect_server import connect_server
from tests.harness.jars import Jars, or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def server_url(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server with the jars of all formats."""
    paths = [*or_skip(lambda: jars.delta), *or_skip(lambda: jars.iceberg)]
    folder = tmp_path_factory.mktemp("connect")
    with connect_server(folder, paths, {EXTENSIONS: delta.EXTENSION}) as server:
        yield server.url


@pytest.fixture
def spark(server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session of the server, as a task has it: one for each test."""
    from pyspark.sql.connect.session import SparkSession

    # PySpark chooses the functions of Spark Connect by it; other tests have a classic session.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    session = SparkSession.builder.remote(server_url).create()
    yield session
    session.stop()
