"""An emulated bus with one topic, and a consumer of it without Airflow.

Folders of tests that need another bus or consumer define their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.batches.conftest import Consumer


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(half_close_seconds=0.01, keepalive_seconds=0.3)) as emulator:
        emulator.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        yield emulator


@pytest.fixture
def consumer(bus: Emulator, tmp_path: Path) -> Consumer:
    from tests.integration.batches.conftest import Consumer

    return Consumer(bus=bus, root=tmp_path / "staging")
