"""Metrics of a position, their text for Prometheus, and the last line of a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.position.position_metrics import (
    METRICS,
    Metric,
    duration,
    expires_at,
    exposition,
    of_commit,
    of_position,
    summary,
)
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.positions.activity import Commit, Counts
from airflow_provider_sfevents.staging.manifest import Run
from tests.unit.batches.building import manifest

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position

AT = datetime(2026, 1, 2, 12, tzinfo=UTC)
COMMIT = Commit(
    batch_number=1,
    batch_id="e-1",
    replay_id="0a",
    events=10,
    at=AT.isoformat(),
    quarantined=2,
    fetch_ms=1500,
    landing_ms=2500,
)


def position(**changed: Any) -> Position:
    begun = record.begin(
        org_id="00D",
        instance_url="https://acme",
        topic="/event/Order__e",
        consumer="orders",
        start="earliest",
        at=AT.isoformat(),
        by=Run(),
    )
    values = {
        "batch_number": 1,
        "replay_id": "0a",
        "last_event_at": (AT - timedelta(hours=1)).isoformat(),
        "events_total": 10,
        "recent": (COMMIT,),
        "counts": Counts(quarantined=2, extra_deliveries={"in_memory": 3}),
    }
    return replace(begun, **{**values, **changed})


def values(metrics: list[Metric]) -> dict[str, float]:
    return {" ".join((one.name, *list(one.labels.values())[2:])): one.value for one in metrics}


def test_metrics_of_a_position() -> None:
    """Times are Unix times; the replay id of a platform event expires after 72 hours."""
    created = (AT - timedelta(hours=1)).timestamp()
    assert values(of_position(position(), failed=4)) == {
        "events_landed": 10,
        "events_quarantined": 2,
        "loss_windows": 0,
        "failures_in_a_row": 4,
        "last_event_time": created,
        "last_commit_time": AT.timestamp(),
        "expiry_time": created + 72 * 3600,
        "extra_deliveries in_memory": 3,
        "batch_seconds fetch": 1.5,
        "batch_seconds landing": 2.5,
        "batch_seconds commit": 0,
    }


def test_a_position_without_a_replay_id_does_not_expire() -> None:
    """Before the first commit there is no time to tell."""
    begun = position(batch_number=0, replay_id="earliest", recent=(), last_event_at="")
    found = values(of_position(begun))
    assert found.keys().isdisjoint({"expiry_time", "last_commit_time", "last_event_time"})


def test_a_push_topic_s_replay_id_expires_after_a_day() -> None:
    """The retention is the topic's."""
    expiry = expires_at(position(topic="/topic/Accounts"))
    assert expiry == AT + timedelta(hours=23)


def test_a_commit_adds_its_own_counts() -> None:
    """Counters get what the batch brought, not what the epoch has."""
    found = values(of_commit(position(events_total=500), COMMIT, {"after_end": 1}))
    assert found["events_landed"] == 10
    assert found["extra_deliveries after_end"] == 1
    assert "extra_deliveries in_memory" not in found


def test_the_text_for_prometheus() -> None:
    """Each metric has its help and type once; labels are escaped."""
    labels = {"consumer": 'a"b\\', "topic": "/event/Order__e"}
    text = exposition(
        [
            Metric(name="events_landed", value=3, labels=labels),
            Metric(name="expiry_time", value=1_767_355_200.5, labels=labels),
            Metric(name="events_landed", value=4, labels={"consumer": "b"}),
        ]
    )
    assert text.splitlines() == [
        f"# HELP sfevents_events_landed_total {METRICS['events_landed'].help}",
        "# TYPE sfevents_events_landed_total counter",
        r'sfevents_events_landed_total{consumer="a\"b\\",topic="/event/Order__e"} 3',
        'sfevents_events_landed_total{consumer="b"} 4',
        f"# HELP sfevents_expiry_time {METRICS['expiry_time'].help}",
        "# TYPE sfevents_expiry_time gauge",
        r'sfevents_expiry_time{consumer="a\"b\\",topic="/event/Order__e"} 1767355200.5',
    ]
    assert text.endswith("\n")


def test_the_last_line_of_a_run() -> None:
    """It says what the run cost and where the position stands."""
    said = summary(position(), COMMIT, {"in_memory": 3, "after_end": 0}, AT)
    assert said == (
        "10 events landed for 13 deliveries (extra: 3 in_memory); 2 in quarantine; the last one "
        "was created 60 min ago; the replay id is valid for 3 days"
    )
    one = replace(COMMIT, events=1, quarantined=0)
    assert summary(position(), one, {}, AT).startswith("1 event landed for 1 delivery; the last")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2.0 h"), (172_800, "2 days"), (-5, "0 s")],
)
def test_durations(seconds: int, said: str) -> None:
    """A duration has the unit that people would use."""
    assert duration(timedelta(seconds=seconds)) == said


@pytest.mark.parametrize(("lease", "warns"), [(1, False), (3, False), (4, True)])
def test_a_batch_that_fails_again_and_again(lease: int, warns: bool) -> None:
    """From the fourth try on, a task says since when, how often, and what to do."""
    staged = manifest(1, Run())
    said = recovery.tried_often(staged, lease, landed=False)
    assert bool(said) is warns
    if warns:
        assert f"staged at {staged.created_at}" in said
        assert "after 3 tries: its landing fails" in said
        assert "airflow sfevents doctor --topic" in said
