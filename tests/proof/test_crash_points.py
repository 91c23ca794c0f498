from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proof.figures import note_trial
from tests.proof.points import crash_points, is_repeated, quick_points
from tests.proof.world import SPARK

if TYPE_CHECKING:
    from tests.proof.points import CrashPoint
    from tests.proof.trials import Trials

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]


def _survive(trials: Trials, point: CrashPoint) -> None:
    trial = trials.of(point)
    note_trial(trial)
    assert trial.wrong == [], "\n".join(trial.wrong)


@pytest.mark.parametrize("point", quick_points(), ids=lambda point: point.id)
def test_a_kill_loses_and_doubles_nothing(trials: Trials, point: CrashPoint) -> None:
    """After a kill at each of a few steps every event lands once and no staged event is paid twice.

    The steps are while events arrive, while the position moves, with a twin of the job, and with
    Salesforce killed.
    """
    _survive(trials, point)


def _marks(point: CrashPoint) -> list[pytest.MarkDecorator]:
    spark, soak = [pytest.mark.spark], [pytest.mark.soak]
    return spark * (point.job == SPARK) + soak * is_repeated(point)


@pytest.mark.full
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, id=point.id, marks=_marks(point))
        for point in crash_points()
        if point not in quick_points()
    ],
)
def test_a_kill_anywhere_loses_and_doubles_nothing(trials: Trials, point: CrashPoint) -> None:
    """After a kill at any step of worker or driver, in any store, every event lands once."""
    _survive(trials, point)
