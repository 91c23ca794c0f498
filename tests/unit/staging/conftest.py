"""Staging roots: every test that takes `place` runs on a local folder and on an object store."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from upath import UPath

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["local", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> UPath:
    if request.param == "local":
        return UPath(tmp_path) / "staging"
    return UPath(f"memory://{uuid.uuid4().hex}/staging")


@pytest.fixture
def local_place(tmp_path: Path) -> UPath:
    return UPath(tmp_path) / "staging"
