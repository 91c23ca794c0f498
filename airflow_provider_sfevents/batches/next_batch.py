"""The batch after a position: its identity in plain values, and its staged content."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.position import replay_id_age
from airflow_provider_sfevents.positions.record import EVENT
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The batch after a position; enough to wait for it without the position's store.

    :param batch_number: number of the batch.
    :param position_start: the position's replay id, or `earliest` or `latest`.
    :param start: replay point at which the batch begins, as `Position.start`.
    :param pinned_by: as `Position.pinned_by`.
    :param resume_after: replay id of a keepalive, hex, that every event of the batch follows;
        empty: none.
    :param resume_after_at: time at which that keepalive came, ISO-8601; empty: none.
    :param staging_id: id of the staging area with which the position was last worked on.
    :param staging_since: batch number since which `staging_id` has been the same.
    :param managed: id or developer name of the managed subscription; empty: none. Salesforce keeps
        its committed replay id.
    :param transport: as `Position.transport`.
    :param listened_at: time up to which an earlier subscription has shown that no event followed,
        by the position; ISO-8601, empty: unknown.
    """

    org_id: str
    consumer: str
    topic: str
    epoch: str
    batch_number: int
    position_start: str
    start: ReplayPoint
    pinned_by: str = ""
    resume_after: str = ""
    resume_after_at: str = ""
    staging_id: str = ""
    staging_since: int = 1
    managed: str = ""
    transport: str = "pubsub"
    listened_at: str = ""

    @classmethod
    def after(cls, position: Position, managed: str = "") -> NextBatch:
        return cls(
            org_id=position.org_id,
            consumer=position.consumer,
            topic=position.topic,
            epoch=position.epoch,
            batch_number=position.batch_number + 1,
            position_start=position.replay_id,
            start=position.start,
            pinned_by=position.pinned_by,
            resume_after=position.resume_after,
            resume_after_at=position.resume_after_at,
            staging_id=position.staging_id,
            staging_since=position.staging_since,
            managed=managed,
            transport=position.transport,
            listened_at=max(position.resume_after_at, position.drained_at),
        )

    @property
    def batch_id(self) -> str:
        return layout.batch_id(self.epoch, self.batch_number)

    def is_same(self, other: NextBatch) -> bool:
        """Return whether both are the same batch at the same replay point.

        `latest` may have been pinned in between.
        """
        if (self.epoch, self.batch_number) != (other.epoch, other.batch_number):
            return False
        return LATEST in (self.start, other.start) or self.start == other.start

    def topic_folder(self, area: StagingArea) -> TopicFolder:
        return area.topic(self.org_id, self.consumer, self.topic)

    def folder(self, area: StagingArea) -> BatchFolder:
        return self.topic_folder(area).batch(self.epoch, self.batch_number)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON, without a secret."""
        return {**asdict(self), "start": self.start.to_text()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NextBatch:
        return cls(**{**values, "start": ReplayPoint.from_text(values["start"])})


def look(next_batch: NextBatch, folder: TopicFolder, *, sound: bool) -> recovery.BatchContents:
    """Read the batch's folder, for `recovery.plan`.

    :param sound: verify whole files, as a task that makes a batch of them must; otherwise read only
        their footers.
    """
    batch = folder.batch(next_batch.epoch, next_batch.batch_number)
    manifest = batch.read_manifest()
    read_parts = batch.sound_parts if sound else batch.parts
    return recovery.BatchContents(
        position_start=next_batch.position_start,
        start=next_batch.start,
        pinned_by_event=next_batch.pinned_by == EVENT,
        keepalive_points=keepalive_points(next_batch, folder),
        manifest=manifest,
        receipt=batch.read_receipt() if manifest else None,
        parts=() if manifest else tuple(read_parts()),
    )


def keepalive_points(next_batch: NextBatch, folder: TopicFolder) -> tuple[KeepalivePoint, ...]:
    """Return the keepalive points of the next batch, the freshest first.

    They come from the position and from beside the batches. Their times come from several machines'
    clocks, so the order decides only which one is tried first.
    """
    beside = replay_id_age.keepalive_point_at(folder, next_batch.epoch, next_batch.batch_number - 1)
    found = [beside] if beside else []
    if next_batch.resume_after:
        in_position = KeepalivePoint(
            epoch=next_batch.epoch,
            batch_number=next_batch.batch_number - 1,
            replay_id=next_batch.resume_after,
            seen_at=next_batch.resume_after_at,
            after=next_batch.start.to_text(),
        )
        found.append(in_position)
    return tuple(sorted(found, key=lambda one: one.seen_at, reverse=True))
