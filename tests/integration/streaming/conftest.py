"""The loop of these tests."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone, as the session does."""
    return "asyncio"
