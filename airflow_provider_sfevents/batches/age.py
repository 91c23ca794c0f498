"""Age of a replay id, and what follows from it: wait for a keepalive, or warn. Pure, but for reading the anchor.

The bus keeps an event for 72 hours (Pub/Sub API, event message durability), and a replay id is valid for
as long. Its age counts from the creation of its event, or from the keepalive that brought it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.positions.text import PRESETS
from airflow_provider_sfevents.pubsub.replay_ids import LATEST

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.batches.restart import Fetch
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.marks import Anchor

log = logging.getLogger(__name__)

RETENTION = timedelta(hours=72)

OLD = timedelta(hours=12)
"""Age from which silence may not end a batch before a keepalive could have come: an hourly DAG then has many tries left."""

WORRYING = timedelta(hours=48)
"""Age from which each run warns: a working day is left to act."""


def anchor_of(folder: TopicFolder, position: Position) -> Anchor | None:
    """The anchor written for this position; whether it follows the batch's files is `restart`'s to say."""
    return anchor_at(folder, position.epoch, position.sequence)


def anchor_at(folder: TopicFolder, epoch: str, sequence: int) -> Anchor | None:
    """The same, for a position of which only this is known."""
    anchor = folder.read_anchor()
    if anchor is None or (anchor.epoch, anchor.sequence) != (epoch, sequence):
        return None
    return anchor


def known_since(position: Position, anchor: Anchor | None) -> datetime | None:
    """When the replay id to continue from was new; None: it is none (`earliest`, `latest`).

    :param anchor: if it counts for this position, otherwise None.
    """
    keepalives = [anchor.seen_at if anchor else "", position.resume_after_at]
    if known := [datetime.fromisoformat(one) for one in keepalives if one]:
        return max(known)
    if position.loss is not None:
        return datetime.fromisoformat(position.loss.at) if position.loss.pinned else None
    if position.replay_id in PRESETS:
        return None
    committed = datetime.fromisoformat(position.committed_at)
    if not position.last_event_at:
        return committed
    created = datetime.fromisoformat(position.last_event_at)
    # Publishers set the time themselves; one that the bus could not have held at the commit says nothing.
    return created if timedelta() <= committed - created < RETENTION else committed


def is_old(since: datetime | None, now: datetime) -> bool:
    return since is not None and now - since > OLD


def warning(topic: str, since: datetime | None, now: datetime) -> str:
    """What to say ahead of a place's expiry; empty while there is no hurry."""
    if since is None or now - since < WORRYING:
        return ""
    age, left = now - since, RETENTION - (now - since)
    remains = f"expires in {_hours(left)} h" if left > timedelta() else "may have expired"
    return (
        f"The position of {topic} is {_hours(age)} h old and {remains}: the bus keeps events for {_hours(RETENTION)} h. Let this DAG run "
        "more often, and find out why batches do not land; what expires is lost, unless `replay_fallback` or you choose where to go on."
    )


def bounds(
    request: BatchRequest, position: Position, plan: Fetch, folder: TopicFolder, now: datetime
) -> Bounds:
    """The request's bounds; for `latest` or an old replay id, silence ends nothing before a keepalive.

    Warns of a replay id that is about to expire.
    """
    since = known_since(position, anchor_of(folder, position) if plan.anchors else None)
    if worry := warning(request.topic, since, now):
        log.warning("%s", worry)
    if plan.ask == LATEST or is_old(since, now):
        return replace(request.bounds, learn_seconds=request.learn_seconds)
    return request.bounds


def unlearned(topic: str, ended_by: str, max_seconds: float) -> TransportError:
    """Make the error of a fetch at `latest` that learned no replay id; the next try's `latest` is later."""
    return TransportError(
        f"Neither an event nor a keepalive of {topic} came before the fetch was ended by {ended_by}, so `latest` has no "
        "replay id yet, and events published until the next run would be missed. The service sends a keepalive "
        f"within 270 s: set max_seconds to 300 or more (it is {max_seconds:.0f})."
    )


def _hours(span: timedelta) -> str:
    return f"{span / timedelta(hours=1):.0f}"
