"""Sessions of Spark Connect, which have no Java in reach, told apart from classic ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_remote(spark: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect."""
    from pyspark.sql import SparkSession

    return not isinstance(spark, SparkSession)


def spark_errors() -> tuple[type[Exception], ...]:
    """Exception types that Spark raises for files that it cannot read, in either session."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JJavaError)
