"""What docs/emulator.md tells users to do in tests of their own DAGs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full]


def _example(page: str, heading: str) -> str:
    """The first block of Python below a heading."""
    below = page.partition(f"## {heading}\n")[2]
    return below.partition("```python\n")[2].partition("```")[0]


def test_the_page_s_test_of_a_dag_passes_as_it_is(
    repository: Path, tmp_path: Path, spark_environment: Mapping[str, str]
) -> None:
    """In a project that has nothing but the example's DAG and the example's test, with the fixture that the package brings."""
    page = (repository / "docs" / "emulator.md").read_text()
    (tmp_path / "test_orders.py").write_text(_example(page, "In tests of your own DAGs"))
    (tmp_path / "dags").mkdir()
    shutil.copy(repository / "dags" / "salesforce_orders.py", tmp_path / "dags")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"],
        env={**os.environ, **spark_environment, "PYTEST_ADDOPTS": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
