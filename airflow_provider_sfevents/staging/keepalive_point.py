"""Keepalive point: a keepalive's replay id, stored beside the batches of its topic."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.sidecar_files import SidecarFile
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from upath import UPath

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepalivePoint(SidecarFile):
    """Keepalive point: the last keepalive's replay id, newer than the last event of a silent topic.

    It counts only while the position has this epoch and batch number, and while the next batch
    continues after `after`. Both are compared for equality, so any process may write it at any
    time.

    :param replay_id: hex.
    :param seen_at: when the keepalive came, by that machine's clock; ISO-8601, UTC. Used for
        warnings; over the Streaming API also to tell whether a refused replay id lost events.
    :param after: the replay point (text form) after which the keepalive came: the end of the last
        staged file, or the start of the next batch.
    """

    epoch: str
    batch_number: int
    replay_id: str
    seen_at: str
    after: str


def read(topic_folder: UPath) -> KeepalivePoint | None:
    """Read the keepalive point of a topic; None if there is none, or if it cannot be parsed."""
    place = topic_folder / layout.KEEPALIVE_POINT
    data = durable_files.read(place)
    try:
        return KeepalivePoint.from_json(data.decode()) if data is not None else None
    except ValueError as error:
        log.warning("%s is no keepalive point and is ignored: %s", place, error)
        return None


def write(topic_folder: UPath, point: KeepalivePoint) -> None:
    """Replace the keepalive point of a topic.

    :raises StagingError: the staging area cannot be written.
    """
    durable_files.replace(topic_folder / layout.KEEPALIVE_POINT, point.to_json().encode())
