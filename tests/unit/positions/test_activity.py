from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.activity import (
    FEWEST,
    HOURS,
    RECENT,
    Commit,
    Counts,
    commit_of,
    counted_on,
    events_in,
)
from airflow_provider_sfevents.positions.record import Position, advance
from airflow_provider_sfevents.staging.manifest import Receipt, Run
from tests.unit.positions.building import batch_after, begun

BEGIN = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
MOST = 8_192


def receipt(**changes: Any) -> Receipt:
    made = Receipt(batch_id="e1-1", events=3, tables={"t": 3}, quarantined=0, written_at="")
    return replace(made, **changes)


def busy(run_id: str) -> Position:
    """A position with two weeks of batches, one in each hour, of a busy topic."""
    position = begun()
    for number in range(2 * HOURS):
        by = Run(dag="salesforce_orders", run=f"{run_id}{number:04d}", task="land", try_number=1)
        at = BEGIN + timedelta(hours=number, microseconds=123_456)
        staged = (at - timedelta(seconds=40)).isoformat()
        manifest = batch_after(
            position,
            events=9_999_999,
            begun_at=(at - timedelta(minutes=2)).isoformat(),
            created_at=staged,
            last_event_at=staged,
        )
        written = (at - timedelta(seconds=1)).isoformat()
        landed = receipt(quarantined=12, duplicates=3, written_at=written)
        extra = {"in_memory": 500, "outside_batch": 10_000, "overlapping_wait": 7}
        position = advance(position, manifest, at.isoformat(), by, "0f6c1d5a9be2", landed, extra)
    return position


def test_a_record_is_at_most_eight_kilobytes() -> None:
    """A position of a busy topic keeps seven days of hours and 20 batches in 8 kB."""
    position = busy("scheduled__2026-01-01T00:00:00+00:00")
    assert len(position.to_json().encode()) <= MOST
    assert (len(position.recent), len(position.counts.events_by_hour)) == (RECENT, HOURS)
    assert Position.from_json(position.to_json(), "here") == position


def test_long_run_ids_leave_room_for_fewer_batches() -> None:
    """With run ids of the greatest length the oldest batches go, and the newest stay."""
    position = busy("r" * 246)
    assert len(position.to_json().encode()) <= MOST
    assert FEWEST <= len(position.recent) < RECENT
    assert position.recent[-1].batch_number == position.batch_number


def test_many_tables_leave_the_record_small() -> None:
    """Of a hundred tables and changes those of the last batches stay, also with long run ids.

    A table's rows add up over batches.
    """
    position = busy("r" * 246)
    for number in range(100):
        tables = {
            f"s3a://lake/salesforce/Custom_{number}__e": 1_000,
            "s3a://lake/salesforce/A__e": 2,
        }
        drift = [{"event_type": "A__e", "what": "added", "column": f"c{number}", "type": "x" * 500}]
        landed = receipt(tables=tables, drift=drift)
        end = (BEGIN + timedelta(days=14, hours=number)).isoformat()
        by = Run(dag="d" * 100, run="r" * 250, task="land", try_number=1)
        position = advance(position, batch_after(position, events=9_999_999), end, by, "", landed)
    assert len(position.to_json().encode()) <= MOST
    assert len(position.recent) >= FEWEST
    rows = position.counts.tables["s3a://lake/salesforce/"]
    assert (rows["A__e"], rows["Custom_99__e"]) == (200, 1_000)
    assert 10 < len(rows) < 100
    assert position.counts.drift[-1] == (position.batch_number, "A__e", "added", "c99", "x" * 60)
    assert len(position.counts.drift) < 100
    assert Position.from_json(position.to_json(), "here") == position


def test_tables_of_a_catalog() -> None:
    """Names are kept below their schema, and a name without one as it is."""
    counts = counted_on(
        Counts(),
        commit_of(batch_after(begun()), None, BEGIN.isoformat(), Run()),
        {},
        receipt(tables={"lake.sales.order__e": 2, "plain": 1}),
    )
    assert counts.tables == {"lake.sales.": {"order__e": 2}, "": {"plain": 1}}


def test_durations_add_up_to_the_time_of_a_batch() -> None:
    """Fetch, landing and commit add up, also if Spark's clock is ahead of the worker's."""
    times = {
        "begun_at": "2026-01-01T12:00:00+00:00",
        "created_at": "2026-01-01T12:00:10+00:00",
    }
    manifest = batch_after(begun(), **times)
    end = "2026-01-01T12:00:31+00:00"
    for written_at, expected in (
        ("2026-01-01T12:00:30+00:00", (10_000, 20_000, 1_000)),
        ("2026-01-01T12:05:00+00:00", (10_000, 21_000, 0)),
        ("2026-01-01T11:00:00+00:00", (10_000, 0, 21_000)),
        ("no time", (10_000, 21_000, 0)),
    ):
        commit = commit_of(manifest, receipt(written_at=written_at), end, Run())
        assert (commit.fetch_ms, commit.landing_ms, commit.commit_ms) == expected
        assert commit.begun_at.isoformat() == times["begun_at"]


def test_a_commit_names_the_task_that_made_it() -> None:
    """A commit has the batch's numbers and end, and DAG, run and task that committed."""
    by = Run(dag="load", run="run-1", task="commit", map_index=2, try_number=1)
    end = "2026-01-01T00:00:00+00:00"
    commit = commit_of(batch_after(begun()), receipt(quarantined=1, duplicates=2), end, by)
    assert commit == Commit(
        batch_number=1,
        batch_id="e1-1",
        replay_id=f"{1:020x}",
        events=3,
        at=end,
        dag="load",
        run="run-1",
        task="commit",
        map_index=2,
        quarantined=1,
        duplicates=2,
    )


def test_events_are_counted_by_hour() -> None:
    """Batches of one hour add up, hours without a batch have 0, and a clock that jumps back counts.

    Hours that have passed since the last commit have 0, too.
    """
    counts = Counts()
    for hour, events in ((0, 3), (0, 4), (2, 5), (1, 6)):
        manifest = batch_after(begun(), events=events)
        at = (BEGIN + timedelta(hours=hour)).isoformat()
        counts = counted_on(counts, commit_of(manifest, None, at, Run()), {"in_memory": 1})
    assert (counts.hour, counts.events_by_hour) == ("2026-01-01T14:00+00:00", (7, 0, 11))
    assert counts.extra_deliveries == {"in_memory": 4}
    assert events_in(counts, BEGIN + timedelta(hours=4))[-6:] == (0, 7, 0, 11, 0, 0)
    assert events_in(counts, BEGIN + timedelta(days=9)) == (0,) * HOURS
    assert events_in(Counts(), BEGIN) == (0,) * HOURS


@pytest.mark.parametrize(
    "counts",
    [
        Counts(hour="noon"),
        Counts(hour="0001-01-01T00:00:00+14:00"),
        Counts(events_by_hour=("many",)),  # type: ignore[arg-type]
        Counts(extra_deliveries={"a": 1.5}),  # type: ignore[dict-item]
        Counts(tables={"lake/": {"A__e": "many"}}),  # type: ignore[dict-item]
        Counts(drift=((1, "A__e"),)),  # type: ignore[arg-type]
    ],
)
def test_counts_of_another_kind_are_refused(counts: Counts) -> None:
    """A record whose counts were edited to something else is refused, like any other one."""
    with pytest.raises(ConfigurationError, match="counts"):
        Position.from_json(begun(counts=counts).to_json(), "here")
