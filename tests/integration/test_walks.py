"""Lengths of the walks of a replay id, a payload and a change event, on real runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.jars import Jars, jars, or_skip
from tests.harness.pages import Page

__all__ = ["jars"]


def walks(*options: str, **environment: str) -> str:
    """Trace the walks, and return what the script prints."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.walks", *options],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_walks_are_short() -> None:
    """A replay id and a payload cross no more modules on the worker than `scripts.walks` allows."""
    walks()


@pytest.mark.soak
@pytest.mark.full
@pytest.mark.spark
@pytest.mark.timeout(1000)
def test_the_walks_in_spark_are_short_and_on_the_page(jars: Jars) -> None:
    """The modules of all walks are within their limits, and the architecture's page names each."""
    or_skip(lambda: jars.delta)

    traced = walks("--spark", SFEVENTS_LAKE_JARS=",".join(map(str, jars.delta)))

    modules = re.findall(r"^ +\d+ (\S+)$", traced, re.MULTILINE)
    text = Page("explanation/architecture.md").text
    assert len(modules) > 50
    assert [one for one in modules if f"`{one}`" not in text] == []
