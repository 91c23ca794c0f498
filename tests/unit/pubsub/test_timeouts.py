"""Timeouts against each other."""

from __future__ import annotations

from airflow_provider_sfevents.pubsub.timeouts import Timeouts

LONGEST_KEEPALIVE_SECONDS = 270


def test_a_dead_line_is_noticed_long_before_the_silence() -> None:
    """Pings find a dead connection within a minute, long before the silence limit does."""
    timeouts = Timeouts()
    assert timeouts.dead_line_seconds <= 60
    assert timeouts.silence_seconds > LONGEST_KEEPALIVE_SECONDS
    assert timeouts.rest_seconds < timeouts.dead_line_seconds
