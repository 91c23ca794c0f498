"""`SfEventsMonitorOperator`: tell of positions that need attention, by events of assets."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, BaseOperator, Variable
from typing_extensions import override

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.doctor import position_alerts
from airflow_provider_sfevents.doctor.airflow_findings import read_positions
from airflow_provider_sfevents.doctor.position_alerts import FailureCount, alerts_of, untold
from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.hooks.outgoing.notifiers import notifiers_of, notify
from airflow_provider_sfevents.positions.ownership import tasks_of
from airflow_provider_sfevents.positions.record_text import PREFIX

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_sfevents.doctor.position_alerts import Alert
    from airflow_provider_sfevents.positions.record import Position

log = logging.getLogger(__name__)

ALERTS = AssetAlias("sfevents_alerts")
"""Alias of the assets of all alerts."""


class SfEventsMonitorOperator(BaseOperator):
    """Tell of positions that need attention, by events of assets; the task itself succeeds.

    It does not depend on the DAGs that fetch: they may be paused, fail, or be deleted. It reads the
    positions in Variables, and asks Airflow how many of their tasks failed. Each alert is told
    once, and again after a week if it still holds. The assets are `sfevents_loss_window`,
    `sfevents_expiry_ahead` (8 hours before a replay id expires) and `sfevents_repeated_failures`
    (3 tasks failed since the last batch landed); the alias of all is `sfevents_alerts`. An event's
    `extra` has `kind`, `org_id`, `consumer`, `topic`, `dag`, `about`, `seen` and `remedy`.

    Result: `positions` (their number), `alerts` (those that hold), `told` (those that were told by
    this run), each as the event's `extra`; `unreadable` (records that are no position).

    :param notifier: as for `SfEventsToSparkOperator`; called for each alert that is told.
    """

    def __init__(self, *, notifier: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_inlets([ALERTS])
        self.add_outlets([ALERTS])
        self.notifiers = notifiers_of(notifier)

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        now = datetime.now(UTC)
        kept, broken = read_positions(_records())
        memory = _Memory(f"sfevents_monitor.{self.dag_id}.{self.task_id}")
        found = [
            alert
            for _, position in kept
            for alert in alerts_of(position, memory.failures(position, _failed(position)), now)
        ]
        memory.keep()
        since = (now - position_alerts.AGAIN).isoformat()
        told = [event.extra for event in context["inlet_events"][ALERTS].after(since)]
        new = untold(found, told)
        for alert in new:
            asset = Asset(name=alert.kind.asset, uri=alert.kind.asset)
            context["outlet_events"][ALERTS].add(asset, extra=alert.to_extra())
            notify(self.notifiers, dict(context), alert.to_extra())
        _log(found, len(kept), len(new))
        for one in broken:
            log.warning("%s: %s %s", one.checked, one.seen, one.remedy)
        return {
            "positions": len(kept),
            "alerts": [one.to_extra() for one in found],
            "told": [one.to_extra() for one in new],
            "unreadable": [one.to_row() for one in broken],
        }


class _Memory:
    """Counts of failures at the last look, in a Variable; without it counting begins anew."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._before = Variable.get(key, default=None)
        try:
            known = json.loads(self._before or "{}")
            self._known = {key: FailureCount(**one) for key, one in known.items()}
        except (ValueError, TypeError, AttributeError):
            log.warning("Variable %r was not written by this task; counting begins anew.", key)
            self._known = {}
        self._now: dict[str, FailureCount] = {}

    def failures(self, position: Position, failed: int) -> int:
        """Return the number of failures since the last commit.

        :param failed: number of all failures.
        """
        key = position_alerts.key_of(position)
        self._now[key] = position_alerts.count_failures(position, failed, self._known.get(key))
        return failed - self._now[key].before

    def keep(self) -> None:
        text = json.dumps({key: asdict(one) for key, one in self._now.items()})
        if text != self._before:
            Variable.set(self._key, text, description="Failures counted by the monitor's last run")


def _records() -> list[tuple[str, str]]:
    """Return location and text of every Variable that is named like a position."""
    try:
        keys = list(Variable.keys(prefix=PREFIX))
        records = [(f"Variable {key!r}", Variable.get(key, default=None)) for key in keys]
    except Exception as error:
        raise TransportError(
            f"The positions could not be read: {type(error).__name__}: {error}. Try again when "
            "Airflow's API server answers."
        ) from error
    return [(where, str(text)) for where, text in records if text is not None]


def _failed(position: Position) -> int:
    """Return the number of all failed instances of the tasks that fetch and commit."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    tasks, by = tasks_of(position), position.committed_by
    if not tasks:
        return 0
    count = RuntimeTaskInstance.get_ti_count(
        dag_id=by.dag, task_ids=list(tasks), map_index=by.map_index, states=["failed"]
    )
    return int(count)


def _log(found: list[Alert], positions: int, told: int) -> None:
    for one in found:
        log.warning(
            "%s: %s on %s: %s %s", one.kind.value, one.consumer, one.topic, one.seen, one.remedy
        )
    log.info(
        "%s looked at; %s, %d of them new.",
        counted(positions, "position"),
        counted(len(found), "alert"),
        told,
    )
