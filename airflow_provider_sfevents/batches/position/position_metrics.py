"""Metrics of positions: what an alert or a panel reads, and no more. Pure.

Times are Unix times, not ages: a rule computes the age, and so it grows while a DAG is paused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from airflow_provider_sfevents.batches.position.replay_id_age import known_since
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.pubsub.topic_names import retention

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_sfevents.positions.activity import Commit
    from airflow_provider_sfevents.positions.record import Position

Kind = Literal["counter", "gauge", "timing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Description of a metric.

    :param kind: a `timing` is a gauge in seconds for Prometheus.
    :param help: for people.
    """

    kind: Kind
    help: str


METRICS: Mapping[str, Description] = {
    "events_landed": Description(kind="counter", help="Events that a position's epoch has landed."),
    "events_quarantined": Description(kind="counter", help="Those of them in quarantine."),
    "extra_deliveries": Description(
        kind="counter", help="Deliveries that brought no new event, by cause."
    ),
    "loss_windows": Description(
        kind="gauge", help="Loss windows of the position: spans that may have been missed."
    ),
    "last_event_time": Description(
        kind="gauge", help="Unix time at which the last landed event was created."
    ),
    "last_commit_time": Description(kind="gauge", help="Unix time of the last commit."),
    "expiry_time": Description(
        kind="gauge", help="Unix time at which Salesforce forgets the position's replay id."
    ),
    "batch_seconds": Description(kind="timing", help="Seconds of the last batch, by stage."),
    "failures_in_a_row": Description(
        kind="gauge", help="Task instances that failed since the last commit."
    ),
    "allowance_left": Description(
        kind="gauge", help="Deliveries that the org has left for the day."
    ),
    "allowance_most": Description(
        kind="gauge", help="Deliveries that the org may have in 24 hours."
    ),
    "waits": Description(
        kind="gauge", help="Watchers and deferred sensors, by the state of their triggerer."
    ),
    "watcher_seen_time": Description(
        kind="gauge", help="Unix time at which a watcher last began to listen."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A value of a metric.

    :param name: of `METRICS`.
    :param labels: `consumer` and `topic`, and what tells the values of one position apart; those of
        an org: `connection` and `allowance`.
    """

    name: str
    value: float
    labels: Mapping[str, str]


def of_position(position: Position, failed: int = 0) -> list[Metric]:
    """Return the metrics of a position.

    :param failed: task instances that failed since its last commit.
    """
    counts = position.counts
    values = {
        "events_landed": position.events_total,
        "events_quarantined": counts.quarantined,
        "failures_in_a_row": failed,
    }
    last = position.recent[-1] if position.recent else None
    return _metrics(position, values, counts.extra_deliveries, last)


def of_commit(position: Position, commit: Commit, extra: Mapping[str, int]) -> list[Metric]:
    """Return what a commit adds to counters, and the position's gauges after it.

    :param extra: extra deliveries of the batch, by cause.
    """
    added = {
        "events_landed": commit.events,
        "events_quarantined": commit.quarantined,
    }
    return _metrics(position, added, extra, commit)


def _metrics(
    position: Position,
    counts: Mapping[str, float],
    extra: Mapping[str, int],
    commit: Commit | None,
) -> list[Metric]:
    """Return these counts with the position's gauges, and the stages of a commit."""
    labels = labels_of(position)
    values: dict[str, float | None] = {
        **counts,
        "loss_windows": len(position.loss_windows),
        **_times(position),
    }
    found = [
        Metric(name=name, value=value, labels=labels)
        for name, value in values.items()
        if value is not None
    ]
    return found + _by_cause(extra, labels) + (_stages(commit, labels) if commit else [])


def labels_of(position: Position) -> dict[str, str]:
    return {"consumer": position.consumer, "topic": position.topic}


def expires_at(position: Position) -> datetime | None:
    """Return the time at which Salesforce forgets the replay id; None: the position has none."""
    since = known_since(position, None)
    return None if since is None else since + retention(position.topic)


def exposition(metrics: Iterable[Metric]) -> str:
    """Write metrics in Prometheus' text format, version 0.0.4."""
    by_name: dict[str, list[Metric]] = {}
    for metric in metrics:
        by_name.setdefault(metric.name, []).append(metric)
    lines: list[str] = []
    for name, described in METRICS.items():
        if name not in by_name:
            continue
        counter = described.kind == "counter"
        full = f"sfevents_{name}{'_total' if counter else ''}"
        lines += [f"# HELP {full} {described.help}"]
        lines += [f"# TYPE {full} {'counter' if counter else 'gauge'}"]
        for one in by_name[name]:
            labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in one.labels.items())
            lines.append(f"{full}{{{labels}}} {one.value:.15g}")
    return "".join(f"{line}\n" for line in lines)


def summary(position: Position, commit: Commit, extra: Mapping[str, int], now: datetime) -> str:
    """Describe in a line what a run has cost, and where its position stands."""
    deliveries = commit.events + sum(extra.values())
    known = ", ".join(f"{count} {cause}" for cause, count in extra.items() if count)
    parts = [
        f"{counted(commit.events, 'event')} landed for "
        f"{counted(deliveries, 'delivery', 'deliveries')}"
        + (f" (extra: {known})" if known else ""),
    ]
    if commit.quarantined:
        parts.append(f"{commit.quarantined} in quarantine")
    if position.last_event_at:
        lag = now - datetime.fromisoformat(position.last_event_at)
        parts.append(f"the last one was created {duration(lag)} ago")
    if (expiry := expires_at(position)) is not None:
        parts.append(f"the replay id is valid for {duration(expiry - now)}")
    return "; ".join(parts)


def duration(span: timedelta) -> str:
    """Describe a duration: `12 s`, `4 min`, `2.5 h`, `3 days`."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def _times(position: Position) -> dict[str, float | None]:
    expiry = expires_at(position)
    return {
        "last_event_time": _unix(position.last_event_at),
        "last_commit_time": _unix(position.committed_at) if position.batch_number else None,
        "expiry_time": None if expiry is None else expiry.timestamp(),
    }


def _unix(time: str) -> float | None:
    return datetime.fromisoformat(time).timestamp() if time else None


def _by_cause(counts: Mapping[str, int], labels: Mapping[str, str]) -> list[Metric]:
    return [
        Metric(name="extra_deliveries", value=count, labels={**labels, "cause": cause})
        for cause, count in counts.items()
    ]


def _stages(commit: Commit, labels: Mapping[str, str]) -> list[Metric]:
    took = {"fetch": commit.fetch_ms, "landing": commit.landing_ms, "commit": commit.commit_ms}
    return [
        Metric(name="batch_seconds", value=ms / 1000, labels={**labels, "stage": stage})
        for stage, ms in took.items()
    ]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
