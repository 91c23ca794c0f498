"""Arguments of the operators, checked when the DAG is parsed."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.operators.doctor import SfEventsDoctorOperator
from airflow_provider_sfevents.operators.entity_snapshot import SfEventsEntitySnapshotOperator
from airflow_provider_sfevents.operators.maintain import SfEventsMaintainOperator
from airflow_provider_sfevents.operators.publish import SfEventsPublishOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Not an argument of SparkSubmitOperator itself, or one with another meaning here.
OURS = {"self", "kwargs", "conn_id", "reconnect_on_retry"}
SPARK_ARGUMENTS = sorted(set(inspect.signature(SparkSubmitOperator.__init__).parameters) - OURS)

VALUES: dict[str, Any] = {
    "conf": {"spark.x": "y"},
    "env_vars": {"A": "b"},
    "application_args": ["--one", 1],
    "post_submit_commands": ["true"],
    "status_poll_interval": 7,
    "total_executor_cores": 3,
    "executor_cores": 2,
    "num_executors": 4,
    **dict.fromkeys(
        (
            "verbose",
            "use_krb5ccache",
            "track_driver_via_k8s_api",
            "yarn_track_via_rm_api",
            "openlineage_inject_parent_job_info",
            "openlineage_inject_transport_info",
        ),
        True,
    ),
    "durable": False,
}


def to_spark(**arguments: Any) -> SfEventsToSparkOperator:
    known = {"task_id": "land", "topic": "/event/Order__e", "table": "s3a://lake/salesforce"}
    return SfEventsToSparkOperator(**{**known, **arguments})


def to_stage(**arguments: Any) -> SfEventsFetchOperator:
    return SfEventsFetchOperator(**{"task_id": "fetch", "topic": "/event/Order__e", **arguments})


def kept(operator: SparkSubmitOperator, name: str) -> Any:
    """Attribute of SparkSubmitOperator for an argument: its name, or that after an underscore."""
    return getattr(operator, name) if hasattr(operator, name) else getattr(operator, f"_{name}")


def test_the_signature_is_read() -> None:
    """SparkSubmitOperator's signature has arguments, so the tests below check some."""
    assert {"application", "conf", "jars", "deploy_mode", "durable"} <= set(SPARK_ARGUMENTS)
    assert len(SPARK_ARGUMENTS) > 30


@pytest.mark.parametrize("name", SPARK_ARGUMENTS)
def test_every_argument_of_spark_submit_arrives(name: str) -> None:
    """Every argument of SparkSubmitOperator is accepted and kept in its attribute."""
    value = VALUES.get(name, f"a {name}")
    theirs = SparkSubmitOperator(task_id="theirs", **{"application": "job.py", name: value})
    ours = to_spark(**{name: value})
    assert kept(ours, name) == kept(theirs, name) == value


def test_the_spark_connection_has_a_name_of_its_own() -> None:
    """`conn_id` is Salesforce's, and `spark_conn_id` goes to SparkSubmitOperator's attribute."""
    operator = to_spark(conn_id="sandbox", spark_conn_id="cluster")
    assert (operator.conn_id, operator._conn_id) == ("sandbox", "cluster")
    assert (to_spark().conn_id, to_spark()._conn_id) == ("sfevents_default", "spark_default")


def test_template_fields_include_those_of_spark_submit() -> None:
    """The template fields are those of SparkSubmitOperator and those of the fetch."""
    fields = set(SfEventsToSparkOperator.template_fields)
    assert set(SparkSubmitOperator.template_fields) <= fields
    assert {"topic", "consumer", "staging", "initial_replay", "until", "table"} <= fields
    assert {"topic", "consumer", "staging", "initial_replay", "until"} <= set(
        SfEventsFetchOperator.template_fields
    )
    assert {"batch", "staging"} <= set(SfEventsCommitOperator.template_fields)
    assert all(hasattr(to_spark(), name) for name in fields)


