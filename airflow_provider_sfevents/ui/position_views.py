"""Views of a position for the page. Plain functions of plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.batches.position.replay_id_age import known_since
from airflow_provider_sfevents.commands.variable_rows import variables_of
from airflow_provider_sfevents.doctor.airflow_findings import followed_topics
from airflow_provider_sfevents.doctor.org_findings import allowance_finding
from airflow_provider_sfevents.doctor.position_alerts import open_losses
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions import history
from airflow_provider_sfevents.positions.activity import Commit, events_in
from airflow_provider_sfevents.positions.record_text import Whose
from airflow_provider_sfevents.positions.seen_allowance import SeenAllowance, allowance_key
from airflow_provider_sfevents.positions.stores import read_listed
from airflow_provider_sfevents.pubsub.rest.org_limits import Allowance
from airflow_provider_sfevents.pubsub.topic_names import retention, setup_page
from airflow_provider_sfevents.ui.troubles import troubles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.commands.tasks.task_states import DagState, TaskState
    from airflow_provider_sfevents.positions.record import Position

AMBER, RED = 1 / 2, 2 / 3
"""Shares of the retention from which the age of a position has that colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A record in Airflow's database that is named like a position.

    :param position: None: the record is no position, and `problem` says why.
    :param dag_state: of `dag`; None: Airflow does not have it.
    """

    where: str
    position: Position | None = None
    problem: str = ""
    dag_state: DagState | None = None

    @property
    def store(self) -> str:
        """The store's name, as `position_store`: the records come from Variables and assets."""
        return "asset" if self.where.startswith("State ") else "variable"

    @property
    def dag(self) -> str:
        """DAG that last wrote the position; empty: a command did, or it is no position."""
        return self.position.committed_by.dag if self.position else ""


def read(where: str, text: str) -> Kept:
    """Parse a stored record; `problem` says why it is no position."""
    try:
        return Kept(where=where, position=read_listed(text, where))
    except ConfigurationError as error:
        return Kept(where=where, problem=str(error))


def level(age_seconds: float | None, retention_seconds: float) -> str:
    """Return the level of an age: `none` without a replay id, `fresh`, `amber` or `red`."""
    if age_seconds is None:
        return "none"
    share = age_seconds / retention_seconds
    return "red" if share >= RED else "amber" if share >= AMBER else "fresh"


def overview_row(kept: Kept, now: datetime, tasks: TaskState) -> dict[str, Any]:
    """Build the row of a position."""
    position = _position(kept)
    since, kept_for = known_since(position, None), retention(position.topic).total_seconds()
    age = None if since is None else max(0.0, (now - since).total_seconds())
    last_event = position.last_event_at
    lag = (now - datetime.fromisoformat(last_event)).total_seconds() if last_event else None
    return {
        "consumer": position.consumer,
        "topic": position.topic,
        "org_id": position.org_id,
        "store": kept.store,
        "dag": kept.dag or tasks.dag,
        "age_seconds": age,
        "retention_seconds": kept_for,
        "level": level(age, kept_for),
        "lag_seconds": None if lag is None else max(0.0, lag),
        "last_event_at": last_event or None,
        "events_total": position.events_total,
        "events_by_hour": events_in(position.counts, now),
        "batch_number": position.batch_number,
        "last_batch": _batch(position.recent[-1]) if position.recent else None,
        "state": "running" if tasks.running else "failed" if tasks.failed else "waiting",
        "tasks": {
            **asdict(tasks),
            "heartbeat": tasks.heartbeat.isoformat() if tasks.heartbeat else None,
            "map_index": position.committed_by.map_index,
        },
        "troubles": [
            asdict(one) for one in troubles(position, kept.store, kept.dag_state, tasks, now)
        ],
        "quarantined": position.counts.quarantined,
        "extra_deliveries": position.counts.extra_deliveries,
        "loss_windows": len(open_losses(position, now)),
    }


def allowances(positions: Sequence[Position], now: datetime) -> list[dict[str, Any]]:
    """List the allowances of the positions' orgs, as tasks last saw them.

    The time until one is empty is that of the doctor: at the rate of these positions.
    """
    followed = followed_topics(positions, now)
    kept = variables_of([allowance_key(org_id) for org_id in followed])
    rows = []
    for org_id, topics in followed.items():
        seen = SeenAllowance.from_json(kept.get(allowance_key(org_id), ""))
        if seen is None:
            continue
        found = {seen.name: Allowance(name=seen.name, most=seen.most, left=seen.left)}
        line = allowance_finding(found, topics.topics, topics.events_by_hour)
        rows.append(
            {
                "org_id": org_id,
                "at": seen.at,
                "most": seen.most,
                "left": seen.left,
                "status": line.status.value,
                "says": line.seen,
            }
        )
    return rows


def details(kept: Kept, now: datetime, tasks: TaskState) -> dict[str, Any]:
    """Build the page of a position: its row, its batches (newest first), and what to do next."""
    position = _position(kept)
    store = "" if kept.store == "variable" else kept.store
    whose = Whose(consumer=position.consumer, topic=position.topic, store=store)
    losses = position.loss_windows
    return {
        **overview_row(kept, now, tasks),
        "kept_in": kept.where,
        "setup": setup_page(position.instance_url, position.topic),
        "owner": position.owner,
        "epoch": position.epoch,
        "replay_id": position.replay_id,
        "committed_at": position.committed_at,
        "batches": [_batch(one) for one in reversed(position.recent)],
        "older": _cursor(history.before_recent(position)),
        "losses": [asdict(one) for one in reversed(losses)],
        "tables": _tables(position.counts.tables),
        "drift": [dict(zip(_DRIFT, one, strict=True)) for one in reversed(position.counts.drift)],
        "command": whose.command("show").strip("`"),
    }


def older_rows(older: history.OlderBatches, unseen: str = "") -> dict[str, Any]:
    """Build an answer with older batches and beginnings of epochs, newest first.

    :param unseen: the reason why the history is not seen.
    """
    return {
        "unseen": unseen,
        "entries": [
            _batch(one) if isinstance(one, Commit) else asdict(one) for one in older.entries
        ],
        "next": _cursor(older.next),
    }


def _cursor(cursor: history.Cursor | None) -> dict[str, Any] | None:
    return asdict(cursor) if cursor else None


_DRIFT = ("batch_number", "event_type", "what", "column", "type")


def _tables(tables: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """List tables with their rows, by name."""
    return [
        {"table": f"{parent}{name}", "rows": rows}
        for parent, names in sorted(tables.items())
        for name, rows in sorted(names.items())
    ]


def _batch(commit: Commit) -> dict[str, Any]:
    return {**asdict(commit), "begun_at": commit.begun_at.isoformat()}


def _position(kept: Kept) -> Position:
    if kept.position is None:
        raise ValueError(f"{kept.where} is no position: {kept.problem}")
    return kept.position
