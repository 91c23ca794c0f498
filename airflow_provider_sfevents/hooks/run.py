"""What of Airflow's context goes into records: which task of which run this is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context


def describe_run(context: Context) -> Run:
    """The task instance and its run, as records keep them; times in ISO 8601, empty where the run has none."""
    instance = context["ti"]
    dag_run = context["dag_run"]
    return Run(
        dag=instance.dag_id,
        run=instance.run_id,
        task=instance.task_id,
        map_index=-1 if instance.map_index is None else instance.map_index,
        try_number=instance.try_number,
        logical_date=_iso(dag_run.logical_date),
        data_interval_start=_iso(dag_run.data_interval_start),
        data_interval_end=_iso(dag_run.data_interval_end),
    )


def refuse_repeated_topics(context: Context) -> None:
    """:raises ConfigurationError: when the task is expanded over a literal list that names a topic twice."""
    mapped = context["dag"].get_task(context["ti"].task_id)
    expansion = getattr(getattr(mapped, "expand_input", None), "value", None)
    topics = expansion.get("topic") if isinstance(expansion, dict) else None
    if not isinstance(topics, list):
        return  # not mapped, or mapped over another task's result: its claims tell
    twice = [topic for topic, times in Counter(topics).items() if times > 1]
    if twice:
        raise ConfigurationError(
            f"task {mapped.task_id!r} is expanded over topic {twice[0]!r} more than once; two mapped tasks would share "
            "one position. Name each topic once, or use a task of its own with another `consumer`."
        )


def _iso(value: Any) -> str:
    return value.isoformat() if value is not None else ""


def tell_assets(context: Context, outlets: Sequence[Any], result: dict[str, Any]) -> None:
    """Put a batch's result into the events of the task's outlet assets, for whoever is scheduled by them."""
    for outlet in outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(result)
