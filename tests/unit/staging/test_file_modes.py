from __future__ import annotations

import grp
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.staging.parts.part_file import PartFile
from airflow_provider_sfevents.staging.snapshot_files import ReadFolder
from airflow_provider_sfevents.staging.storage import durable_files, file_modes
from airflow_provider_sfevents.staging.storage.staging_location import usable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Restore the mode and the umask of this process."""
    before, umask = file_modes.in_use(), os.umask(0o022)
    yield
    file_modes.use(before)
    os.umask(umask)


def own_group() -> int:
    """Return a group that this user may give files to, if possible not its first one."""
    others = [one.gr_gid for one in grp.getgrall()] if not os.geteuid() else os.getgroups()
    return next((gid for gid in others if gid != os.getegid()), os.getegid())


def found(folder: Path) -> dict[str, str]:
    """Modes of a folder and of everything in it, by path."""
    paths = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): f"{path.stat().st_mode & 0o7777:o}" for path in paths}


def stage_all_kinds(root: UPath) -> None:
    """Leave a file by each way in which this package writes one."""
    durable_files.create_once(root / "leases" / "0001.json", b"")
    durable_files.replace(root / "receipt.json", b"")
    durable_files.ensure_content(root / "_jobs" / "land.py", b"")
    part = PartFile(root / "attempts", 0)
    part._parquet.close()
    part._sink.close()
    assert part._hidden is not None
    durable_files.reveal(part._hidden, root / "attempts" / "part")
    with ReadFolder(root / "read").part(1, "json") as file:
        file.write(b"")


EXPECTED = {
    "private": (file_modes.PRIVATE, "700", "600"),
    "group": (file_modes.group(own_group()), "2750", "640"),
    "inherit": (file_modes.INHERIT, "755", "644"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_everything_staged_has_the_mode(name: str, tmp_path: Path) -> None:
    """Leases, parts, receipts, job files and reads have the modes of the setting."""
    wanted, folder, file = EXPECTED[name]
    file_modes.use(wanted)
    stage_all_kinds(UPath(tmp_path) / "staging")
    below = tmp_path / "staging"
    for path, mode in found(below).items():
        assert (path, mode) == (path, folder if (below / path).is_dir() else file)
    assert len([path for path in below.rglob("*") if path.is_file()]) == 5


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
@pytest.mark.parametrize("name", ["private", "group"])
def test_the_umask_changes_nothing(name: str, umask: int, tmp_path: Path) -> None:
    """The modes of staged files do not depend on the umask."""
    wanted, folder, file = EXPECTED[name]
    file_modes.use(wanted)
    os.umask(umask)
    durable_files.replace(UPath(tmp_path) / "a" / "b", b"")
    assert (found(tmp_path)["a"], found(tmp_path)["a/b"]) == (folder, file)


def test_a_group_owns_what_is_made(tmp_path: Path) -> None:
    """Files and folders belong to the named group, also in a folder of another group."""
    file_modes.use(file_modes.group(own_group()))
    durable_files.replace(UPath(tmp_path) / "a" / "b", b"")
    durable_files.replace(UPath(tmp_path) / "c", b"")
    assert {path.stat().st_gid for path in tmp_path.rglob("*")} == {own_group()}


@pytest.mark.parametrize("first", EXPECTED)
@pytest.mark.parametrize("second", EXPECTED)
def test_a_second_try_under_another_mode(first: str, second: str, tmp_path: Path) -> None:
    """After a change of the mode, the new readers reach files of earlier runs, too."""
    root = UPath(tmp_path) / "staging"
    file_modes.use(EXPECTED[first][0])
    assert usable(root)
    durable_files.replace(root / "org" / "batch" / "manifest.json", b"1")
    file_modes.use(EXPECTED[second][0])
    assert usable(root)
    assert not durable_files.create_once(root / "org" / "batch" / "manifest.json", b"2")
    durable_files.replace(root / "org" / "batch" / "receipt.json", b"3")
    if second == "group":
        below = [path for path in (tmp_path / "staging").rglob("*") if path.is_dir()]
        assert all(path.stat().st_mode & 0o050 == 0o050 for path in below)
        manifest = tmp_path / "staging" / "org" / "batch" / "manifest.json"
        assert manifest.stat().st_mode & 0o040
        assert {path.stat().st_gid for path in below} == {own_group()}


def test_an_area_behind_a_link_is_opened(tmp_path: Path) -> None:
    """After a change of the mode, the new readers also reach files below a link to a folder."""
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    durable_files.replace(UPath(tmp_path) / "disk" / "org" / "manifest.json", b"")
    file_modes.use(file_modes.group(os.getegid()))  # which the link belongs to, too
    assert usable(UPath(tmp_path) / "link")
    modes = {".": "2750", "org": "2750", "org/manifest.json": "640"}
    assert found(tmp_path / "disk") == modes


@pytest.mark.parametrize(
    ("root", "org", "reported"),
    [
        pytest.param(0o700, 0o755, None, id="a closed root closes all"),
        pytest.param(0o755, 0o700, None, id="a mount point"),
        pytest.param(0o755, 0o755, "org", id="made before"),
        pytest.param(0o750, 0o750, "org", id="open to a group"),
        pytest.param(0o777, 0o700, "", id="others could exchange it"),
    ],
)
def test_wider_folders_are_found(root: int, org: int, reported: str | None, tmp_path: Path) -> None:
    """Folders that let in users that the mode keeps out are reported and left as they are."""
    (tmp_path / "org").mkdir()
    (tmp_path / "org").chmod(org)
    tmp_path.chmod(root)
    assert file_modes.wider(tmp_path) == (None if reported is None else tmp_path / reported)
    assert found(tmp_path) == {".": f"{root:o}", "org": f"{org:o}"}
    file_modes.use(file_modes.INHERIT)
    assert file_modes.wider(tmp_path) is None


def test_a_system_that_refuses_a_mode_is_named() -> None:
    """The error for a refused mode names path, mode and setting."""
    with pytest.raises(ConfigurationError) as raised:
        file_modes.apply_to_folder(Path("/proc/self"))
    assert "/proc/self cannot be given the mode 700 of [sfevents] staging_mode = private" in str(
        raised.value
    )
    assert "set [sfevents] staging_mode = inherit" in str(raised.value)
