"""Positions and manifests for the tests of this room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.positions.record import begin
from airflow_provider_sfevents.staging.manifest import Manifest, Run

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position

ORG = "00D000000000001AAA"
URL = "https://acme.my.salesforce.com"
TOPIC = "/event/Order__e"
FETCH = Run(dag="load", run="run-1", task="fetch", try_number=1)


def begun(**changes: Any) -> Position:
    """Build a position with batch number 0."""
    position = begin(
        org_id=ORG,
        instance_url=URL,
        topic=TOPIC,
        consumer="load",
        start="earliest",
        at="2026-01-01T00:00:00+00:00",
        by=FETCH,
        epoch="e1",
    )
    return replace(position, **changes)


def batch_after(position: Position, **changes: Any) -> Manifest:
    """Build the manifest of a landed batch of three events after the position."""
    batch_number = position.batch_number + 1
    manifest = Manifest(
        org_id=position.org_id,
        instance_url=position.instance_url,
        topic=position.topic,
        consumer=position.consumer,
        epoch=position.epoch,
        batch_number=batch_number,
        batch_id=f"{position.epoch}-{batch_number}",
        position_start=position.start.to_text(),
        start=position.start.to_text(),
        end=f"{batch_number:020x}",
        events=3,
        bytes=30,
        ended_by="idle_seconds",
        parts=(),
        schemas=(),
        created_at="2026-01-01T00:00:00+00:00",
        run=FETCH,
        last_event_at=f"2026-01-01T00:00:{batch_number:02d}+00:00",
    )
    return replace(manifest, **changes)
