from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.positions.race import FALLBACK, Race

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

AT_ONCE = 6
FEW, SOME, ALL = range(12), range(60), range(200)


@pytest.fixture
def bus() -> Iterator[Emulator]:
    """A bus that delivers a few events at a time, and sends keepalives soon."""
    knobs = Knobs(half_close_seconds=0.01, keepalive_seconds=0.05, response_events=(1, 3))
    with Emulator(knobs=knobs) as emulator:
        yield emulator


def run_all(races: Iterable[Race]) -> list[str]:
    """Run several races at a time; return the violations of all."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [wrong for found in pool.map(Race.run, races) for wrong in found]


@pytest.mark.parametrize(
    "start", ["latest", "earliest", pytest.param(FALLBACK, marks=pytest.mark.full)]
)
def test_two_areas_lose_and_double_nothing(bus: Emulator, tmp_path: Path, start: str) -> None:
    """Two staging areas that begin one position at once land each later event once."""
    assert run_all(Race(bus, tmp_path, seed, start) for seed in FEW) == []


@pytest.mark.full
@pytest.mark.soak
@pytest.mark.parametrize("start", ["latest", "earliest", FALLBACK])
def test_two_areas_lose_and_double_nothing_with_many_seeds(
    bus: Emulator, tmp_path: Path, start: str
) -> None:
    """Two staging areas that begin one position at once land each event once, with 200 seeds."""
    assert run_all(Race(bus, tmp_path, seed, start) for seed in ALL) == []


@pytest.mark.full
@pytest.mark.soak
def test_without_a_read_back_an_event_is_staged_under_a_replaced_record(
    bus: Emulator, tmp_path: Path
) -> None:
    """The race detects a first record that is not read back."""
    found = run_all(Race(bus, tmp_path, seed, "latest", reads_back=False) for seed in SOME)
    assert any("which another task's record had replaced" in one for one in found)


@pytest.mark.full
@pytest.mark.soak
@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_without_a_look_before_landing_events_land_twice(
    bus: Emulator, tmp_path: Path, start: str
) -> None:
    """The race detects a task that does not read the position again before it lands."""
    found = run_all(Race(bus, tmp_path, seed, start, looks_again=False) for seed in SOME)
    assert any("landed twice" in one for one in found)
