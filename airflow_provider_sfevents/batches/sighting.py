"""What lies in the staging area of the coming batch, and who is at work on it. Looks, and touches nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.batches.coming import look
from airflow_provider_sfevents.staging import claims
from airflow_provider_sfevents.staging.holders import BEAT_SECONDS, Verdict

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.coming import Coming
    from airflow_provider_sfevents.staging.area import StagingArea
    from airflow_provider_sfevents.staging.claims import Glance


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What lies in the staging area of the coming batch.

    :param events: known of it.
    :param held_by: who is, or may be, at work on it; empty: nobody.
    :param claim: the claim that counts, as it was seen; give the whole `Sight` to the next look.
    """

    plan: restart.Commit | restart.Adopt | restart.Fetch
    events: int
    held_by: str = ""
    claim: Glance | None = None


def sight(coming: Coming, area: StagingArea, before: Sight | None = None) -> Sight:
    """What lies there. Blocks, but not for long.

    :param before: an earlier look. A holder on another machine shows life by its beat, so that only two looks tell.
    """
    # The claim first: what its holder has staged by the time he lets go is then seen, and not asked for again.
    claim = claims.glance(coming.folder(area).folder, before.claim if before else None)
    plan = restart.plan(look(coming, coming.topic_folder(area), sound=False))
    return Sight(
        plan=plan,
        events=plan.events if isinstance(plan, restart.Fetch) else plan.manifest.events,
        held_by=claim.holder.describe() if claim and claim.may_be_alive else "",
        claim=claim,
    )


async def settled_sight(coming: Coming, area: StagingArea) -> Sight:
    """A look that knows of the claim's holder whether he lives; one on another machine is watched for his next sign of life."""
    seen = await asyncio.to_thread(sight, coming, area)
    while seen.claim is not None and seen.claim.verdict is Verdict.WATCH:
        await asyncio.sleep(BEAT_SECONDS / 2)
        seen = await asyncio.to_thread(sight, coming, area, seen)
    return seen
