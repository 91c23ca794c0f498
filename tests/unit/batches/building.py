"""Positions, requests and manifests for the tests of this room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.staging.manifest import Manifest, Run

TOPIC = "/event/Order__e"


def run(day: int, **changes: Any) -> Run:
    """Build the run of a day's task."""
    at = f"2026-01-{day:02}T00:00:00+00:00"
    return replace(
        Run(
            dag="orders",
            run=f"day-{day}",
            task="land",
            try_number=1,
            logical_date=at,
            data_interval_start=at,
            data_interval_end=at,
            run_after=at,
        ),
        **changes,
    )


def position(**changes: Any) -> Position:
    """Build a position with batch number 3, committed by the third day's run."""
    return replace(
        Position(
            org_id="00D000000000001AAA",
            instance_url="https://acme.my.salesforce.com",
            topic=TOPIC,
            consumer="orders",
            epoch="e1",
            batch_number=3,
            replay_id="03",
            committed_at="2026-01-03T00:00:00+00:00",
            committed_by=run(3),
        ),
        **changes,
    )


def request(of: Run, **changes: Any) -> BatchRequest:
    """Build the request of a run."""
    return replace(BatchRequest(topic=TOPIC, consumer="orders", run=of), **changes)


def manifest(batch_number: int, of: Run, epoch: str = "e1") -> Manifest:
    """Build the manifest of a batch that this run has staged."""
    return Manifest(
        org_id="00D000000000001AAA",
        instance_url="https://acme.my.salesforce.com",
        topic=TOPIC,
        consumer="orders",
        epoch=epoch,
        batch_number=batch_number,
        batch_id=f"{epoch}-{batch_number}",
        position_start=f"{batch_number - 1:02x}",
        start=f"{batch_number - 1:02x}",
        end=f"{batch_number:02x}",
        events=1,
        bytes=10,
        ended_by="idle_seconds",
        parts=(),
        schemas=(),
        created_at=of.run_after,
        run=of,
    )
