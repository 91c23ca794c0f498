from __future__ import annotations

import pytest

from airflow_provider_sfevents.staging.marks import Anchor, Origin


def test_an_origin_survives_its_text() -> None:
    """What is written is what is read, the position's text untouched."""
    origin = Origin(epoch="e1", created_at="2026-01-01", position='{"a": 1}')
    assert Origin.from_json(origin.to_json()) == origin


@pytest.mark.parametrize(
    "text", ["{}", "[]", "", '{"epoch": "e", "sequence": true, "replay_id": "", "seen_at": ""}']
)
def test_a_mark_is_read_strictly(text: str) -> None:
    """Nothing else passes for one."""
    with pytest.raises(ValueError):  # noqa: PT011 - of json or ours
        Anchor.from_json(text)
