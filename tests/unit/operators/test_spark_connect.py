"""A task with a connection of type `spark_connect`: arguments, setting and address."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.operators import spark_connect
from airflow_provider_sfevents.operators.maintain import SfEventsMaintainOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

SECONDS = "AIRFLOW__SFEVENTS__SPARK_CONNECT_CHECK_SECONDS"


def task(**arguments: Any) -> SfEventsToSparkOperator:
    known = {"task_id": "land", "topic": "/event/Order__e", "table": "/lake"}
    return SfEventsToSparkOperator(**{**known, **arguments})


def test_a_task_without_arguments_for_spark_submit_is_accepted() -> None:
    """The operators' defaults, `conf` and `name` are accepted with a Spark Connect connection."""
    spark_connect.check_arguments(task(conf={"spark.sql.ansi.enabled": "true"}, name="orders"))
    upkeep = SfEventsMaintainOperator(task_id="upkeep", table="/lake", table_format="delta")
    spark_connect.check_arguments(upkeep)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("application", "/jobs/mine.py"),
        ("archives", "env.tar.gz#env"),
        ("deploy_mode", "client"),
        ("driver_memory", "2g"),
        ("env_vars", {"A": "1"}),
        ("executor_cores", 2),
        ("executor_memory", "2g"),
        ("files", "a.txt"),
        ("jars", "a.jar"),
        ("num_executors", 4),
        ("packages", "io.delta:delta-spark_4.1_2.13:4.4.0"),
        ("properties_file", "spark.conf"),
        ("proxy_user", "etl"),
        ("py_files", "a.zip"),
        ("repositories", "https://repo"),
        ("spark_binary", "spark-submit"),
        ("total_executor_cores", 4),
    ],
)
def test_an_argument_of_spark_submit_is_refused_by_name(name: str, value: object) -> None:
    """Each argument for a process or cluster of the job's own is refused."""
    with pytest.raises(ConfigurationError, match=rf"^{name}: only spark-submit takes these, .*'x'"):
        spark_connect.check_arguments(task(**{name: value}, spark_conn_id="x"))


def test_all_refused_arguments_are_in_one_error() -> None:
    """One error has them all."""
    assert spark_connect.refused_arguments(task(jars="a.jar", num_executors=1)) == [
        "jars",
        "num_executors",
    ]


def test_the_time_for_checks_is_ten_seconds_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting changes it."""
    monkeypatch.delenv(SECONDS, raising=False)
    assert spark_connect.check_seconds() == 10.0
    monkeypatch.setenv(SECONDS, "45.5")
    assert spark_connect.check_seconds() == 45.5


@pytest.mark.parametrize("given", ["0", "-1", "soon", "inf", "nan", ""])
def test_a_time_for_checks_that_is_none_is_refused(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the setting and the value."""
    monkeypatch.setenv(SECONDS, given)
    with pytest.raises(ConfigurationError, match=rf"^\[sfevents\] spark_con.*seconds = {given} is"):
        spark_connect.check_seconds()


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    connection = json.dumps({"conn_type": "spark_connect", **fields})
    monkeypatch.setenv("AIRFLOW_CONN_SERVER", connection)


def test_the_address_has_port_user_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is that of Airflow's own hook."""
    connect(monkeypatch, host="sc://spark", port=15002, login="me", password="hidden")
    assert spark_connect.server_url("server") == "sc://spark:15002/;user_id=me;token=hidden"


@pytest.mark.parametrize("fields", [{}, {"host": "sc://spark/path"}])
def test_a_connection_without_a_server_is_refused(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the connection and what its host is."""
    connect(monkeypatch, **fields)
    with pytest.raises(ConfigurationError, match=r"'server' cannot be used: .*host is sc://<host>"):
        spark_connect.server_url("server")
