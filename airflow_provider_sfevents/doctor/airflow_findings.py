"""Lines on Airflow: the triggerer, and the positions in its stores. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.batches.position import replay_id_age
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.doctor.findings import (
    failed,
    failed_by,
    not_checked,
    ok,
    split_message,
    warning,
)
from airflow_provider_sfevents.doctor.org_findings import Followed
from airflow_provider_sfevents.doctor.position_alerts import FAILURES, loss_remedy, open_losses
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.activity import events_in
from airflow_provider_sfevents.positions.stores import read_listed
from airflow_provider_sfevents.pubsub.rest.org_limits import DELIVERIES, allowance_of
from airflow_provider_sfevents.pubsub.topic_names import is_exempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint

TRIGGERER = "triggerer"

_START = (
    "Start one: airflow triggerer. Deferred waits (`deferrable=True`) and watchers run in it and "
    "nowhere else."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTriggerer:
    """Triggerer with the newest heartbeat in Airflow's database.

    :param heartbeat_at: ISO-8601.
    """

    host: str
    is_alive: bool
    heartbeat_at: str


def triggerer_finding(seen: SeenTriggerer | None) -> Finding:
    """Return the line of the triggerer.

    :param seen: None: none has ever run.
    """
    if seen is None:
        return warning(TRIGGERER, "No triggerer has ever run.", _START)
    if not seen.is_alive:
        since = f"the last one, on {seen.host}, had its last heartbeat at {seen.heartbeat_at}"
        return failed(TRIGGERER, f"No triggerer is alive: {since}.", _START)
    return ok(TRIGGERER, f"A triggerer is alive on {seen.host}.")


def watcher_finding(watcher: Mapping[str, Any]) -> Finding:
    """Return the line of a watcher.

    :param watcher: as `task_states.watchers` lists it.
    """
    checked = f"watcher {watcher['consumer']} {watcher['topic']}"
    error = watcher["error"]
    if not watcher["alive"]:
        return failed(checked, f"{watcher['asset']} is watched on no living triggerer.", _START)
    if error and not error["ended_at"]:
        seen, remedy = split_message(error["message"])
        log = "The triggerer's log has the whole error."
        return failed(checked, f"Since {error['at']}: {seen}", f"{remedy} {log}".strip())
    old = f" Its last error ended at {error['ended_at']}: {error['message']}" if error else ""
    return ok(checked, f"It runs on {watcher['triggerer']} since {watcher['since']}.{old}")


def no_database() -> Finding:
    """Return the line of the triggerer where Airflow's database cannot be read."""
    return not_checked(
        TRIGGERER,
        "Tasks have no access to Airflow's database, which knows the triggerer.",
        "On a machine with access to it: airflow sfevents doctor",
    )


def read_positions(
    records: Iterable[tuple[str, str]],
) -> tuple[list[tuple[str, Position]], list[Finding]]:
    """Parse records that are named like positions.

    :param records: location and text of each.
    :return: positions with their locations, by consumer and topic; lines of those that are none.
    """
    positions, broken = [], []
    for where, text in records:
        try:
            positions.append((where, read_listed(text, where)))
        except ConfigurationError as error:
            broken.append(failed_by(f"position {where}", error))
    return sorted(positions, key=lambda one: (one[1].consumer, one[1].topic)), broken


def followed_topics(positions: Iterable[Position], now: datetime) -> dict[str, Followed]:
    """Return the topics that positions follow, and what they landed by hour, by org."""
    by_org: dict[str, list[Position]] = {}
    for one in positions:
        by_org.setdefault(one.org_id, []).append(one)
    return {org_id: _followed(found, now) for org_id, found in by_org.items()}


def _followed(positions: Sequence[Position], now: datetime) -> Followed:
    counted = [
        events_in(one.counts, now)[-25:]
        for one in positions
        if allowance_of(one.topic) == DELIVERIES and not is_exempt(one.topic)
    ]
    return Followed(
        topics=tuple(dict.fromkeys(one.topic for one in positions)),
        events_by_hour=tuple(sum(hour) for hour in zip(*counted, strict=True)),
    )


def position_finding(
    position: Position,
    keepalive_point_of: Callable[[Position], KeepalivePoint | None],
    now: datetime,
    failures: int = 0,
) -> Finding:
    """Return the line of a position.

    It fails while a third of the retention is left, after repeated failures, and after a loss
    window until that is acknowledged.

    :param failures: number of its tasks' instances that failed since the last commit.
    :raises StagingError: the keepalive point cannot be read.
    """
    checked = f"position {position.consumer} {position.topic}"
    since = replay_id_age.known_since(position, keepalive_point_of(position))
    if worry := replay_id_age.warning(position.topic, since, now):
        return failed(checked, *split_message(worry))
    if failures >= FAILURES:
        return failed(
            checked,
            f"{failures} tasks failed since the last batch landed ({position.committed_at}).",
            "Read the last lines of the failed task's log; the failed lines before this one may be "
            "the cause.",
        )
    if losses := open_losses(position, now):
        last = losses[-1]
        return failed(
            checked,
            f"{counted(len(losses), 'new loss window')}; events after {last.after} may have been "
            f"missed: {last.why.rstrip('.')}.",
            loss_remedy(position),
        )
    if since is None:
        return ok(checked, f"It begins at {position.start}; no batch has landed yet.")
    hours = (now - since).total_seconds() / 3600
    return ok(checked, f"Batch {position.batch_number}; its replay id is {hours:.1f} h old.")
