"""Values from Airflow's context for records: the task instance, its run, its mapped arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.record_text import check_consumer
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from airflow.sdk import Context

_DISTINCT = ("topic", "consumer", "conn_id")


def describe_run(context: Context) -> Run:
    """Return the task instance and its run, as records keep them.

    Times are in ISO 8601; empty if the run has none.
    """
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
        run_after=_iso(dag_run.run_after),
    )


def was_cleared(context: Context) -> bool:
    """Return whether this run, or a task of it, was cleared (Airflow counts that in the run)."""
    return bool(context["dag_run"].clear_number)


def is_backfill(context: Context) -> bool:
    return bool(context["dag_run"].run_type == "backfill")


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """Announcement of events to a task.

    :param events: number of known events of the batch.
    :param at: time at which Airflow stored that of a watcher; None: a sensor's.
    """

    batch_id: str
    events: int
    at: datetime | None = None


def find_announcement(context: Context, topic: str, consumer: str) -> Announcement | None:
    """Return the last announcement of events of this consumer; None: the task was told of none.

    It is the payload of a watcher, in an asset event that started the run; or the result of an
    upstream sensor. It names topic and consumer. One without events reports a problem.
    """
    found = None
    for said, at in (*_watchers_payloads(context), *_sensors_results(context)):
        if not isinstance(said, Mapping):
            continue
        events = said.get("events")
        is_of_position = (said.get("topic"), said.get("consumer")) == (topic, consumer)
        if is_of_position and isinstance(events, int) and events > 0:
            found = Announcement(batch_id=str(said.get("batch_id")), events=events, at=at)
    return found


def _watchers_payloads(context: Context) -> Iterator[tuple[Any, datetime | None]]:
    """Yield the payloads of the triggers that started this run, with their times."""
    events = context.get("triggering_asset_events") or {}
    for of_asset in events.values():
        for event in of_asset:
            yield event.extra.get("payload"), event.timestamp


def _sensors_results(context: Context) -> Iterator[tuple[Any, datetime | None]]:
    """Yield the results of this package's sensors upstream, also of mapped ones."""
    task = context["dag"].get_task(context["ti"].task_id)
    upstream = task.get_flat_relatives(upstream=True)
    sensors = sorted(one.task_id for one in upstream if _declares(one, "announces_batches"))
    for result in (context["ti"].xcom_pull(task_ids=sensors) or []) if sensors else []:
        yield result, None


def checked_consumer(consumer: Any) -> Any:
    """Check the argument `consumer` at parse time, if it is known then; returns it.

    :raises ConfigurationError: a position store does not accept such a name.
    """
    if consumer:
        check_constant(check_consumer, consumer)
    return consumer


def check_constant(check: Callable[[str], object], value: Any) -> None:
    """Check an argument at parse time, unless it is a template or another task's result.

    :raises ConfigurationError: as `check` does.
    """
    if isinstance(value, str) and not is_template(value):
        check(value)


def is_template(value: Any) -> bool:
    """Return whether Airflow replaces the value before the task runs, as it does an `XComArg`."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return hasattr(value, "iter_references")


def refuse_repeated_topics(context: Context) -> None:
    """Refuse a task that is expanded over literal values with the same topic twice.

    :raises ConfigurationError: the message names the task and the topic.
    """
    mapped = context["dag"].get_task(context["ti"].task_id)
    twice = [one for one, times in Counter(_literal_topics(mapped)).items() if times > 1]
    if twice:
        raise ConfigurationError(
            f"task {mapped.task_id!r} is expanded over topic {twice[0][0]!r} more than once; two "
            "mapped tasks would share one position. Name each topic once, or use a task of its own "
            "with another `consumer`."
        )


def position_tasks(context: Context) -> list[str]:
    """Return the ids of the other tasks, upstream and downstream, that keep positions, too.

    Sensor, fetch and commit share a position. If positions are kept by task (XCom), the results of
    all these tasks are read. A task declares itself by its class (`keeps_position`), so that
    subclasses and mapped tasks count. Tasks of other topics do no harm, since every record names
    its topic.
    """
    task = context["dag"].get_task(context["ti"].task_id)
    found = [*task.get_flat_relatives(upstream=True), *task.get_flat_relatives(upstream=False)]
    return sorted({one.task_id for one in found if _declares(one, "keeps_position")})


def _declares(task: Any, name: str) -> bool:
    """Return whether the task's class, also that of a mapped task, declares this of itself."""
    return bool(getattr(getattr(task, "operator_class", type(task)), name, False))


def _literal_topics(mapped: Any) -> list[tuple[str, ...]]:
    """Return each mapped instance's topic, with the arguments that may give it its own position.

    Empty if the task is not mapped, or mapped over another task's result: leases and positions then
    keep such tasks apart.
    """
    values = getattr(getattr(mapped, "expand_input", None), "value", None)
    if isinstance(values, Mapping):  # expand(topic=[...])
        topics = values.get("topic")
        return [(topic,) for topic in topics] if isinstance(topics, list | tuple) else []
    if isinstance(values, list | tuple):  # expand_kwargs([{"topic": ...}, ...])
        ones = [one for one in values if isinstance(one, Mapping)]
        return [tuple(str(one.get(name)) for name in _DISTINCT) for one in ones]
    return []


def _iso(value: Any) -> str:
    return value.isoformat() if value is not None else ""


def tell_assets(context: Context, outlets: Sequence[Any], result: dict[str, Any]) -> None:
    """Put a batch's result into the events of the task's outlet assets, for the DAGs they start."""
    for outlet in outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(result)
