"""Spark jobs of a task, and their options from its arguments; checked when the DAG is parsed.

A template is checked by the job, after rendering.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.run_context import is_template
from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.options import changed
from airflow_provider_sfevents.spark.tables.table_options import cluster_by_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.options import AnyOptions

CHANGE_EVENTS = "/data/"
"""Prefix of the topics whose events are changes of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWork:
    """A job to run.

    :param job: name of the module in `spark/`: `land`, `apply`, `entity_snapshot`, `maintain`.
    :param arguments: of the job's command line.
    :param events: number of events; None for a user's own job.
    :param key: what the job works on. A Spark job that is kept for resuming (cluster modes) is
        continued only if it has the same key.
    :param again: the batch has landed before, by another job.
    """

    job: str
    arguments: Sequence[str]
    events: int | None
    key: str
    again: bool = False


def options_of(kind: type[AnyOptions], task: Any, **given: Any) -> AnyOptions:
    """Make options from a task's arguments of the same names; None stands for a default.

    :param given: values that come first; options that are no arguments of the task.
    """
    names = [one.name for one in fields(kind) if one.name not in given]
    chosen = {name: getattr(task, name, None) for name in names}
    return kind(**{name: value for name, value in chosen.items() if value is not None}, **given)


def landing_options(task: Any, manifest_url: str, **given: Any) -> LandingOptions:
    """Make the options of a task that lands a batch.

    :raises ConfigurationError: `cluster_by` is no list of texts.
    """
    return options_of(
        LandingOptions,
        task,
        manifest_url=manifest_url,
        cluster_by=cluster_by_of(task.cluster_by),
        **given,
    )


def apply_options(task: Any, manifest_url: str, **given: Any) -> ApplyOptions:
    """Make the options of a task that applies a batch to current-state tables."""
    return options_of(ApplyOptions, task, manifest_url=manifest_url, **given)


def check_landing_task(task: Any) -> None:
    """Check the options of a task that lands, and may apply, batches of a topic.

    :raises ConfigurationError: the message names the argument, its value and its valid values.
    """
    if not task.table and not task.application:
        raise ConfigurationError(
            "table is missing: give the root URL of the tables (for Delta and Iceberg, also a "
            "namespace of a catalog), or an `application` of your own."
        )
    landing = landing_options(task, "", table=sample_of(task.table))
    landing.check()
    if task.current_state:
        _check_current_state(task)
        return
    unused = changed(apply_options(task, "", current_state="")) - changed(landing)
    if unused:
        raise ConfigurationError(
            f"{', '.join(sorted(unused))}: these are options of current-state tables, and there is "
            "no current_state. Give their root URL or namespace as current_state, or leave these "
            "out."
        )


def sample_of(location: str | None) -> str:
    """Return a location to check: a valid one in place of a template or of none."""
    return "/lake/tables" if not location or is_template(location) else location


def _check_current_state(task: Any) -> None:
    root, topic = task.current_state, task.topic
    if task.application:
        raise ConfigurationError(
            f"current_state={root!r} is applied by the job of this package, and "
            f"application={task.application!r} runs another one. Leave out one of the two."
        )
    apply_options(task, "", current_state=sample_of(root)).check()
    if not is_template(topic) and not topic.startswith(CHANGE_EVENTS):
        raise ConfigurationError(
            f"current_state={root!r} with topic={topic!r} is not possible: only change events "
            f"({CHANGE_EVENTS}...) tell how records changed. Leave current_state out, or read a "
            "change event topic."
        )
    if str(root).rstrip("/") == str(task.table).rstrip("/"):
        raise ConfigurationError(
            f"current_state and table are both {task.table!r}: the first is for the records, the "
            "second for their events. Give each a location of its own."
        )