def test_templates_are_rendered() -> None:
    """Topic, consumer, locations, start and end of a batch are templates."""
    with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        operator = to_spark(
            topic="/event/{{ params.event }}__e",
            consumer="{{ params.event | lower }}",
            staging="s3://staging/{{ ds }}",
            table="s3a://lake/{{ params.event }}",
            initial_replay="{{ params.start }}",
            until="{{ ts }}",
            application_args=["{{ ds }}"],
        )
    operator.render_template_fields(
        {
            "params": {"event": "Order", "start": "0a1b"},
            "ds": "2026-01-31",
            "ts": "2026-01-31T00:00:00+00:00",
        }
    )
    assert (operator.topic, operator.consumer) == ("/event/Order__e", "order")
    assert (operator.staging, operator.table) == ("s3://staging/2026-01-31", "s3a://lake/Order")
    assert (operator.initial_replay, operator.until) == ("0a1b", "2026-01-31T00:00:00+00:00")
    assert operator.application_args == ["2026-01-31"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "Order__e"}, "'Order__e' is no topic"),
        ({"topic": ""}, "'' is no topic"),
        ({"topic": "/event/Order__e "}, "'/event/Order__e ' is no topic"),
        ({"initial_replay": "yesterday"}, "'yesterday' is no replay id"),
        ({"initial_replay": "0A1B"}, "lower-case hex"),
        ({"initial_replay": ""}, "'' is no replay id"),
        ({"initial_replay": "00ff"}, "it has 2 bytes, and theirs have 8 or 10"),
        ({"position_store": "varible"}, "position_store='varible' is not a store. Give 'variable'"),
        ({"position_store": None}, "position_store=None is not a store"),
    ],
)
@pytest.mark.parametrize("kind", [to_spark, to_stage])
def test_wrong_constants_are_refused(
    kind: Callable[..., Any], arguments: dict[str, Any], said: str
) -> None:
    """A wrong constant is refused at parse time, with the argument and its valid values."""
    with pytest.raises(ConfigurationError) as raised:
        kind(**arguments)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": 5}, "topic is 5. Give text, or another task's result."),
        ({"topic": None}, "topic is None. Give text, or another task's result."),
        ({"until": 5}, "until is 5. Give text, or a time, or another task's result, or leave it"),
        ({"conn_id": 3}, "conn_id is 3. Give text."),
        ({"staging": 4}, "staging is 4. Give text, or another task's result, or leave it out."),
        ({"staging_shared": "yes"}, "staging_shared is 'yes'. Give True or False."),
        ({"keep_batches": "x"}, "keep_batches is 'x'. Give a whole number, 0 or more."),
        ({"keep_batches": -1}, "keep_batches is -1. Give a whole number, 0 or more."),
        ({"commit_seconds": "x"}, "commit_seconds is 'x'. Give a number."),
        (
            {"max_seconds": "600", "execution_timeout": timedelta(hours=1)},
            "max_seconds is '600'. Give a number.",
        ),
        ({"table": 7}, "table is 7. Give text, or another task's result, or leave it out."),
        ({"current_state": True}, "current_state is True. Give text, or another task's result, "),
        ({"spark_conn_id": 1}, "spark_conn_id is 1. Give text."),
        ({"packages": ["a"]}, "packages is ['a']. Give text, or another task's result, or leave"),
        ({"driver_memory": 4}, "driver_memory is 4. Give text, or leave it out."),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_an_argument_of_another_type_is_refused(arguments: dict[str, Any], said: str) -> None:
    """A wrong type is refused at parse time, with the argument, its value and valid types."""
    with pytest.raises(ConfigurationError) as raised:
        to_spark(**arguments)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (SfEventsCommitOperator, {"batch": {}, "staging": 4}),
        (SfEventsPublishOperator, {"topic": "/event/Order__e", "records": [], "staging": 4}),
        (SfEventsDoctorOperator, {"staging": 4}),
        (SfEventsMaintainOperator, {"table": "/lake", "table_format": "delta", "staging": 4}),
        (
            SfEventsEntitySnapshotOperator,
            {"entity": "A", "current_state": "/lake", "table_format": "delta", "staging": 4},
        ),
    ],
)
def test_every_operator_checks_types(kind: type[Any], arguments: dict[str, Any]) -> None:
    """Every operator refuses an argument of a wrong type when the DAG is parsed."""
    with pytest.raises(ConfigurationError, match=r"staging is 4\. Give text"):
        kind(task_id="one", **arguments)


def test_a_result_for_an_argument_that_is_no_template_is_refused() -> None:
    """Another task's result is refused where Airflow would not replace it by its value."""
    with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        asked = to_stage(task_id="asked")
        with pytest.raises(ConfigurationError, match=r"conn_id is .*\. Give text\."):
            to_spark(conn_id=asked.output)


def test_what_comes_later_is_not_judged() -> None:
    """Another task's result, and a store that only workers have, pass at parse time."""
    with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        asked = to_stage(task_id="asked")
        operator = to_spark(
            topic=asked.output,
            initial_replay=asked.output,
            table=asked.output,
            table_format="delta",
            current_state=asked.output["records"],
            position_store="ours.stores.Redis",
        )
    assert operator.position_store == "ours.stores.Redis"


