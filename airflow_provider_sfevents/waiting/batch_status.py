"""Status of the next batch: its staged events, and the lease holder. Read-only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.next_batch import look
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.lease_holder import HEARTBEAT_SECONDS, LeaseState

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.leases import LeaseObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """Status of the next batch.

    :param plan: what an attempt at the batch would do.
    :param events: number of staged events.
    :param held_by: process that holds the lease and is, or may be, alive; empty: none.
    :param lease: the lease as it was observed; pass the whole `BatchStatus` to the next call.
    """

    plan: recovery.CommitPlan | recovery.ReusePlan | recovery.FetchPlan
    events: int
    held_by: str = ""
    lease: LeaseObservation | None = None


def read_status(
    next_batch: NextBatch, area: StagingArea, before: BatchStatus | None = None
) -> BatchStatus:
    """Read the status of the next batch. Blocks, but not for long.

    :param before: an earlier status. A lease holder on another machine shows that it is alive by
        its lease heartbeat, so only two observations can tell.
    """
    # Read the lease before the files, so that files staged before its release are always visible.
    lease = leases.observe(next_batch.folder(area).folder, before.lease if before else None)
    plan = recovery.plan(look(next_batch, next_batch.topic_folder(area), sound=False))
    return BatchStatus(
        plan=plan,
        events=plan.events if isinstance(plan, recovery.FetchPlan) else plan.manifest.events,
        held_by=lease.holder.describe() if lease and lease.may_be_alive else "",
        lease=lease,
    )


async def settled_status(next_batch: NextBatch, area: StagingArea) -> BatchStatus:
    """Read the status of the next batch until it is known whether the lease holder is alive.

    A holder on another machine is watched until its next lease heartbeat is due.
    """
    seen = await asyncio.to_thread(read_status, next_batch, area)
    while seen.lease is not None and seen.lease.state is LeaseState.WATCH:
        await asyncio.sleep(HEARTBEAT_SECONDS / 2)
        seen = await asyncio.to_thread(read_status, next_batch, area, seen)
    return seen
