"""Fixture of all explorations."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """Switch off the search for cycles: worlds have none, and it takes a sixth of the time."""
    gc.disable()
    yield
    gc.enable()
