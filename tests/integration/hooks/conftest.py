"""An emulated org, and connections to it in Airflow's environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Connect = Callable[..., str]


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    with Emulator(sample=True, knobs=Knobs(half_close_seconds=0.01, keepalive_seconds=0.3)) as bus:
        yield bus
        bus.check()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Define a connection with these values and extras; returns its id."""

    def connect(
        connection: dict[str, Any], extra: dict[str, Any] | None = None, **over: Any
    ) -> str:
        merged = {**connection, **over, "extra": {**connection["extra"], **(extra or {})}}
        monkeypatch.setenv("AIRFLOW_CONN_SF_TEST", json.dumps(merged))
        return "sf_test"

    return connect
