"""Checks of a Spark Connect server: decisions on versions, Python, settings and time."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.submit import connect_checks
from airflow_provider_sfevents.submit.connect_checks import Checks, ServerPython
from airflow_provider_sfevents.submit.connect_session import ConnectSession

URL = "sc://spark:15002"


class Settings:
    """Settings of a session, some of which are the server's own."""

    def __init__(self, *fixed: str) -> None:
        self._fixed = fixed
        self.set_to: dict[str, str] = {"spark.sql.redaction.options.regex": "(?i)url"}

    def get(self, key: str, default: str) -> str:
        return self.set_to.get(key, default)

    def set(self, key: str, value: str) -> None:
        if key in self._fixed:
            raise PySparkException(f'[CANNOT_MODIFY_STATIC_CONFIG] Cannot modify "{key}".')
        if value == "wrong":
            raise PySparkException(f"[INVALID_CONF_VALUE] The value '{value}' in \"{key}\" is bad.")
        self.set_to[key] = value


def settle(settings: Settings, **conf: str) -> None:
    spark = SimpleNamespace(conf=settings)
    connect_checks.settle(spark, {key.replace("_", "."): value for key, value in conf.items()})


@pytest.mark.parametrize("server", ["4.1.1", "4.1.7", "4.1.1-amzn-0"])
def test_one_minor_version_of_spark_is_enough(server: str) -> None:
    """Client and server may differ in the patch version."""
    connect_checks.check_spark_version("4.1.1", server, URL)


@pytest.mark.parametrize("server", ["4.0.1", "3.5.6", "4.2.0", "5.1.1", "4.10.0"])
def test_another_minor_version_of_spark_is_refused(server: str) -> None:
    """The error has both versions and the remedy."""
    with pytest.raises(ConfigurationError, match=rf"runs Spark {server}.*has pyspark 4\.1\.1\. "):
        connect_checks.check_spark_version("4.1.1", server, URL)


def test_the_servers_python_has_the_workers_minor_version() -> None:
    """The error has both versions."""
    found = ServerPython(version="3.12", has_package=True, missing=())
    connect_checks.check_python("3.12", found, URL)
    with pytest.raises(ConfigurationError, match=r"\(3\.12 there, 3\.11 here\)"):
        connect_checks.check_python("3.11", found, URL)


def test_packages_that_the_servers_python_lacks_are_named() -> None:
    """The error names all packages, with the command that installs them."""
    found = ServerPython(version="3.11", has_package=False, missing=("fastavro", "pyarrow", "x"))
    with pytest.raises(ConfigurationError, match=r"has no fastavro, pyarrow.*pip install fastavro"):
        connect_checks.check_python("3.11", found, URL)


def test_modules_are_not_sent_to_a_python_of_all_sessions() -> None:
    """A server without isolation needs the worker's package; the error has both remedies."""
    known: dict[str, Any] = {"version": "3.11", "missing": (), "path": "/opt/python"}
    for isolated in (
        ServerPython(has_package=False, is_shared=False, **known),
        ServerPython(has_package=True, is_shared=True, **known),
    ):
        connect_checks.check_python("3.11", isolated, URL)
    shared = ServerPython(has_package=False, is_shared=True, **known)
    with pytest.raises(
        ConfigurationError, match=r"\(/opt/python\) does not have this release.*isolation\.enabled"
    ):
        connect_checks.check_python("3.11", shared, URL)


def test_settings_are_set_and_hidden() -> None:
    """Spark hides the values of the settings on its pages, beside what it hid before."""
    settings = Settings()
    settle(settings, spark_sql_catalog_lake_token="hidden")
    assert settings.set_to["spark.sql.catalog.lake.token"] == "hidden"
    hidden = settings.set_to["spark.sql.redaction.options.regex"]
    assert hidden == r"(?i)url|spark\.sql\.catalog\.lake\.token"


def test_no_settings_cost_no_call() -> None:
    """Without settings the session is not asked."""
    connect_checks.settle(None, {})


def test_the_servers_own_settings_are_refused_by_name() -> None:
    """Fixed settings and Hadoop's are refused together, without their values."""
    settings = Settings("spark.executor.memory")
    with pytest.raises(ConfigurationError) as refused:
        settle(
            settings,
            spark_executor_memory="3g",
            spark_hadoop_key="hidden",
            spark_sql_ansi="true",
        )
    said = str(refused.value)
    assert said.startswith("conf has spark.hadoop.key, spark.executor.memory, which a Spark Con")
    assert ("hidden" in said, "3g" in said, "ansi" in said) == (False, False, False)


def test_a_wrong_value_is_refused_without_the_value() -> None:
    """The error has the setting and Spark's reason; the value may be a secret."""
    with pytest.raises(ConfigurationError, match=r"refuses the value of a\.key in conf: ") as error:
        settle(Settings(), a_key="wrong")
    assert "wrong" not in str(error.value)


def test_a_check_without_an_answer_ends() -> None:
    """The error names the check and the setting for its time; statements are interrupted."""
    interrupted, never = threading.Event(), threading.Event()
    spark = SimpleNamespace(interruptAll=interrupted.set)
    checks = Checks(ConnectSession(spark, URL), 0.05)
    with pytest.raises(TransportError, match=r"has not answered this: its version\. .*_check_sec"):
        checks.run("its version", never.wait)
    never.set()
    assert interrupted.wait(60)


def test_a_checks_result_and_error_are_the_callers() -> None:
    """A check returns its result, and raises its error in the calling thread."""

    def fail() -> Any:
        raise ConfigurationError("it cannot")

    checks = Checks(ConnectSession(None, URL), 60)
    assert checks.run("one", lambda: 1) == 1
    with pytest.raises(ConfigurationError, match="it cannot"):
        checks.run("none", fail)
