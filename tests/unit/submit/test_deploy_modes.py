"""Ways of submitting that are refused, and the errors."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.submit.deploy_modes import (
    Way,
    deploy_mode,
    drivers_python,
    master_addresses,
    unresolved_jars,
)

STANDALONE: dict[str, Any] = {"master": "spark://m:7077", "deploy_mode": "cluster"}
YARN: dict[str, Any] = {"master": "yarn", "deploy_mode": "cluster"}


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (STANDALONE, "runs no Python drivers. Give deploy_mode='client'"),
        (STANDALONE | {"application": "s3a://jobs/mine.py"}, "runs no Python drivers"),
        (
            STANDALONE | {"application": "mine.jar", "env_vars": {"B": "b", "A": "a"}},
            r"env_vars \(A, B\) reach no driver",
        ),
        (YARN, "yarn_track_via_rm_api=True.*yarn_resourcemanager_webapp_address.*durable=False"),
        ({"master": "spark://m"}, "spark://m is not the address of a Spark master"),
        ({"master": "spark://m:7077,n"}, "is not the address of a Spark master"),
    ],
)
def test_refused(way: dict[str, Any], said: str) -> None:
    """A way that cannot work is one error that names the remedy."""
    with pytest.raises(ConfigurationError, match=said) as raised:
        Way(**way).check()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "way",
    [
        {"master": "local[2]"},
        {"master": "spark://m:7077"},
        {"master": "spark://m:7077", "deploy_mode": "client", "env_vars": {"A": "a"}},
        STANDALONE | {"application": "mine.jar"},
        {"master": "yarn"},
        YARN | {"durable": False},
        YARN | {"yarn_track_via_rm_api": True},
        {"master": "k8s://https://k:443", "deploy_mode": "cluster", "env_vars": {"A": "a"}},
    ],
)
def test_not_refused(way: dict[str, Any]) -> None:
    """Ways that Spark and Airflow support pass."""
    Way(**way).check()


@pytest.mark.parametrize(
    ("master", "exposed"),
    [
        ("yarn", ("API_TOKEN", "AWS_SECRET_ACCESS_KEY")),
        ("k8s://https://k:443", ("API_TOKEN", "AWS_SECRET_ACCESS_KEY")),
        ("spark://m:7077", ()),
        ("local[2]", ()),
    ],
)
def test_secrets_that_would_stand_on_a_command_line(master: str, exposed: tuple[str, ...]) -> None:
    """Secrets in `env_vars` are named on YARN and Kubernetes, where they become settings."""
    names = dict.fromkeys(("AWS_SECRET_ACCESS_KEY", "API_TOKEN", "AWS_REGION"), "x")
    assert Way(master=master, env_vars=names).exposed() == exposed


@pytest.mark.parametrize(
    ("connection", "conf", "expected"),
    [
        (None, {}, None),
        ("client", {"spark.submit.deployMode": "cluster"}, "client"),
        (None, {"spark.submit.deployMode": "cluster"}, "cluster"),
    ],
)
def test_the_deploy_mode_that_counts(
    connection: str | None, conf: dict[str, object], expected: str | None
) -> None:
    """The connection's deploy mode comes before the one in `conf`, as in `spark-submit`."""
    assert deploy_mode(connection, conf) == expected


def test_addresses_of_masters() -> None:
    """The URL of a standalone cluster has one or several hosts, by name or number."""
    assert master_addresses("spark://m:7077") == (("m", 7077),)
    assert master_addresses("spark://a:1,[::1]:2") == (("a", 1), ("::1", 2))


@pytest.mark.parametrize(
    ("conf", "python", "added"),
    [
        ({}, "/p", {}),
        ({"spark.pyspark.python": "/e"}, "/p", {"spark.pyspark.driver.python": "/p"}),
        ({"spark.pyspark.python": "/e"}, "", {}),
        ({"spark.pyspark.python": "/e", "spark.pyspark.driver.python": "/d"}, "/p", {}),
    ],
)
def test_the_executors_python_is_not_the_drivers(
    conf: dict[str, object], python: str, added: dict[str, str]
) -> None:
    """A Python for the executors alone is not used for the driver."""
    assert drivers_python(conf, python) == added


# The last lines of Spark 4.1.1, for jars that no repository has and for jars whose download failed.
UNRESOLVED = """Last spark-submit output:
:: USE VERBOSE OR DEBUG MESSAGE LEVEL FOR MORE DETAILS
Exception in thread "main" java.lang.RuntimeException: \
[unresolved dependency: org.example#missing;1.0: not found]
\tat org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:539)
\tat org.apache.spark.util.DependencyUtils$.resolveMavenDependencies(DependencyUtils.scala:122)
"""
FAILED = UNRESOLVED.replace(
    "unresolved dependency: org.example#missing;1.0: not found",
    "download failed: org.slf4j#slf4j-api;2.0.7!slf4j-api.jar, "
    "download failed: org.xerial.snappy#snappy-java;1.1.10.3!snappy-java.jar(bundle)",
)


@pytest.mark.parametrize(
    ("output", "jars"),
    [
        (UNRESOLVED, "org.example:missing:1.0"),
        (FAILED, "org.slf4j:slf4j-api:2.0.7, org.xerial.snappy:snappy-java:1.1.10.3"),
    ],
)
def test_jars_that_cannot_be_fetched_are_named(output: str, jars: str) -> None:
    """One sentence names missing jars as `packages` does, and the remedies."""
    told = unresolved_jars(output)
    assert told.startswith(f"Spark could not fetch {jars}, which `packages` asks for.")
    assert "`repositories`" in told
    assert "`jars`" in told
    assert "\n" not in told


def test_other_ends_of_spark_stay_as_they_are() -> None:
    """Another failure of a job keeps its own error."""
    assert unresolved_jars("java.lang.RuntimeException: [a] no such table") == ""
