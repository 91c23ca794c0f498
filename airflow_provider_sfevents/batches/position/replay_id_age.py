"""Age of a replay id: decides whether to wait for a keepalive, and whether to warn of its expiry.

Pure functions, except for reading the keepalive point. Salesforce keeps an event for a time
(`retention`), and a replay id is valid for as long. Its age counts from the creation of its event,
or from the keepalive that brought it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.topic_names import retention
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.batches.recovery import FetchPlan
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint

log = logging.getLogger(__name__)

OLD = timedelta(hours=12)
"""Age from which `idle_seconds` may not end a batch before a keepalive could have come.

An hourly DAG then has many tries left."""

WORRYING = 2 / 3
"""Share of the retention from which each run logs a warning; of 72 hours, 24 are left to act."""


def keepalive_point_of(folder: TopicFolder, position: Position) -> KeepalivePoint | None:
    """Return the keepalive point of this position, if there is one.

    `recovery` decides whether it follows the batch's files.
    """
    return keepalive_point_at(folder, position.epoch, position.batch_number)


def keepalive_point_at(folder: TopicFolder, epoch: str, batch_number: int) -> KeepalivePoint | None:
    """Return the keepalive point of a position given by epoch and batch number, if there is one."""
    keepalive_point = folder.read_keepalive_point()
    if keepalive_point is None or (keepalive_point.epoch, keepalive_point.batch_number) != (
        epoch,
        batch_number,
    ):
        return None
    return keepalive_point


def known_since(position: Position, keepalive_point: KeepalivePoint | None) -> datetime | None:
    """Return the time at which the replay id to continue from was new.

    :param keepalive_point: the keepalive point, if it counts for this position; otherwise None.
    :return: None if there is no replay id yet (`earliest`, `latest`, a time).
    """
    keepalives = [keepalive_point.seen_at if keepalive_point else "", position.resume_after_at]
    if known := [datetime.fromisoformat(one) for one in keepalives if one]:
        return max(known)
    if position.loss is not None:
        return datetime.fromisoformat(position.loss.at) if position.loss.pinned else None
    if not ReplayPoint.from_text(position.replay_id).is_replay_id:
        return None
    committed = datetime.fromisoformat(position.committed_at)
    if not position.last_event_at:
        return committed
    created = datetime.fromisoformat(position.last_event_at)
    # Publishers set the creation time: ignore one that is outside the retention at the commit.
    plausible = timedelta() <= committed - created < retention(position.topic)
    return created if plausible else committed


def is_old(since: datetime | None, now: datetime) -> bool:
    return since is not None and now - since > OLD


def warning(topic: str, since: datetime | None, now: datetime) -> str:
    """Build the warning of a replay id that expires soon; empty if there is no hurry."""
    kept = retention(topic)
    if since is None or now - since < kept * WORRYING:
        return ""
    age, left = now - since, kept - (now - since)
    remains = f"expires in {_hours(left)} h" if left > timedelta() else "may have expired"
    return (
        f"The position of {topic} is {_hours(age)} h old and {remains}: the bus keeps events for "
        f"{_hours(kept)} h. Run this DAG more often, and find out why batches do not land. "
        "Expired events are lost; after an expiry, `replay_fallback` or `position set` says how to "
        "continue."
    )


def bounds(
    request: BatchRequest, position: Position, plan: FetchPlan, folder: TopicFolder, now: datetime
) -> Bounds:
    """Return the request's bounds; warn of a replay id that expires soon.

    At `latest` or an old replay id, `idle_seconds` ends nothing before a keepalive could have come,
    because the position needs a fresh replay id. It gets one with the batch if events are staged.
    """
    since = known_since(
        position, keepalive_point_of(folder, position) if plan.keepalive_points else None
    )
    if worry := warning(request.topic, since, now):
        log.warning("%s", worry)
    if plan.subscribe_at == LATEST or (is_old(since, now) and not plan.kept):
        return replace(request.bounds, learn_seconds=request.learn_seconds)
    return request.bounds


def unlearned(topic: str, ended_by: str, max_seconds: float) -> TransportError:
    """Build the error of a fetch at `latest` that got no replay id; the next try starts later."""
    return TransportError(
        f"Neither an event nor a keepalive of {topic} came before the fetch was ended by "
        f"{ended_by}, so `latest` has no replay id yet, and events published until the next run "
        "would be missed. The service sends a keepalive within 270 s, and the fetch had "
        f"{max_seconds:.0f} s: set max_seconds to 300 or more, and where execution_timeout leaves "
        "less of it, a longer execution_timeout."
    )


def _hours(span: timedelta) -> str:
    return f"{span / timedelta(hours=1):.0f}"
