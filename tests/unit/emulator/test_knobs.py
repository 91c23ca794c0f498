"""Knobs and clock refuse invalid values, and the command line can set every knob."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_provider_sfevents.emulator.cli import command_line
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.knobs import Knobs


def test_every_knob_says_what_the_real_service_does() -> None:
    """Each knob is followed by a text about the real service."""
    body = ast.parse(inspect.getsource(Knobs)).body[0]
    assert isinstance(body, ast.ClassDef)
    documented = {
        first.target.id
        for first, second in zip(body.body, body.body[1:], strict=False)
        if isinstance(first, ast.AnnAssign) and isinstance(first.target, ast.Name)
        if isinstance(second, ast.Expr) and isinstance(second.value, ast.Constant)
    }
    assert documented == {field.name for field in fields(Knobs)}


def test_every_knob_is_in_the_documentation() -> None:
    """The table of docs/reference/emulator.md has each knob with its default, and no other."""
    text = (Path(__file__).parents[3] / "docs" / "reference" / "emulator.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.MULTILINE))
    assert rows == {field.name: repr(field.default) for field in fields(Knobs)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"response_events": 0},
        {"response_events": (5, 2)},
        {"keepalive_seconds": 0},
        {"max_outstanding": -1},
        {"max_streams_per_connection": 0},
        {"fault_rate": 1.1},
        {"repeat_rate": -0.1},
        {"statuses": (("topic.not.found", "GONE"),)},
        {"over_limit": "rejct"},
        {"replay_id_bytes": 9},
    ],
)
def test_senseless_knobs_are_refused(wrong: dict[str, object]) -> None:
    """An impossible knob value is refused with its name."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Knobs(**wrong)  # type: ignore[arg-type]


def test_clock_moves_forward_only() -> None:
    """A fixed clock moves only by `advance`, and never back."""
    clock = EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
    clock.advance(hours=73)
    assert clock.now() == datetime(2026, 1, 4, 1, tzinfo=UTC)
    assert clock.unmoved() == datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="forward"):
        clock.advance(hours=-1)


@pytest.mark.parametrize("days", [9_999_999, 1e300])
def test_clock_stays_in_the_calendar(days: float) -> None:
    """A step beyond the calendar is refused and leaves the clock where it was."""
    clock = EmulatorClock(datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match="ends with the year 8999"):
        clock.advance(days=days)
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)


def test_clock_wants_a_time_zone() -> None:
    """A start without a time zone is refused, because it depends on the machine."""
    with pytest.raises(ValueError, match="time zone"):
        EmulatorClock(datetime(2026, 1, 1))  # noqa: DTZ001


def test_knobs_from_the_command_line() -> None:
    """A value is parsed by the type of its knob's default."""
    settings = [
        "response_events=2-5",
        "spread_seconds=0.08",
        "unknown_topic=NOT_FOUND",
        "keepalive_drift=false",
        "delivery_allocation=None",
        "publish_allocation=25000",
        "max_connection_age_seconds=0.5",
        "statuses=topic.not.found:UNKNOWN,service.unavailable:UNAVAILABLE",
    ]
    assert command_line.knobs(settings, 3.0) == Knobs(
        keepalive_seconds=3.0,
        response_events=(2, 5),
        spread_seconds=0.08,
        unknown_topic="NOT_FOUND",
        keepalive_drift=False,
        delivery_allocation=None,
        publish_allocation=25_000,
        max_connection_age_seconds=0.5,
        statuses=(("topic.not.found", "UNKNOWN"), ("service.unavailable", "UNAVAILABLE")),
    )


@pytest.mark.parametrize(
    "setting",
    [
        "nope=1",
        "max_outstanding=many",
        "max_outstanding=None",
        "keepalive_seconds=0",
        "statuses=topic.not.found",
        "idle_close_status=BAD",
    ],
)
def test_wrong_knobs_on_the_command_line_are_named(setting: str) -> None:
    """An unknown knob or an invalid value is one clear error."""
    with pytest.raises(EmulatorError, match=setting.partition("=")[0]):
        command_line.knobs([setting], None)


@pytest.mark.parametrize(
    ("name", "said"),
    [("keepalive_second", "is it keepalive_seconds"), ("nope", "there are keepalive_seconds, ")],
)
def test_a_misspelt_knob_is_answered_with_the_right_one(name: str, said: str) -> None:
    """A misspelt knob's error suggests similar names, or lists all knobs."""
    with pytest.raises(EmulatorError, match=f"no knob '{name}'; {said}"):
        command_line.knobs([f"{name}=1"], None)
