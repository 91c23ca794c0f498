"""Batches of the staging area for display. Nothing here takes a lease, writes or waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches.next_batch import NextBatch, keepalive_points
from airflow_provider_sfevents.batches.recovery import BatchContents
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.lease_holder import LeaseState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
    from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOverview:
    """State of one batch, as its folder shows it.

    :param parts: closed files; read only if there is no manifest.
    :param extra_deliveries: extra deliveries, by cause; counted when the batch is staged.
    :param holder: of the current lease, dead or alive; None if there never was one.
    :param verdict: state of the lease.
    """

    epoch: str
    batch_number: int
    batch_id: str
    manifest: Manifest | None = None
    receipt: Receipt | None = None
    parts: tuple[Part, ...] = ()
    extra_deliveries: Mapping[str, int] = field(default_factory=dict)
    holder: LeaseHolder | None = None
    verdict: LeaseState = LeaseState.FREE

    @property
    def held(self) -> bool:
        """True if a task may be at work on the batch."""
        return self.verdict in (LeaseState.ALIVE, LeaseState.WATCH)

    @property
    def events(self) -> int:
        return self.manifest.events if self.manifest else sum(one.events for one in self.parts)

    @property
    def size(self) -> int:
        return self.manifest.bytes if self.manifest else sum(one.bytes for one in self.parts)

    @property
    def unlanded(self) -> bool:
        """True if the batch is staged and has no receipt."""
        return self.manifest is not None and self.receipt is None

    def describe_holder(self) -> str:
        """Describe the lease holder, and whether it is alive; empty if the batch is not held."""
        if self.holder is None or self.verdict is LeaseState.FREE:
            return ""
        return f"{self.holder.describe()} ({_SEEN[self.verdict]})"


_SEEN = {
    LeaseState.ALIVE: "at work",
    LeaseState.DEAD: "gone",
    LeaseState.WATCH: "cannot be seen from this machine",
}


def look(folder: TopicFolder, epoch: str, batch_number: int) -> BatchOverview:
    """Read a batch's folder once; a batch that no task has begun is an empty one."""
    batch = folder.batch(epoch, batch_number)
    manifest = batch.read_manifest()
    lease = leases.observe(batch.folder)
    return BatchOverview(
        epoch=epoch,
        batch_number=batch_number,
        batch_id=batch.batch_id,
        manifest=manifest,
        receipt=batch.read_receipt(),
        parts=() if manifest else tuple(batch.parts()),
        extra_deliveries=batch.extra_deliveries_of(manifest) if manifest else {},
        holder=lease.holder if lease else None,
        verdict=lease.state if lease else LeaseState.FREE,
    )


def find(folder: TopicFolder, position: Position, batch: BatchOverview) -> BatchContents:
    """Return the batch after the position as `recovery.plan` needs it."""
    return BatchContents(
        position_start=position.replay_id,
        start=position.start,
        keepalive_points=keepalive_points(NextBatch.after(position), folder),
        manifest=batch.manifest,
        receipt=batch.receipt,
        parts=batch.parts,
    )


def state(batch: BatchOverview, position: Position | None) -> str:
    """Return the state, in the words of the documentation.

    A batch of another epoch than the position's is never shown as committed.
    """
    if batch.held and batch.holder is not None:
        doing = "landing" if batch.manifest else "fetching"
        return f"{doing}: {batch.describe_holder()}"
    if batch.manifest is None:
        kept = len(batch.parts)
        return f"{counted(kept, 'file')} kept" if kept else "nothing"
    if batch.receipt is None:
        return "staged"
    committed = (
        position is not None
        and batch.epoch == position.epoch
        and batch.batch_number <= position.batch_number
    )
    return "committed" if committed else "landed"
