"""What explorations run under."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """Worlds refer to each other in no circle; looking for circles among a million of them takes a sixth of the time."""
    gc.disable()
    yield
    gc.enable()
