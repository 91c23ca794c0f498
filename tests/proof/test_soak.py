from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.proof.figures import note_soak
from tests.proof.points import Front
from tests.proof.schedule import FAULTS, NO_VICTIM, SHARED, STAGINGS, plan_round
from tests.proof.soak import Soak
from tests.proof.world import STORES

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.proof.world import Stage

SEED, ROUNDS = 126, 8


@pytest.mark.full
@pytest.mark.soak
@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_short_soak_loses_and_doubles_nothing(
    new_stage: Callable[[str], AbstractContextManager[Stage]],
) -> None:
    """After rounds of random kills and faults, every event is in the tables once."""
    lines: list[str] = []
    with new_stage("soak") as stage:
        soak = Soak(stage=stage, seed=SEED, rounds=ROUNDS, spark_every=ROUNDS, say=lines.append)

        soak.run()
    note_soak(soak)

    assert soak.kills > 0
    assert soak.deliveries == soak.published + soak.causes.total(), lines


def test_a_round_follows_from_seed_and_number() -> None:
    """Seed and number of a round decide its plan, and another seed decides other plans."""
    rounds = [plan_round(7, number, 25) for number in range(1, 301)]

    assert rounds == [plan_round(7, number, 25) for number in range(1, 301)]
    assert rounds != [plan_round(8, number, 25) for number in range(1, 301)]


def test_a_whole_soak_holds_everything() -> None:
    """300 rounds include every victim, fault and kind of event, and undisturbed rounds."""
    rounds = [plan_round(6, number, 25) for number in range(1, 301)]

    assert {one.victim for one in rounds} == {
        NO_VICTIM,
        "task",
        "supervisor",
        "worker",
        "job",
        "everything",
        "sleeper",
        "terminated",
    }
    assert {one.fault for one in rounds} == set(FAULTS)
    assert {one.world for one in rounds} == {"variable", "asset", "xcom", "own", "spark"}
    assert {one.front for one in rounds} == set(Front)
    assert {(one.world, one.staging) for one in rounds} == {
        *product(STORES, STAGINGS),
        ("spark", SHARED),
    }
    for kind in (
        "front_killed",
        "big",
        "poison",
        "retried",
        "wakes",
        "again",
        "is_calm",
        "twin_seconds",
        "hours",
        "timeout_seconds",
        "skew_seconds",
        "compacts",
        "front_terminated",
    ):
        assert any(getattr(one, kind) for one in rounds), kind
