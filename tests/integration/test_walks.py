"""Length of the walks of a replay id and of a payload through the package, on a real fetch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_walks_are_short() -> None:
    """A replay id and a payload cross no more modules on the worker than `scripts.walks` allows."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "scripts.walks"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
