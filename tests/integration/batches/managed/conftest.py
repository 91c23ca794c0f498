"""A consumer of an emulated managed subscription, and its sensor or triggerer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.batches.managing import ManagedConsumer, ManagedWaiter, managed_bus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with managed_bus() as emulator:
        yield emulator


@pytest.fixture
def consumer(bus: Emulator, tmp_path: Path) -> ManagedConsumer:
    return ManagedConsumer(bus=bus, root=tmp_path / "staging")


@pytest.fixture
def waiter(consumer: ManagedConsumer) -> ManagedWaiter:
    return ManagedWaiter(consumer=consumer)
