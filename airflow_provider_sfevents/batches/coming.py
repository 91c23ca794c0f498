"""The batch after a position: which one it is, in values that fit into a trigger's arguments, and what lies in its folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.batches import age, restart
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """The batch after a position; whoever has this can wait for it without the position's store.

    :param sequence: the batch's own.
    :param start: where the position stands: `earliest`, `latest` or a replay id in hex.
    :param managed: id or developer name of the managed subscription it comes from, whose place Salesforce keeps; empty: none.
    """

    org_id: str
    consumer: str
    topic: str
    epoch: str
    sequence: int
    start: str
    managed: str = ""

    @classmethod
    def after(cls, position: Position, managed: str = "") -> Coming:
        return cls(
            org_id=position.org_id,
            consumer=position.consumer,
            topic=position.topic,
            epoch=position.epoch,
            sequence=position.sequence + 1,
            start=position.start,
            managed=managed,
        )

    @property
    def batch_id(self) -> str:
        return layout.batch_id(self.epoch, self.sequence)

    def topic_folder(self, area: StagingArea) -> TopicFolder:
        return area.topic(self.org_id, self.consumer, self.topic)

    def folder(self, area: StagingArea) -> BatchFolder:
        return self.topic_folder(area).batch(self.epoch, self.sequence)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without a secret."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Coming:
        return cls(**values)


def look(coming: Coming, folder: TopicFolder, *, sound: bool) -> restart.Found:
    """What lies there, for `restart.plan`.

    :param sound: read files through, as whoever makes a batch of them must; otherwise only what their footers say.
    """
    batch = folder.batch(coming.epoch, coming.sequence)
    manifest = batch.read_manifest()
    read_parts = batch.sound_parts if sound else batch.parts
    anchor = age.anchor_at(folder, coming.epoch, coming.sequence - 1)
    return restart.Found(
        position_start=coming.start,
        anchor=anchor.replay_id if anchor else "",
        anchor_after=anchor.after if anchor else "",
        loss=batch.read_loss(),
        manifest=manifest,
        receipt=batch.read_receipt() if manifest else None,
        parts=() if manifest else tuple(read_parts()),
    )
