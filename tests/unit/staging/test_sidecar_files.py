from __future__ import annotations

import pytest

from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.sidecar_files import (
    Announced,
    Forgotten,
    Origin,
)

AT = "2026-01-01T00:00:00+00:00"


def test_an_origin_survives_its_text() -> None:
    """An origin reads back as it was written, with the position's text unchanged."""
    origin = Origin(epoch="e1", previous="e0", created_at="2026-01-01", position='{"a": 1}')
    assert Origin.from_json(origin.to_json()) == origin


def test_a_forgetting_survives_its_text() -> None:
    """A record of a forgetting reads back as it was written."""
    mark = Forgotten(id="f", at=AT, epochs=["e1"], last_event_at="then")
    assert Forgotten.from_json(mark.to_json()) == mark


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "",
        '{"epoch": "e", "batch_number": true, "replay_id": "", "seen_at": "", "after": ""}',
    ],
)
def test_a_mark_is_read_strictly(text: str) -> None:
    """A sidecar file with other keys or types is refused."""
    with pytest.raises(ValueError):  # noqa: PT011 - of json or of this package
        KeepalivePoint.from_json(text)


@pytest.mark.parametrize("at", ["", "yesterday", "2026-01-01T00:00:00"])
@pytest.mark.parametrize(
    "mark", [Announced(events=3, at=AT, times=1), Forgotten(id="f", at=AT, epochs=["e1"])]
)
def test_a_time_can_be_computed_with(mark: Announced | Forgotten, at: str) -> None:
    """An announcement or a forgetting whose time has no time zone is refused."""
    assert type(mark).from_json(mark.to_json()) == mark
    with pytest.raises(ValueError):  # noqa: PT011 - of datetime or of this package
        type(mark).from_json(mark.to_json().replace(AT, at))
