"""Batches as `looking.look` finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.commands.staged_batches import BatchOverview
from airflow_provider_sfevents.staging.manifest import Part, Receipt
from tests.unit.positions.building import batch_after

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.manifest import Manifest


def nothing(position: Position, **changes: Any) -> BatchOverview:
    """The batch after a position, which no task has begun."""
    batch_number = position.batch_number + 1
    batch_id = f"{position.epoch}-{batch_number}"
    return BatchOverview(
        epoch=position.epoch, batch_number=batch_number, batch_id=batch_id, **changes
    )


def staged(position: Position, **changes: Any) -> BatchOverview:
    return nothing(position, manifest=batch_after(position), **changes)


def landed(position: Position) -> BatchOverview:
    manifest = batch_after(position)
    return nothing(position, manifest=manifest, receipt=receipt_of(manifest))


def receipt_of(manifest: Manifest) -> Receipt:
    return Receipt(
        batch_id=manifest.batch_id,
        events=manifest.events,
        tables={"lake/Order__e": manifest.events},
        quarantined=0,
        written_at=manifest.created_at,
    )


def part(start: str, end: str, first_ordinal: int = 0, events: int = 2) -> Part:
    return Part(
        path=f"attempts/0001/part-{first_ordinal:010d}.parquet",
        start=start,
        end=end,
        first_ordinal=first_ordinal,
        events=events,
        bytes=10 * events,
        sha256="",
        schemas=(),
    )
