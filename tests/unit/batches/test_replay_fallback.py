from __future__ import annotations

import pytest

from airflow_provider_sfevents.batches.position import replay_fallback
from airflow_provider_sfevents.batches.recovery import FetchPlan
from airflow_provider_sfevents.exceptions import ConfigurationError, ReplayIdRefusedError
from airflow_provider_sfevents.positions.record import EVENT, lose, move_on, pin
from airflow_provider_sfevents.positions.record_text import Whose
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.staging.manifest import LossWindow
from tests.unit.batches.building import position

STORE = MappingStore(
    {}, "x", Whose(consumer="orders", topic="/event/Order__e", store="my_stores.ours")
)
REFUSED = ReplayIdRefusedError("Subscribing failed: expired.")
WINDOW = LossWindow(after="0a", start="latest", at="2026-01-01T00:00:00+00:00", why="before")


@pytest.mark.parametrize("choice", ["earliest", "latest"])
def test_a_choice_makes_a_loss_window(choice: str) -> None:
    """A fallback keeps the position's replay id and begins the batch at the user's choice."""
    before = move_on(position(replay_id="0a", last_event_at="then"), "0b", "2026-01-02")
    after = replay_fallback.choose(before, choice, REFUSED, STORE)
    assert after.loss is not None
    assert (after.loss.after, after.loss.after_event_at) == ("0a", "then")
    assert (after.loss.start, after.loss.why) == (choice, "Subscribing failed: expired.")
    assert (after.replay_id, after.start.to_text(), after.resume_after) == ("0a", choice, "")
    assert after.is_pinned == (choice == "earliest")


def test_a_second_loss_begins_where_the_first_did() -> None:
    """A second loss window before the same batch begins at the first replay id that was refused."""
    first = pin(lose(position(replay_id="0a"), WINDOW), "0b", by=EVENT, staging_id="s")
    rerun = replay_fallback.choose(first, "earliest", REFUSED, STORE).loss
    assert rerun is not None
    assert (rerun.after, rerun.start) == ("0a", "earliest")
    with pytest.raises(ReplayIdRefusedError, match="expired"):
        replay_fallback.choose(lose(first, rerun), "earliest", REFUSED, STORE)


@pytest.mark.parametrize("losses", [0, 1], ids=["first run", "after a loss window"])
def test_a_pinning_event_that_is_nowhere_is_a_loss_window(losses: int) -> None:
    """A loss window for a lost pinning event keeps the replay id and an earlier window's start."""
    before = lose(position(replay_id="0a"), WINDOW) if losses else position(replay_id="latest")
    after = replay_fallback.without_first(pin(before, "0b", by=EVENT, staging_id="s"))
    assert (after.start.to_text(), after.pinned_by) == ("0b", "")
    assert after.loss is not None
    assert (after.loss.after, after.loss.start) == ("0a" if losses else "", "latest")
    assert "event 0b" in after.loss.why
    assert after.loss.why.startswith("before Then the task" if losses else "The task")


def test_without_a_choice_the_user_is_asked() -> None:
    """The error of a refused replay id names the id, its store, and the commands to choose from."""
    with pytest.raises(ReplayIdRefusedError) as raised:
        replay_fallback.choose(position(replay_id="0a"), "fail", REFUSED, STORE)
    said = str(raised.value)
    assert "Stored is 0a in Key 'x' of dict" in said
    command = "airflow sfevents position set orders /event/Order__e earliest"
    assert f"`{command} --position-store my_stores.ours`" in said
    assert "replay_fallback='earliest' or 'latest'" in said


def test_a_refused_initial_replay_is_named_as_such() -> None:
    """The error of a refused `initial_replay` names the argument and the command to begin again."""
    begun = position(batch_number=0, replay_id="0a", initial_replay="0a")
    with pytest.raises(ReplayIdRefusedError) as raised:
        replay_fallback.choose(begun, "fail", REFUSED, STORE)
    said = str(raised.value)
    assert "The replay id 0a is the task's initial_replay" in said
    command = "airflow sfevents position forget orders /event/Order__e"
    assert f"`{command} --position-store my_stores.ours`" in said
    assert "are lost" not in said


def test_a_refused_keepalive_point_loses_nothing() -> None:
    """A refused keepalive point is replaced by the next older one, and at last by the position."""
    plan: FetchPlan | None = FetchPlan(
        start=ReplayPoint("0a"), keepalive_points=tuple(map(ReplayPoint, ("0c", "0b")))
    )
    asked = []
    while plan is not None:
        asked.append(plan.subscribe_at.to_text())
        plan = replay_fallback.without_keepalive_point(plan, REFUSED)
    assert asked == ["0c", "0b", "0a"]


def test_an_unknown_choice_is_refused() -> None:
    """An unknown `replay_fallback` fails when the DAG is parsed, not at an expired replay id."""
    with pytest.raises(ConfigurationError, match=r"replay_fallback='newest' is not known"):
        replay_fallback.check_choice("newest")
