"""Alerts on positions: a loss window, an expiry ahead, repeated failures. Pure.

1. The rules read the position and the number of failed tasks, so they hold while the DAG is paused.
2. An alert is told once. `about` names its occasion: the loss window, the expiry, the batch. After
   `AGAIN` an alert that still holds is told again. A loss window holds until a user acknowledges
   it, or for `AGAIN`.
3. A task can ask Airflow only for the number of all failed instances of another task. So the number
   at the first look at a batch is remembered, and what is more has failed since.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.batches.position.position_metrics import duration, expires_at
from airflow_provider_sfevents.batches.position.remedies import of_loss_window
from airflow_provider_sfevents.command_lines import command_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.manifest import LossWindow

AHEAD = timedelta(hours=8)
"""Time before a replay id expires from which it is an alert; the Prometheus rule has the same."""

FAILURES = 3
"""Number of failed tasks since the last commit that is an alert; as in the Prometheus rule."""

AGAIN = timedelta(days=7)


class AlertKind(StrEnum):
    """Kinds of alerts; each has an asset of its own."""

    LOSS_WINDOW = "loss_window"
    EXPIRY_AHEAD = "expiry_ahead"
    REPEATED_FAILURES = "repeated_failures"

    @property
    def asset(self) -> str:
        """Name of the asset that DAGs are scheduled by."""
        return f"sfevents_{self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Alert on a position.

    :param dag: DAG that last committed the position; empty: a command did.
    :param about: occasion; the same occasion is told once.
    :param seen: sentence on what is the case.
    :param remedy: what to do.
    """

    kind: AlertKind
    org_id: str
    consumer: str
    topic: str
    dag: str
    about: str
    seen: str
    remedy: str

    def to_extra(self) -> dict[str, str]:
        """Return the extra of the asset's event."""
        return {**asdict(self), "kind": self.kind.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """Failed instances of a position's tasks.

    :param batch: epoch and number of the last committed batch.
    :param before: number of all failed instances at the first look at this position after it.
    """

    batch: str
    before: int


def key_of(position: Position) -> str:
    """Return the key of a position among those of all orgs."""
    return f"{position.org_id} {position.consumer} {position.topic}"


def count_failures(position: Position, failed: int, known: FailureCount | None) -> FailureCount:
    """Return what to remember of a position.

    :param failed: number of all failed instances of its tasks now.
    :param known: as remembered at the last look.
    """
    batch = f"{position.epoch}-{position.batch_number}"
    if known is None or known.batch != batch:
        return FailureCount(batch=batch, before=failed)
    return FailureCount(batch=batch, before=min(failed, known.before))  # less: some were cleared


def alerts_of(position: Position, failed: int, now: datetime) -> list[Alert]:
    """Return the alerts that hold for a position.

    :param failed: number of its tasks' instances that failed since the last commit.
    """
    found = _loss_windows(position, now)
    command = command_line("position", "show", position.consumer, position.topic)
    expiry = expires_at(position)
    if expiry is not None and expiry - now < AHEAD:
        left = (
            f"expires in {duration(expiry - now)}"
            if expiry > now
            else f"expired {duration(now - expiry)} ago"
        )
        found.append(
            _alert(
                position,
                AlertKind.EXPIRY_AHEAD,
                expiry.isoformat(timespec="seconds"),
                f"The replay id {left}; then events that have not been fetched are lost.",
                "Find out why no batch lands, or why the DAG does not run, for example because it "
                f"is paused: {command}",
            )
        )
    if failed >= FAILURES:
        found.append(
            _alert(
                position,
                AlertKind.REPEATED_FAILURES,
                f"{position.epoch}-{position.batch_number + 1}",
                f"{failed} tasks failed since the last batch landed ({position.committed_at}).",
                "Read the last lines of the failed task's log, then: "
                f"{command_line('doctor', '--topic', position.topic)}",
            )
        )
    return found


def untold(alerts: Iterable[Alert], told: Iterable[Mapping[str, Any]]) -> list[Alert]:
    """Return the alerts that have not been told.

    :param told: extras of the events that told alerts.
    """
    names = ("kind", "org_id", "consumer", "topic", "about")
    known = {tuple(extra.get(name) for name in names) for extra in told}
    return [
        one
        for one in alerts
        if (one.kind.value, one.org_id, one.consumer, one.topic, one.about) not in known
    ]


def open_losses(position: Position, now: datetime) -> list[LossWindow]:
    """Return the loss windows that need attention: new ones that no user has acknowledged."""
    return [one for one in position.new_losses if now - datetime.fromisoformat(one.at) < AGAIN]


def loss_remedy(position: Position) -> str:
    """Describe what to do about a loss window."""
    command = command_line("position", "acknowledge", position.consumer, position.topic)
    return f"{of_loss_window(position.topic)} Then: {command}"


def _loss_windows(position: Position, now: datetime) -> list[Alert]:
    return [
        _alert(
            position,
            AlertKind.LOSS_WINDOW,
            f"{one.after} {one.at}",
            f"Events after {one.after} may have been missed: {one.why}.",
            loss_remedy(position),
        )
        for one in open_losses(position, now)
    ]


def _alert(position: Position, kind: AlertKind, about: str, seen: str, remedy: str) -> Alert:
    return Alert(
        kind=kind,
        org_id=position.org_id,
        consumer=position.consumer,
        topic=position.topic,
        dag=position.committed_by.dag,
        about=about,
        seen=seen,
        remedy=remedy,
    )