@pytest.mark.parametrize(
    ("bound", "value"),
    [
        ("max_events", 0),
        ("max_events", -1),
        ("max_events", 10**12),
        ("max_events", 1.5),
        ("max_events", True),
        ("max_events", "100"),
        ("max_bytes", 0),
        ("max_bytes", 1 << 60),
        ("max_seconds", 0),
        ("max_seconds", float("nan")),
        ("max_seconds", float("inf")),
        ("max_seconds", 10**8),
        ("idle_seconds", 0),
        ("idle_seconds", -30),
    ],
)
@pytest.mark.parametrize("kind", [SfEventsToSparkOperator, SfEventsFetchOperator])
def test_bounds_that_cannot_be_are_refused_when_the_dag_is_parsed(
    kind: type[Any], bound: str, value: object
) -> None:
    """A wrong bound is refused at parse time with its name, value and range."""
    table = {"table": "s3a://lake"} if kind is SfEventsToSparkOperator else {}
    with pytest.raises(ConfigurationError, match=rf"{bound} is .*\. Give ") as raised:
        kind(task_id="land", topic="/event/Order__e", **table, **{bound: value})
    assert repr(value) in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table": None}, "table is missing"),
        ({"table": ""}, "table is missing"),
        ({"table_format": "csv"}, "table_format='csv' is not known; give 'parquet', 'delta' or"),
        ({"table": "lake.shop"}, "reads like a name in a catalog, and Parquet tables are in no"),
        ({"table_format": "delta", "table": "s3:lake"}, "neither a URL .* nor a name in a catalog"),
        ({"cluster_by": "event_date"}, "cluster_by=.*plain files"),
        ({"partition_by": "none"}, "partition_by='none' is not possible.*give 'event_date'"),
        ({"on_type_change": "drop"}, "on_type_change='drop' is not known; give new_column or"),
        ({"decimals": {"Amount__c": "money"}}, "decimals gives Amount__c the type 'money'"),
        ({"max_quarantined": -1}, "max_quarantined=-1 is below 0"),
        ({"keep_for": 60}, "keep_for=60 is no length of time; give a timedelta"),
        ({"keep_for": timedelta(-1)}, "keep_for=.* is no length of time"),
    ],
)
def test_where_to_land_is_checked_when_the_dag_is_parsed(
    arguments: dict[str, Any], said: str
) -> None:
    """A missing table, an unknown format or a negative count is refused at parse time."""
    with pytest.raises(ConfigurationError, match=said):
        to_spark(**arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"position_store": "managed"}, "needs managed_subscription"),
        ({"managed_subscription": "Orders"}, "is used with position_store='managed' only"),
        (
            {
                "position_store": "managed",
                "managed_subscription": "Orders",
                "initial_replay": "latest",
            },
            "initial_replay='latest' cannot be used",
        ),
    ],
    ids=["no subscription", "no store", "a start of one's own"],
)
def test_a_managed_subscription_is_checked_when_the_dag_is_parsed(
    arguments: dict[str, Any], said: str
) -> None:
    """An argument that contradicts a managed subscription is refused at parse time."""
    with pytest.raises(ConfigurationError, match=said):
        to_spark(**arguments)
    to_spark(position_store="managed", managed_subscription="{{ params.subscription }}")


def test_an_application_of_ones_own_needs_no_table() -> None:
    """A user's own application needs no table."""
    assert to_spark(table=None, application="job.py").table is None


def test_other_bounds_are_taken() -> None:
    """Small, large and timed bounds are kept unchanged."""
    until = datetime(2026, 1, 31, tzinfo=timezone(timedelta(hours=2)))
    operator = to_spark(
        max_events=1, max_bytes=1 << 30, idle_seconds=0.1, max_seconds=86_400, until=until
    )
    assert (operator.max_events, operator.max_bytes) == (1, 1 << 30)
    assert (operator.idle_seconds, operator.max_seconds, operator.until) == (0.1, 86_400, until)


def test_airflow_shows_what_is_wrong_as_an_import_error(tmp_path: Path) -> None:
    """A wrong argument is an import error of the DAG, with the message."""
    from airflow.dag_processing.dagbag import DagBag

    dag = tmp_path / "broken.py"
    dag.write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_sfevents.operators.chain import SfEventsFetchOperator\n"
        "with DAG('broken', schedule=None):\n"
        "    SfEventsFetchOperator(task_id='fetch', topic='/event/Order__e', max_events=0)\n"
    )
    bag = DagBag(dag_folder=str(dag))
    assert bag.dags == {}
    [shown] = bag.import_errors.values()
    assert "max_events is 0. Give a whole number from 1 to" in shown
