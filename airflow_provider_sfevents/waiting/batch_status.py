"""Status of the coming batch: its staged events, and the lease holder. Read-only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.next_batch import look
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.lease_holder import BEAT_SECONDS, Verdict

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.next_batch import Coming
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.leases import Glance


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Status of the coming batch.

    :param plan: what an attempt at the batch would do.
    :param events: number of staged events.
    :param held_by: process that holds the lease and is, or may be, alive; empty: none.
    :param claim: the lease as it was observed; pass the whole `Sight` to the next call.
    """

    plan: recovery.Commit | recovery.Adopt | recovery.Fetch
    events: int
    held_by: str = ""
    claim: Glance | None = None


def sight(coming: Coming, area: StagingArea, before: Sight | None = None) -> Sight:
    """Read the status of the coming batch. Blocks, but not for long.

    :param before: an earlier status. A lease holder on another machine shows that it is alive by
        its lease heartbeat, so only two observations can tell.
    """
    # Read the lease before the files, so that files staged before its release are always visible.
    claim = leases.glance(coming.folder(area).folder, before.claim if before else None)
    plan = recovery.plan(look(coming, coming.topic_folder(area), sound=False))
    return Sight(
        plan=plan,
        events=plan.events if isinstance(plan, recovery.Fetch) else plan.manifest.events,
        held_by=claim.holder.describe() if claim and claim.may_be_alive else "",
        claim=claim,
    )


async def settled_sight(coming: Coming, area: StagingArea) -> Sight:
    """Read the status of the coming batch until it is known whether the lease holder is alive.

    A holder on another machine is watched until its next lease heartbeat is due.
    """
    seen = await asyncio.to_thread(sight, coming, area)
    while seen.claim is not None and seen.claim.verdict is Verdict.WATCH:
        await asyncio.sleep(BEAT_SECONDS / 2)
        seen = await asyncio.to_thread(sight, coming, area, seen)
    return seen
