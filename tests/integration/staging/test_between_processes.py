from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.parts.part_chain import chain
from airflow_provider_sfevents.staging.parts.part_reader import damage
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.staging.building import here

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "batch"


@contextmanager
def worker(repository: Path, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A task in a process of its own, which is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.staging.worker", *map(str, arguments)],
        cwd=repository,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str]) -> None:
    _pipe(process.stdin).write("\n")
    _pipe(process.stdin).flush()


def hear(process: subprocess.Popen[str]) -> str:
    return _pipe(process.stdout).readline().strip()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def batch(folder: Path) -> BatchFolder:
    return BatchFolder(UPath(folder), "e1-1")


def test_a_running_task_is_respected_and_a_killed_one_is_not(
    repository: Path, folder: Path
) -> None:
    """A task gives way to a live holder by name, and takes over from a killed one at once."""
    with (
        worker(repository, "lease", folder) as first,
        worker(repository, "lease", folder) as second,
    ):
        tell(first)
        assert hear(first) == "leased 1"
        tell(second)
        assert f"process {first.pid} on" in hear(second)
        first.kill()
        first.wait()
        with batch(folder).take_lease(here()) as lease:
            assert lease.number == 2


def test_of_tasks_that_start_together_one_has_the_batch(repository: Path, folder: Path) -> None:
    """Of processes that take a batch at once exactly one gets it, and the others name it."""
    with (
        worker(repository, "lease", folder) as a,
        worker(repository, "lease", folder) as b,
        worker(repository, "lease", folder) as c,
        worker(repository, "lease", folder) as d,
    ):
        for one in (a, b, c, d):
            tell(one)
        said = [hear(one) for one in (a, b, c, d)]
        assert sorted(line.split()[0] for line in said) == [
            "leased",
            "refused",
            "refused",
            "refused",
        ]
        holder = (a, b, c, d)[[line.startswith("leased") for line in said].index(True)]
        assert all(
            f"process {holder.pid} on" in line for line in said if line.startswith("refused")
        )


@pytest.mark.parametrize("deliveries", [1, 7, 20])
def test_what_a_killed_task_had_closed_is_whole(
    repository: Path, folder: Path, deliveries: int
) -> None:
    """A task killed during a stream leaves a chain of complete files; leftovers are removed."""
    with worker(repository, "write", folder) as writer:
        for _ in range(deliveries):
            hear(writer)
        writer.kill()
        writer.wait()
        assert writer.stdout is not None
        writer.stdout.read()
    found = batch(folder)
    with found.take_lease(here()):
        parts = found.parts()
        assert chain("earliest", parts) == tuple(sorted(parts, key=lambda part: part.first_ordinal))
        assert sum(part.events for part in parts) >= 30 * max(0, deliveries // 3 - 2)
        for part in parts:
            assert damage(found.folder, part) == ""
        names = durable_files.names(found.folder / "attempts" / "0001")
        assert len(names) == len(parts)
