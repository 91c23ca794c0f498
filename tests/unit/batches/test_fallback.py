from __future__ import annotations

import pytest

from airflow_provider_sfevents.batches import fallback
from airflow_provider_sfevents.exceptions import ConfigurationError, ReplayIdRefused
from airflow_provider_sfevents.staging.manifest import LossWindow
from tests.unit.batches.building import position

REFUSED = ReplayIdRefused("Subscribing failed: expired.")


@pytest.mark.parametrize("choice", ["earliest", "latest"])
def test_a_choice_makes_a_loss_window(choice: str) -> None:
    """It says from where, to where, when and why."""
    assert fallback.loss_window(
        position(replay_id="0a", last_event_at="then"), choice, REFUSED, "now", "Variable 'x'"
    ) == LossWindow(
        after="0a",
        after_event_at="then",
        start=choice,
        at="now",
        why="Subscribing failed: expired.",
    )


def test_without_a_choice_the_user_is_asked() -> None:
    """The message names the replay id, its place, and the commands between which to choose."""
    with pytest.raises(ReplayIdRefused) as raised:
        fallback.loss_window(position(replay_id="0a"), "fail", REFUSED, "now", "Variable 'x'")
    said = str(raised.value)
    assert "The replay id is 0a, of Variable 'x'" in said
    assert "`airflow sfevents position set orders /event/Order__e earliest`" in said
    assert "replay_fallback='earliest' or 'latest'" in said


def test_an_unknown_choice_is_refused() -> None:
    """It is told when the DAG is parsed, not when the id has expired."""
    with pytest.raises(ConfigurationError, match=r"replay_fallback='newest' is not known"):
        fallback.check_choice("newest")
