"""How long ago a place was the bus's newest, and what follows: wait for a keepalive, or warn. Pure, but for the look at the anchor.

The bus keeps an event for 72 hours (event message durability), and a replay id is good for as long. So what counts is when the
event it names was created, or when the keepalive came that told it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.positions.text import PRESETS
from airflow_provider_sfevents.staging.chain import LATEST

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
    """The anchor, where it counts: for the position as it is, and later than what a loss window has passed over."""
    return anchor_at(folder, position.epoch, position.sequence)


def anchor_at(folder: TopicFolder, epoch: str, sequence: int) -> Anchor | None:
    """The same, for a position of which only this is known."""
    anchor = folder.read_anchor()
    if anchor is None or (anchor.epoch, anchor.sequence) != (epoch, sequence):
        return None
    loss = folder.batch(epoch, sequence + 1).read_loss()
    return None if loss is not None and anchor.seen_at < loss.at else anchor


def known_since(position: Position, anchor: Anchor | None) -> datetime | None:
    """When the place to go on from was new; None: it names no event (`earliest`, `latest`).

    :param anchor: where it counts for this position, else None.
    """
    if anchor is not None:
        return datetime.fromisoformat(anchor.seen_at)
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
    """The request's bounds; where nothing is known of the place yet, or for too long, silence ends nothing before a keepalive came.

    Warns of a place that is about to expire.
    """
    since = known_since(position, anchor_of(folder, position) if plan.anchor else None)
    if worry := warning(request.topic, since, now):
        log.warning("%s", worry)
    if plan.ask == LATEST or is_old(since, now):
        return replace(request.bounds, learn_seconds=request.learn_seconds)
    return request.bounds


def unlearned(topic: str, ended_by: str, max_seconds: float) -> TransportError:
    """Nothing tells where `latest` was; the next try's `latest` would be a later one."""
    return TransportError(
        f"Nothing was heard of {topic} before the fetch was ended by {ended_by}, not even a keepalive, so where "
        "`latest` is cannot be known, and events published until the next run would be missed. The service sends a keepalive "
        f"within 270 s: set max_seconds to 300 or more (it is {max_seconds:.0f})."
    )


def _hours(span: timedelta) -> str:
    return f"{span / timedelta(hours=1):.0f}"
