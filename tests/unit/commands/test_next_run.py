from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.batches.position.open_position import Landed
from airflow_provider_sfevents.batches.recovery import BatchContents
from airflow_provider_sfevents.commands import next_run
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.variable import VariableStore
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.lease_holder import LeaseState
from airflow_provider_sfevents.staging.manifest import LossWindow
from tests.unit.commands.building import landed, nothing, part, staged
from tests.unit.positions.building import TOPIC, begun
from tests.unit.staging.building import elsewhere

if TYPE_CHECKING:
    from airflow_provider_sfevents.commands.staged_batches import BatchOverview
    from airflow_provider_sfevents.positions.record import Position

AT = begun(batch_number=3, replay_id="0a", batch_id="e1-3")
STORE = VariableStore("load", TOPIC)


def says(
    batch: BatchOverview, newest: Landed | None = None, position: Position = AT, **found: Any
) -> str:
    what = BatchContents(
        position_start=position.replay_id,
        start=position.start,
        manifest=batch.manifest,
        receipt=batch.receipt,
        parts=batch.parts,
        **found,
    )
    return next_run.with_position(position, newest, batch, what, STORE)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param(
            nothing(AT), "The next run fetches batch e1-4: the events after 0a.", id="new"
        ),
        pytest.param(
            nothing(AT, parts=(part("0a", "0b"), part("0b", "0c", 2))),
            "The next run continues batch e1-4: it keeps the 4 events of 2 files and fetches the "
            "events after 0c.",
            id="parts",
        ),
        pytest.param(
            staged(AT),
            "The next run lands batch e1-4 (3 events), which is staged, and commits it; nothing is "
            "fetched.",
            id="staged",
        ),
        pytest.param(
            landed(AT),
            "The next run commits batch e1-4 (3 events), which has landed: the position moves to "
            "its end, and nothing is fetched or landed again.",
            id="landed",
        ),
    ],
)
def test_what_lies_there_tells_what_the_next_run_does(batch: BatchOverview, expected: str) -> None:
    """Each state of the next batch has its own description of the next run."""
    assert says(batch) == expected


def test_a_keepalive_and_a_loss_window_are_named() -> None:
    """A start other than the position's replay id is described with its reason."""
    keepalive_point = KeepalivePoint(
        epoch="e1", batch_number=3, replay_id="0f", seen_at="2026-01-02", after="0a"
    )
    said = says(nothing(AT), keepalive_points=(keepalive_point,))
    assert said.endswith("after 0f, the replay id of the last keepalive.")
    loss = LossWindow(after="0a", start="earliest", at="2026-01-01", why="expired")
    assert says(nothing(AT), position=replace(AT, loss=loss)) == (
        "The next run fetches batch e1-4: all events that the bus still holds, after a loss "
        "window: the bus refused 0a."
    )


def test_a_run_gives_way_to_a_holder() -> None:
    """While the batch is held, the sentence names the holder and the later run."""
    said = says(nothing(AT, holder=elsewhere(), verdict=LeaseState.ALIVE))
    assert said.startswith("A run that starts now gives way to task load.fetch of run run-0")
    assert said.endswith("a run fetches batch e1-4: the events after 0a.")


def test_a_run_that_would_be_refused_is_told_with_the_remedy() -> None:
    """A stale, changed or lost position is described by the operators' own error."""
    newest = Landed(epoch="e1", batch_number=9, end="0f")
    stale = says(nothing(AT), newest)
    assert stale.startswith("The next run is refused:")
    assert f"`airflow sfevents position set load {TOPIC} 0f`" in stale
    moved = staged(replace(AT, replay_id="0b"))
    assert "it was changed by hand" in says(moved)
    lost = next_run.without_position(newest, [], "load", TOPIC, STORE)
    assert f"`airflow sfevents position forget load {TOPIC}`" in lost


def test_nothing_known_is_a_first_run() -> None:
    """Without a position and a landed batch, or after forgetting, the next run is a first run."""
    forgotten = Landed(epoch="e1", batch_number=9, is_forgotten=True)
    for newest in (None, forgotten):
        assert next_run.without_position(newest, [], "load", TOPIC, STORE).startswith(
            "The next run is a first run"
        )


