"""Environment of a Spark that a test starts."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def environment() -> dict[str, str]:
    """Environment variables of `spark-submit`: Java 17 or 21, the tests' Python, loopback only."""
    from airflow_provider_sfevents.exceptions import ConfigurationError
    from airflow_provider_sfevents.submit.java import find_java

    found = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with suppress(ConfigurationError):  # without a Java the tests that need one fail
        found["JAVA_HOME"] = find_java().home
    return found


@contextmanager
def jvm_of_its_own() -> Iterator[None]:
    """Give the Spark session of this block its own JVM, with its own options.

    PySpark has one JVM in each process, and a second session only gets the options of the first.
    The first session's JVM continues unchanged after the block.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    of_context = ("_gateway", "_jvm", "_active_spark_context")
    places = [(SparkContext, name) for name in of_context]
    places += [(SparkSession, name) for name in ("_instantiatedSession", "_activeSession")]
    before = [getattr(owner, name) for owner, name in places]
    for owner, name in places:
        setattr(owner, name, None)
    try:
        yield
    finally:
        gateway = SparkContext._gateway
        for (owner, name), value in zip(places, before, strict=True):
            setattr(owner, name, value)
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(60)
