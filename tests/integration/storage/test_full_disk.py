from __future__ import annotations

import subprocess
from itertools import count
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import ObjectStoragePath
from upath import UPath

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.hooks.staging_access import put_job
from tests.integration.batches.conftest import publish
from tests.integration.storage.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator

EVENTS = 5
PAGE = 4096  # bytes; what the smallest file takes


class Disk:
    """A file system of a few pages, in memory: full for real."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self, size: int) -> None:
        self._run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.folder))

    def resize(self, options: str) -> None:
        self._run("mount", "-o", f"remount,{options}", str(self.folder))

    def unmount(self) -> None:
        self._run("umount", "--lazy", str(self.folder))

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path / "disk")
    disk.folder.mkdir()
    try:
        disk.mount(PAGE)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here (that takes root): {error}")
    yield disk
    disk.unmount()


def test_a_disk_that_is_full_at_any_file_loses_nothing(bus: Emulator, disk: Disk) -> None:
    """A disk that is full at any file loses no event, and the error asks for space.

    The task leaves no unfinished file, and the next one lands all events.
    """
    published = publish(bus, 1, EVENTS)
    for files in count(1):
        disk.unmount()
        disk.mount(files * PAGE)
        world = World(bus, UPath(disk.folder) / "staging", published)
        trouble = world.trouble()
        if not trouble:
            break
        assert "No space left on device. Free space there" in trouble
        disk.resize("size=1m")
        kept, paid = world.closed(), world.delivered
        world.run_once()
        world.check(delivered=paid + EVENTS - kept)
        assert [path.name for path in disk.folder.rglob(".*")] == []
    assert files > len(("lease", "origin", "schema", "part", "manifest", "receipt"))


def test_a_disk_that_becomes_read_only_is_named(bus: Emulator, disk: Disk) -> None:
    """Permissions do not stop root, a read-only mount does; nothing is spent on it."""
    published = publish(bus, 1, EVENTS)
    disk.resize("size=1m,ro")
    world = World(bus, UPath(disk.folder) / "staging", published)
    assert "Read-only file system. It is mounted read-only; set `staging`" in world.trouble()
    assert world.delivered == 0
    disk.resize("rw")
    world.run_once()
    world.check(delivered=EVENTS)


def test_no_room_for_the_spark_job_is_named(disk: Disk) -> None:
    """The job is put into the staging area whole, or the task says what is missing."""
    with pytest.raises(StagingError, match="Free space there"):
        put_job(ObjectStoragePath(f"file://{disk.folder}/staging"))
    assert [path.name for path in disk.folder.rglob("*") if path.is_file()] == []
