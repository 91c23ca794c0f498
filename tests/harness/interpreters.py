"""Pythons of this machine beside the one that runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def interpreter(version: str) -> str:
    """A Python of this version, on PATH or kept by pyenv; the test is skipped without one."""
    name = f"python{version}"
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for one in (shutil.which(name), *sorted(kept.glob(f"{version}.*/bin/{name}"))):
        # A shim of pyenv is there for every version, and works for those that are switched on.
        if (
            one
            and subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            return str(one)
    pytest.skip(f"no Python {version} on this machine: neither on PATH nor in {kept}")
