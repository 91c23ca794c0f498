"""Installation of the tests' jars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.jars import Jars, JarsMissingError

if TYPE_CHECKING:
    from pathlib import Path

COORDINATE = "org.example:thing:1.2"


def test_jars_that_are_kept_are_taken_without_what_spark_brings(tmp_path: Path) -> None:
    """Kept jars are used, without other versions of Spark's own libraries."""
    kept = tmp_path / "org.example_thing_1.2"
    kept.mkdir()
    for name in ("thing-1.2.jar", "snappy-java-0.0.1.jar", "notes.txt"):
        (kept / name).touch()

    assert Jars(tmp_path).resolved(COORDINATE) == [kept / "thing-1.2.jar"]


def test_without_maven_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that wants the jars is skipped with these words."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(
        JarsMissingError, match=r"org\.example:thing:1\.2 is not in .*no Maven client"
    ):
        Jars(tmp_path / "jars").resolved(COORDINATE)
