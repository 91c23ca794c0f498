"""Metrics through Airflow's own statistics: StatsD, Datadog or OpenTelemetry, as it is set up.

A backend without tags (plain StatsD) has consumer and topic in the metric's name. Nothing here
fails a task.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf

from airflow_provider_sfevents.batches.position.position_metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.batches.position.position_metrics import Metric

log = logging.getLogger(__name__)

_TAGGED = ("statsd_datadog_enabled", "statsd_influxdb_enabled", "otel_on")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")


def emit(metrics: Iterable[Metric]) -> None:
    """Send metrics; an error is logged."""
    try:
        for metric in metrics:
            _send(metric)
    except Exception as error:  # noqa: BLE001 - statistics must not fail a task
        log.warning("Metrics could not be sent: %s", error)


def emit_in_triggerer(metrics: Iterable[Metric]) -> None:
    """Send metrics from a trigger.

    Airflow (3.3) initialises its statistics in the triggerer's parent process alone, so that of a
    trigger's process is initialised here.
    """
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    global _is_initialised  # noqa: PLW0603 - once for each process
    if not _is_initialised:
        stats.initialize(
            factory=stats_utils.get_stats_factory(),
            export_legacy_names=conf.getboolean("metrics", "legacy_names_on"),
        )
        _is_initialised = True
    emit(metrics)


_is_initialised = False


def stat_name(metric: Metric, *, tagged: bool) -> str:
    """Return a metric's name in Airflow's statistics.

    :param tagged: the backend has tags; otherwise the labels are parts of the name.
    """
    labels = [] if tagged else [_part(value) for value in metric.labels.values()]
    return ".".join(("sfevents", metric.name, *labels))


def _send(metric: Metric) -> None:
    from airflow.sdk.observability import stats

    tagged = any(conf.getboolean("metrics", name, fallback=False) for name in _TAGGED)
    name = stat_name(metric, tagged=tagged)
    tags = {key: _part(value) for key, value in metric.labels.items()} if tagged else None
    match METRICS[metric.name].kind:
        case "counter":
            if metric.value:
                stats.incr(name, int(metric.value), tags=tags)
        case "timing":
            stats.timing(name, metric.value * 1000, tags=tags)  # Airflow takes milliseconds
        case "gauge":
            stats.gauge(name, metric.value, tags=tags)


def _part(value: str) -> str:
    """Return a label's value with the characters that every backend takes."""
    return _NOT_IN_NAMES.sub("_", value.strip("/"))
