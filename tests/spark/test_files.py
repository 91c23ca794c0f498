"""File operations while other landings work in the same folders, on disk and through Hadoop."""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.stores.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.spark


class Between(HadoopFiles):
    """Another landing acts right after this one has looked into a folder."""

    def __init__(self, spark: Any, act: Callable[[], object]) -> None:
        super().__init__(spark)
        self._act = act

    @override
    def names(self, url: str) -> list[str]:
        found = super().names(url)
        self._act()
        return found


def test_a_folder_that_another_fills_in_that_moment_stays(spark: Any, tmp_path: Path) -> None:
    """An empty folder that another landing fills while it is removed stays, without error."""
    folder = tmp_path / "_landing"
    folder.mkdir()
    files = Between(spark, partial((folder / "0f3c-2").mkdir, exist_ok=True))
    files.remove_if_empty(str(folder))
    assert [path.name for path in folder.iterdir()] == ["0f3c-2"]


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o2750, 0o640), (0o755, 0o644)])
def test_a_receipt_is_as_closed_as_its_folder(
    spark: Any, tmp_path: Path, folder: int, file: int
) -> None:
    """A file that Spark writes or replaces in the staging area follows `staging_mode`."""
    tmp_path.chmod(folder)
    place = tmp_path / "receipt.json"
    for text in ("one", "two"):
        Files(spark).write_staged(f"file://{place}", text)
        assert place.read_text() == text
        assert f"{place.stat().st_mode & 0o7777:o}" == f"{file:o}"
    assert list(tmp_path.iterdir()) == [place]


def test_a_folder_that_another_removes_in_that_moment_is_gone(spark: Any, tmp_path: Path) -> None:
    """Removing a folder that another landing removes at that moment is no error."""
    folder = tmp_path / "_landing"
    folder.mkdir()
    files = Between(spark, partial(shutil.rmtree, folder, ignore_errors=True))
    files.remove_if_empty(str(folder))
    assert not folder.exists()


@pytest.mark.parametrize(("store", "rounds"), [(Files, 500), (HadoopFiles, 40)])
def test_folders_come_and_go_below_a_folder_that_goes_when_empty(
    spark: Any, tmp_path: Path, store: type[Files | HadoopFiles], rounds: int
) -> None:
    """A batch makes its folder while another removes its own and the empty one above."""
    root = tmp_path / "_landing"

    def come_and_go(batch: int) -> None:
        files, folder = store(spark), f"{root}/{batch}"
        for _ in range(rounds):
            files.make_folder(folder)
            files.remove(folder)
            files.remove_if_empty(str(root))

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # the threads take turns in the middle of `mkdir`
    try:
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(come_and_go, range(2))) == [None, None]
    finally:
        sys.setswitchinterval(usual)
    store(spark).remove_if_empty(str(root))
    assert not root.exists()
