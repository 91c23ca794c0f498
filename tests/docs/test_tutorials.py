"""The tutorials do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.harness.jars import Jars, or_skip
from tests.harness.pages import Command, Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(3600),
]


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


def test_the_first_dag_and_change_data_capture(
    tmp_path: Path, spark_environment: Mapping[str, str]
) -> None:
    """Both tutorials, command by command in one shell, print the tables that the pages show."""
    first, second = Page("tutorials/first-dag.md"), Page("tutorials/change-data-capture.md")
    jars = or_skip(lambda: Jars().delta)
    for path, content in {**first.files(), **second.files()}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    commands = [*first.commands(), *second.commands()]
    environment = {
        **os.environ,
        **spark_environment,
        "SFEVENTS_LAKE_JARS": ",".join(map(str, jars)),
    }
    done = subprocess.run(
        ["bash", "-c", _script(commands)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = [_table(part) for part in done.stdout.split(_MARK)[1:]]
    tables = [_table("\n".join(one.prints)) for one in commands if _shows_a_table(one)]
    assert [table for table in tables if table not in printed] == []
    assert len(tables) == 5


_MARK = "== next command ==\n"


def _shows_a_table(command: Command) -> bool:
    return command.line.startswith("python ") and bool(command.prints)


def _table(text: str) -> str:
    """Printed text without the ids of records, which differ from org to org, and without layout."""
    return " ".join(re.sub(r"\b001\w{15}\b", "ID", text).split())


def _script(commands: Sequence[Command]) -> str:
    """All commands in one shell; the emulator is waited for, and ends with the shell."""
    return "\n".join(["set -e", "trap 'kill $(jobs -p)' EXIT", *_lines(commands)])


def _lines(commands: Sequence[Command]) -> Iterator[str]:
    for command in commands:
        if command.line.endswith("&"):
            yield f"{command.line.removesuffix('&')} >emulator.log &"
            yield "until grep -q Connection emulator.log; do sleep 0.2; done"
        else:
            yield f"printf %s '{_MARK}'"
            yield command.line
