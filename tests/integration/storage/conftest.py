"""The emulated bus that all of these tests read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(half_close_seconds=0.01, keepalive_seconds=0.3)) as emulator:
        emulator.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        yield emulator
