"""The tutorials do what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.harness.pages import Page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full]


def test_the_test_of_a_dag_passes_as_it_is(
    repository: Path, tmp_path: Path, spark_environment: Mapping[str, str]
) -> None:
    """The page's test passes in a project with nothing but it and the DAG that it tests."""
    sample = Page("tutorials/test-your-dag.md").samples("python")[0]
    (tmp_path / "test_orders.py").write_text(sample)
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
