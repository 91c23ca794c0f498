"""Fixtures of the proof: a warm Airflow, an emulator in its own process, a database."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.proof.stage import open_stage
from tests.proof.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.proof.world import Stage

FEW = 8
"""Below this number of crash points, a second stage costs more time than it saves."""

MOST_AT_ONCE = 4


@pytest.fixture(scope="session")
def new_stage(
    tmp_path_factory: pytest.TempPathFactory,
    airflow_database_file: Path,
    spark_environment: dict[str, str],
) -> Callable[[str], AbstractContextManager[Stage]]:
    """Return a function that opens a stage in a folder of the given name."""
    folder = tmp_path_factory.mktemp("proof")
    return lambda name: open_stage(folder / name, airflow_database_file, spark_environment)


@pytest.fixture(scope="session")
def trials(
    request: pytest.FixtureRequest, new_stage: Callable[[str], AbstractContextManager[Stage]]
) -> Iterator[Trials]:
    """Start the trials of all selected crash points; each test asks for its own."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    points = [call.params["point"] for call in calls if call and "point" in call.params]
    at_once = 1 if len(points) <= FEW else min(os.cpu_count() or 1, MOST_AT_ONCE)
    with Trials(points, lambda number: new_stage(f"stage-{number}"), at_once) as begun:
        yield begun
