from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, TaskGroup

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.run_context import (
    Announcement,
    checked_consumer,
    describe_run,
    find_announcement,
    is_backfill,
    position_tasks,
    refuse_repeated_topics,
    tell_assets,
    was_cleared,
)
from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from airflow_provider_sfevents.staging.manifest import Run

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)


def context(dag: DAG | None = None, **over: Any) -> Any:
    instance = {
        "dag_id": "orders",
        "run_id": "r",
        "task_id": "land",
        "map_index": -1,
        "try_number": 2,
    }
    dag_run = {
        "logical_date": JANUARY,
        "data_interval_start": JANUARY,
        "data_interval_end": JANUARY,
        "run_after": JANUARY,
        "run_type": "scheduled",
        "clear_number": 0,
    }
    return {
        "dag": dag,
        "ti": SimpleNamespace(**{**instance, **over}),
        "dag_run": SimpleNamespace(**{**dag_run, **over}),
    }


def test_a_run_is_described() -> None:
    """The description of a run has task, run, try and times as text."""
    at = "2026-01-01T00:00:00+00:00"
    assert describe_run(context()) == Run(
        dag="orders",
        run="r",
        task="land",
        map_index=-1,
        try_number=2,
        logical_date=at,
        data_interval_start=at,
        data_interval_end=at,
        run_after=at,
    )


@pytest.mark.parametrize(
    ("run_type", "clear_number", "occasion"),
    [
        ("scheduled", 0, (False, False)),
        ("scheduled", 2, (True, False)),
        ("backfill", 0, (False, True)),
    ],
)
def test_how_a_run_came_about(
    run_type: str, clear_number: int, occasion: tuple[bool, bool]
) -> None:
    """Cleared runs, backfills and scheduled runs are distinguished."""
    came = context(run_type=run_type, clear_number=clear_number)
    assert (was_cleared(came), is_backfill(came)) == occasion


def test_a_run_without_times_is_described() -> None:
    """A run without logical date and interval can be described."""
    run = describe_run(
        context(logical_date=None, data_interval_start=None, data_interval_end=None, map_index=None)
    )
    assert (run.logical_date, run.data_interval_start, run.map_index) == ("", "", -1)


def mapped(topics: Any) -> DAG:
    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        SfEventsFetchOperator.partial(task_id="land").expand(topic=topics)
    return dag


def test_a_topic_twice_in_a_mapping() -> None:
    """A topic that is mapped twice is an error with task, topic and remedy."""
    dag = mapped(["/event/A__e", "/event/B__e", "/event/A__e"])
    with pytest.raises(
        ConfigurationError, match=r"'land'.*'/event/A__e' more than once.*`consumer`"
    ):
        refuse_repeated_topics(context(dag))


def mapped_by(*arguments: dict[str, str]) -> DAG:
    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        SfEventsFetchOperator.partial(task_id="land").expand_kwargs(list(arguments))
    return dag


def test_a_topic_twice_in_a_mapping_of_arguments() -> None:
    """With `expand_kwargs`, a topic may repeat if the consumer or the org differs."""
    twice = {"topic": "/event/A__e", "consumer": "a"}
    with pytest.raises(ConfigurationError, match="'/event/A__e' more than once"):
        refuse_repeated_topics(context(mapped_by(twice, {"topic": "/event/B__e"}, twice)))
    refuse_repeated_topics(context(mapped_by(twice, {**twice, "consumer": "b"})))
    refuse_repeated_topics(context(mapped_by(twice, {**twice, "conn_id": "other_org"})))


def test_topics_once_in_a_mapping() -> None:
    """Different topics, and a task that is not mapped, are accepted."""
    refuse_repeated_topics(context(mapped(["/event/A__e", "/event/B__e"])))
    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        SfEventsFetchOperator(task_id="land", topic="/event/A__e")
    refuse_repeated_topics(context(dag))


def test_topics_that_another_task_names() -> None:
    """Topics from another task's result are not checked here: leases keep such tasks apart."""
    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        names = SfEventsFetchOperator(task_id="names", topic="/event/A__e")
        SfEventsFetchOperator.partial(task_id="land").expand(topic=names.output)
    refuse_repeated_topics(context(dag))


def test_assets_are_told() -> None:
    """The result goes to every outlet that is an asset, and to no other outlet."""
    asset = Asset("orders")
    events = {asset: SimpleNamespace(extra={"kept": 1})}
    tell_assets({"outlet_events": events}, [asset, object()], {"events": 3})
    assert events[asset].extra == {"kept": 1, "events": 3}


