"""Skips that are failures in CI."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.harness import skips

if TYPE_CHECKING:
    from pathlib import Path


def report(nodeid: str, outcome: str = "skipped") -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=nodeid,
        location=("test_x.py", 1, "test_x"),
        keywords={},
        outcome=outcome,  # type: ignore[arg-type]
        longrepr=("test_x.py", 1, "Skipped: no Maven"),
        when="setup",
    )


def test_a_skip_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure says why the test was skipped, and where a skip is allowed."""
    monkeypatch.setenv(skips.VARIABLE, "1")
    judged = report("tests/test_x.py::test_x")
    skips.judge(judged)
    assert judged.outcome == "failed"
    assert "Skipped: no Maven" in str(judged.longrepr)
    assert "tests/harness/skips.py" in str(judged.longrepr)


def test_a_listed_skip_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the list may be skipped with all of its parameters."""
    monkeypatch.setenv(skips.VARIABLE, "1")
    for test in skips.ALLOWED:
        judged = report(f"{test}[443]")
        skips.judge(judged)
        assert judged.outcome == "skipped"


def test_elsewhere_a_skip_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside CI a skip stays a skip."""
    monkeypatch.delenv(skips.VARIABLE, raising=False)
    judged = report("tests/test_x.py::test_x")
    skips.judge(judged)
    assert judged.outcome == "skipped"


@pytest.mark.parametrize("test", skips.ALLOWED)
def test_every_listed_test_is_there(test: str, repository: Path) -> None:
    """A name that no test has any more is taken off the list."""
    file, _, name = test.partition("::")
    functions = ast.walk(ast.parse((repository / file).read_text()))
    assert name in {one.name for one in functions if isinstance(one, ast.FunctionDef)}


def test_ci_sets_the_variable(repository: Path) -> None:
    """`.ci/run` sets the variable that the tests read."""
    assert f"export {skips.VARIABLE}=1\n" in (repository / ".ci" / "run").read_text()