def test_a_staged_batch_is_left_behind_only_on_purpose() -> None:
    """A staged batch is left behind only with the option, which the error names."""
    with pytest.raises(ConfigurationError, match=r"Batch e1-4 is staged .* leave it behind: do it"):
        next_run.refuse_to_abandon(staged(AT), "do it", abandon=False)
    next_run.refuse_to_abandon(staged(AT), "do it", abandon=True)
    next_run.refuse_to_abandon(landed(AT), "do it", abandon=False)
    next_run.refuse_to_abandon(nothing(AT, parts=(part("0a", "0b"),)), "do it", abandon=False)


def test_what_is_left_behind_is_told() -> None:
    """Events that were paid for and would be left behind are named."""
    assert next_run.left_behind(None) == []
    assert next_run.left_behind(nothing(AT)) == []
    assert next_run.left_behind(landed(AT)) == []
    assert "batches reland" in next_run.left_behind(staged(AT))[0]
    [received] = next_run.left_behind(nothing(AT, parts=(part("0a", "0b"),)))
    assert received == "2 events received for batch e1-4 will be left behind."


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", "delivered again"),
        ("latest", "is skipped"),
        ("0f", "the events in between are skipped"),
    ],
)
def test_what_a_start_costs_is_told(start: str, expected: str) -> None:
    """Each replay point is described with its redelivered or skipped events."""
    assert expected in next_run.meaning(start)[0]


@pytest.mark.parametrize("start", ["earliest", "0f"])
def test_a_first_start_delivers_nothing_again(start: str) -> None:
    """For a topic that the consumer has not read, no redelivery is announced."""
    [said] = next_run.meaning(start, is_first=True)
    assert "The next run gets all events" in said
    assert "again" not in said


def test_a_move_by_hand_leaves_a_loss_window() -> None:
    """Moving a position by hand leaves a loss window, unless it stays at its replay id."""
    before = LossWindow(after="00", start="earliest", at="2026-01-01", why="expired")
    position = replace(AT, losses=(before,), last_event_at="2026-01-02")
    assert next_run.losses_after(position, "latest", "2026-01-03") == (
        before,
        LossWindow(
            after="0a",
            after_event_at="2026-01-02",
            start="latest",
            at="2026-01-03",
            why="the position was set by hand",
        ),
    )
    assert next_run.losses_after(position, "0a", "2026-01-03") == (before,)
    [said] = next_run.loss_of_move(position, "latest")
    assert "records a loss window, from 0a to latest" in said
    assert next_run.loss_of_move(position, "0a") == next_run.loss_of_move(None, "latest") == []


def test_age_is_counted_from_the_last_sign_of_the_bus() -> None:
    """The age counts from the last event or keepalive; a preset has no age."""
    now = datetime.fromisoformat("2026-01-03T12:00:00+00:00")
    keepalive_point = KeepalivePoint(
        epoch="e1", batch_number=3, replay_id="0f", seen_at="2026-01-03T10:30:00+00:00", after="0a"
    )
    assert next_run.age_hours(AT, None, now) == 60.0
    assert next_run.age_hours(AT, keepalive_point, now) == 1.5
    assert next_run.age_hours(begun(), None, now) is None
    waited = replace(AT, resume_after="0f", resume_after_at="2026-01-03T11:00:00+00:00")
    assert next_run.age_hours(waited, keepalive_point, now) == 1.0
    assert "expires in 12 h" in next_run.worry(AT, None, now)
    assert next_run.worry(AT, keepalive_point, now) == ""


def test_positions_that_are_too_old_are_named() -> None:
    """Positions above the limit are named with their age; one at the limit is not."""
    ages = [("a /event/X__e", 50.2), ("b /event/X__e", None), ("c /event/X__e", 48.0)]
    assert next_run.too_old(ages, 48) == "Older than 48 hours: a /event/X__e (50.2 h)."
    assert next_run.too_old(ages, 60) == ""
    unreadable = next_run.too_old([("Variable 'x'", inf)], 48)
    assert unreadable == "Older than 48 hours: Variable 'x' (no position)."
