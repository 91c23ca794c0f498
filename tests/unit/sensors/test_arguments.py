"""Arguments of the sensor, checked when the DAG is parsed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)


def sensor(**arguments: Any) -> SfEventsSensor:
    return SfEventsSensor(**{"task_id": "wait", "topic": "/event/Order__e", **arguments})


@pytest.mark.parametrize("min_events", [0, -1, 1.5, "1", True, None, 10_001])
def test_a_number_of_events_that_never_comes(min_events: Any) -> None:
    """`min_events` below 1 or above the batch's bound is refused with the valid range."""
    with pytest.raises(ConfigurationError) as raised:
        sensor(min_events=min_events)
    assert f"min_events={min_events!r}" in str(raised.value)
    assert "from 1 to 10000" in str(raised.value)


def test_the_limit_is_the_batchs() -> None:
    """`min_events` may equal `max_events`, and not exceed it."""
    assert sensor(min_events=5, max_events=5).min_events == 5
    with pytest.raises(ConfigurationError, match="from 1 to 5,"):
        sensor(min_events=6, max_events=5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "Order__e"}, "'Order__e' is no topic"),
        ({"topic": ""}, "'' is no topic"),
        ({"topic": 5}, "topic is 5. Give text, or another task's result."),
        ({"deferrable": "yes"}, "deferrable is 'yes'. Give True or False."),
        ({"consumer": "a/b"}, "consumer='a/b'"),
        ({"position_store": "managed"}, "needs managed_subscription"),
        ({"managed_subscription": "Orders"}, "is used with position_store='managed' only"),
        ({"initial_replay": "yesterday"}, "'yesterday'"),
        ({"replay_fallback": "newest"}, "replay_fallback='newest'"),
        ({"max_events": 0}, "max_events"),
        ({"idle_seconds": 0}, "idle_seconds"),
        ({"idle_seconds": -1}, "idle_seconds"),
        ({"initial_replay": "00ff"}, "it has 2 bytes, and theirs have 8 or 10"),
        ({"position_store": "varible"}, "'varible' is not a store"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else None,
)
def test_what_cannot_work(arguments: dict[str, Any], said: str) -> None:
    """A wrong argument is refused at parse time, with its value."""
    with pytest.raises(ConfigurationError) as raised:
        sensor(**arguments)
    assert said in str(raised.value)


def test_templates_are_rendered() -> None:
    """Topic, consumer, staging and start are templates, and are checked after rendering."""
    with DAG("orders", schedule=None, start_date=JANUARY):
        templated = sensor(
            topic="/event/{{ params.event }}__e",
            consumer="{{ params.event | lower }}",
            staging="s3://staging/{{ ds }}",
            initial_replay="{{ params.start }}",
        )
    templated.render_template_fields(
        {"params": {"event": "Order", "start": "0a1b"}, "ds": "2026-01-31"}
    )
    assert (templated.topic, templated.consumer) == ("/event/Order__e", "order")
    assert (templated.staging, templated.initial_replay) == ("s3://staging/2026-01-31", "0a1b")


def test_it_can_be_mapped() -> None:
    """A sensor can be mapped over topics."""
    with DAG("orders", schedule=None, start_date=JANUARY) as dag:
        SfEventsSensor.partial(task_id="wait", min_events=2).expand(
            topic=["/event/Order__e", "/data/AccountChangeEvent"]
        )
    assert dag.get_task("wait").operator_class is SfEventsSensor


def test_arguments_are_the_operators() -> None:
    """Arguments shared with the operators have the same names, defaults and templating."""
    fetch = SfEventsToSparkOperator(task_id="land", topic="/event/Order__e", table="lake")
    wait = sensor()
    for name in (
        "topic",
        "conn_id",
        "consumer",
        "position_store",
        "staging",
        "initial_replay",
        "replay_fallback",
        "max_events",
    ):
        assert getattr(wait, name) == getattr(fetch, name)
    assert set(wait.template_fields) <= set(fetch.template_fields)


def test_the_arguments_of_sensors_arrive() -> None:
    """The sensor takes the arguments of every Airflow sensor."""
    one = sensor(timeout=60, poke_interval=5, mode="reschedule", soft_fail=True, retries=2)
    assert (one.timeout, one.poke_interval, one.reschedule) == (60, 5, True)
    assert (one.soft_fail, one.retries, one.deferrable) == (True, 2, False)
