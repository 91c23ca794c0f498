from __future__ import annotations

import pytest

from airflow_provider_sfevents.staging.marks import Anchor, Announced, Forgotten, Origin


def test_an_origin_survives_its_text() -> None:
    """What is written is what is read, the position's text untouched."""
    origin = Origin(epoch="e1", previous="e0", created_at="2026-01-01", position='{"a": 1}')
    assert Origin.from_json(origin.to_json()) == origin


def test_a_forgetting_survives_its_text() -> None:
    """What is written is what is read."""
    mark = Forgotten(id="f", at="2026-01-01T00:00:00+00:00", epochs=["e1"], last_event_at="then")
    assert Forgotten.from_json(mark.to_json()) == mark


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "",
        '{"epoch": "e", "sequence": true, "replay_id": "", "seen_at": "", "after": ""}',
    ],
)
def test_a_mark_is_read_strictly(text: str) -> None:
    """Nothing else passes for one."""
    with pytest.raises(ValueError):  # noqa: PT011 - of json or ours
        Anchor.from_json(text)


@pytest.mark.parametrize("at", ["", "yesterday", "2026-01-01T00:00:00"])
def test_an_announcement_has_a_time_that_can_be_computed_with(at: str) -> None:
    """The next one is due so long after it; a time without a zone says nothing."""
    mark = Announced(events=3, at="2026-01-01T00:00:00+00:00", times=1)
    assert Announced.from_json(mark.to_json()) == mark
    with pytest.raises(ValueError):  # noqa: PT011 - of datetime or ours
        Announced.from_json(Announced(events=3, at=at, times=1).to_json())
