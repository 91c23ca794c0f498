"""Log line of a fetch before its first event."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.batches.recovery import FetchPlan, described
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint
from airflow_provider_sfevents.staging.manifest import Part

PART = Part(
    path="a", start="0a", end="0b", first_ordinal=0, events=7, bytes=1, sha256="", schemas=()
)


@pytest.mark.parametrize(
    ("plan", "bounds", "said"),
    [
        (
            FetchPlan(start=EARLIEST),
            Bounds(),
            "Fetching /event/A__e from earliest, until nothing comes for 30 s, 10000 events or "
            "600 s at most.",
        ),
        (
            FetchPlan(start=LATEST),
            Bounds(idle_seconds=0.5, learn_seconds=280, max_events=5),
            "Fetching /event/A__e from latest, until nothing comes for 0.5 s (280 s for the "
            "first), 5 events or 600 s at most.",
        ),
        (
            FetchPlan(start=EARLIEST),
            Bounds(idle_seconds=2).of_announced(1.0, follows_transactions=False),
            "Fetching /event/A__e from earliest, until nothing comes for 0.3 s (a sensor or "
            "watcher has announced the batch), 10000 events or 600 s at most.",
        ),
        (
            FetchPlan(start=ReplayPoint("0a"), kept=(PART,)),
            Bounds(),
            "Fetching /event/A__e after 0b, until nothing comes for 30 s, 10000 events or 600 s "
            "at most; 7 staged already.",
        ),
    ],
)
def test_the_log_says_from_where_and_how_long_it_may_be_silent(
    plan: FetchPlan, bounds: Bounds, said: str
) -> None:
    """The log line before a fetch names the replay point, the bounds and the staged events."""
    assert described("/event/A__e", plan, bounds) == said