def test_tasks_that_share_a_position_know_of_each_other() -> None:
    """Sensor, fetch and commit find each other, also mapped, grouped or subclassed."""

    class Mine(SfEventsFetchOperator):
        pass

    orders = "/event/Order__e"
    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        with TaskGroup("waits"):
            wait = SfEventsSensor.partial(task_id="wait").expand(topic=[orders])
        fetch = Mine(task_id="fetch", topic=orders)
        between = EmptyOperator(task_id="between")
        wait >> fetch >> between >> SfEventsCommitOperator(task_id="commit", batch=fetch.output)
        SfEventsFetchOperator(task_id="beside", topic=orders)
    found = {
        name: position_tasks(context(dag, task_id=name))
        for name in ("waits.wait", "fetch", "commit", "beside")
    }
    assert found == {
        "waits.wait": ["commit", "fetch"],
        "fetch": ["commit", "waits.wait"],
        "commit": ["fetch", "waits.wait"],
        "beside": [],
    }


ANNOUNCEMENT = {"topic": "/event/A__e", "consumer": "orders", "batch_id": "e-1", "events": 3}
PROBLEM = {**ANNOUNCEMENT, "events": 0, "trouble": "the secret is wrong"}


@pytest.mark.parametrize(
    ("extra", "announced"),
    [
        ({"payload": ANNOUNCEMENT, "from_trigger": True}, True),
        ({"payload": PROBLEM, "from_trigger": True}, False),
        ({"payload": {**ANNOUNCEMENT, "topic": "/event/B__e"}}, False),
        ({"payload": {**ANNOUNCEMENT, "consumer": "other"}}, False),
        ({"payload": "of another trigger"}, False),
        ({"payload": {**ANNOUNCEMENT, "events": ["of", "another"]}}, False),
        ({"topic": "/event/A__e"}, False),
    ],
    ids=[
        "watcher",
        "problem",
        "other topic",
        "other consumer",
        "other trigger",
        "other format",
        "other task",
    ],
)
def test_a_watcher_announces_by_the_event_that_started_the_run(
    extra: dict[str, Any], *, announced: bool
) -> None:
    """A run is announced if a watcher's payload names events of its topic and consumer."""
    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        SfEventsFetchOperator(task_id="land", topic="/event/A__e")
    started = {
        Asset("pending"): [
            SimpleNamespace(extra={}, timestamp=JANUARY),
            SimpleNamespace(extra=extra, timestamp=JANUARY),
        ]
    }
    came = context(dag) | {"triggering_asset_events": started}
    found = find_announcement(came, "/event/A__e", "orders")
    assert found == (Announcement(batch_id="e-1", events=3, at=JANUARY) if announced else None)


def test_the_last_announcement_counts() -> None:
    """Of several announcements that started one run, the last one names the batch to come."""
    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        SfEventsFetchOperator(task_id="land", topic="/event/A__e")
    said = [{"payload": {**ANNOUNCEMENT, "batch_id": name}} for name in ("e-1", "e-2")]
    started = {"pending": [SimpleNamespace(extra=extra, timestamp=JANUARY) for extra in said]}
    came = context(dag) | {"triggering_asset_events": started}
    found = find_announcement(came, "/event/A__e", "orders")
    assert found == Announcement(batch_id="e-2", events=3, at=JANUARY)


@pytest.mark.parametrize(
    ("task", "results", "announced"),
    [
        ("land", [ANNOUNCEMENT], True),
        ("land", [{**ANNOUNCEMENT, "topic": "/event/B__e"}, ANNOUNCEMENT], True),
        ("land", [None], False),
        ("land", [], False),
        ("land", None, False),
        ("alone", [ANNOUNCEMENT], False),
    ],
    ids=["announced", "mapped", "skipped", "none", "no answer", "not upstream"],
)
def test_a_sensor_announces_by_its_result(task: str, results: Any, *, announced: bool) -> None:
    """A task is announced if a sensor upstream of it has pushed a result for its position."""
    asked = []

    def pull(task_ids: list[str]) -> Any:
        asked.append(task_ids)
        return results

    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        wait = SfEventsSensor.partial(task_id="wait").expand(topic=["/event/A__e", "/event/B__e"])
        first = SfEventsFetchOperator(task_id="first", topic="/event/B__e")
        wait >> first >> SfEventsFetchOperator(task_id="land", topic="/event/A__e")
        SfEventsFetchOperator(task_id="alone", topic="/event/A__e")
    came = context(dag, task_id=task, xcom_pull=pull)
    found = find_announcement(came, "/event/A__e", "orders")
    assert found == (Announcement(batch_id="e-1", events=3) if announced else None)
    assert asked == ([["wait"]] if task == "land" else [])


@pytest.mark.parametrize("consumer", ["{{ params.who }}", "{% if x %}a b{% endif %}", None, ""])
def test_a_consumer_that_is_not_known_yet_is_judged_later(consumer: Any) -> None:
    """A template as consumer, and the default, pass at parse time."""
    assert checked_consumer(consumer) == consumer


def test_a_consumer_that_is_known_is_judged_now() -> None:
    """A consumer's name that a store does not accept is refused at parse time."""
    with pytest.raises(ConfigurationError, match="'a b'"):
        checked_consumer("a b")
