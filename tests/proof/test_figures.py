from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proof import figures
from tests.proof.points import Front, crash_points
from tests.proof.trial import Trial

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a results folder of this test's own."""
    monkeypatch.setenv(figures.FOLDER, str(tmp_path))
    return tmp_path


def note_all(**different: Trial) -> None:
    for point in crash_points():
        figures.note_trial(different.get(point.id) or Trial(point=point, events=15, deliveries=15))


def test_a_report_holds_when_every_crash_point_was_survived() -> None:
    """The report passes if every crash point has a trial without a violation."""
    note_all()

    lines, whole = figures.report()

    assert whole
    assert f"crash points covered   {len(crash_points())} of {len(crash_points())}" in lines
    assert any(line.startswith("deliveries per event   1.000") for line in lines)


def test_a_report_fails_for_what_was_lost_or_left_out() -> None:
    """The report fails, and names crash points that broke a rule or have not run."""
    first, second, *_ = crash_points()
    figures.note_trial(Trial(point=first, wrong=["1 of 15 events are not in the tables"]))

    lines, whole = figures.report()

    assert not whole
    assert f"  BROKEN: {first.id}" in lines
    assert f"not gone through: {second.id}" in lines


def test_a_report_tells_what_was_paid_for_twice() -> None:
    """The report sums up extra deliveries by cause over all trials and soaks."""
    first = crash_points()[0]
    paid = Trial(point=first, events=15, deliveries=27, causes={"in memory": 12})
    note_all(**{first.id: paid})

    lines, _ = figures.report()

    assert "     12 more: in memory" in lines


def test_a_report_tells_what_was_paid_with_a_wait_in_front() -> None:
    """The report lists deliveries per kind of wait, next to those without a wait."""
    note_all()
    poked = next(point for point in crash_points() if point.front is Front.POKE)
    figures.note_trial(Trial(point=poked, events=15, deliveries=21, causes={"in memory": 6}))

    lines, _ = figures.report()

    pokes = [point for point in crash_points() if point.front is Front.POKE]
    first = 15 * len(pokes)
    assert f"  poke               {(first + 6) / first:.3f} ({first + 6} for {first})" in lines
    assert any(line.startswith("  no wait before     1.000") for line in lines)
