from __future__ import annotations

from typing import get_args

import pytest

from airflow_provider_sfevents.positions.record import advance
from airflow_provider_sfevents.pubsub.bounds import EndedBy
from tests.unit.positions.building import FETCH, batch_after, begun

AT = "2026-01-02T00:00:00+00:00"


@pytest.mark.parametrize("ended_by", get_args(EndedBy))
def test_only_silence_shows_that_no_event_followed(ended_by: str) -> None:
    """A batch that a bound has cut says nothing about the events behind it."""
    position = begun(drained_at="2025-12-31T00:00:00+00:00")
    manifest = batch_after(position, ended_by=ended_by, begun_at=AT)
    drained_at = AT if ended_by == "idle_seconds" else ""
    assert advance(position, manifest, AT, FETCH).drained_at == drained_at


def test_a_short_silence_shows_nothing() -> None:
    """An announced batch that ended before `idle_seconds` may lack pending events."""
    position = begun(drained_at="2025-12-31T00:00:00+00:00")
    manifest = batch_after(position, ended_by="idle_seconds", begun_at=AT, short_silence=True)
    assert advance(position, manifest, AT, FETCH).drained_at == ""
