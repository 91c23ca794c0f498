"""Spark sessions for tables: the settings that results depend on, and the formats' jars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

EXTENSIONS = "spark.sql.extensions"
CATALOGS = "spark.sql.catalog."

_REBASED = ("datetimeRebaseModeInWrite", "datetimeRebaseModeInRead", "int96RebaseModeInRead")
SETTLED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    # Other readers fail at the default, INT96, or change values, before 1677 and after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    **{f"spark.sql.parquet.{mode}": "CORRECTED" for mode in _REBASED},
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""Settings of every session that writes, so that no default of the cluster changes a result."""


def own_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Make a session for landing: it has the catalogs of the given one, and these settings."""
    quick = {"spark.sql.files.openCostInBytes": "65536"}  # with many small files
    return _made(spark, CATALOGS, {**SETTLED, **quick, **settings})


def reading_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Make a session for a user's own reading: it has all that the given one has, and these settings."""
    return _made(spark, "spark.sql.", settings)


def _made(spark: SparkSession, copied: str, settings: Mapping[str, str]) -> SparkSession:
    session = spark.newSession()
    found = {key: value for key, value in spark.conf.getAll.items() if key.startswith(copied)}
    # What Spark was started with every session has, and none can set. Of catalogs' keys Spark knows too little to say so.
    kept = {
        key: value
        for key, value in found.items()
        if key.startswith(CATALOGS) or spark.conf.isModifiable(key)
    }
    for key, value in kept.items():
        session.conf.set(key, value)
    settle(session, settings)
    return session


def settle(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set what results depend on, and read it back: a cluster may fix a setting, or ignore it.

    :raises ConfigurationError: a setting has another value afterwards.
    """
    for key, value in settings.items():
        session.conf.set(key, value)
        if (found := session.conf.get(key)) != value:
            raise ConfigurationError(
                f"This Spark has {key}={found!r} and does not change it, but a landing needs {value!r}; nothing was written. Remove the "
                "setting from the cluster's policy, or land on another cluster."
            )


def require_class(spark: SparkSession, name: str, table_format: str, coordinates: str) -> None:
    """Make sure that a format's jar is on the classpath.

    :raises ConfigurationError: it is not.
    """
    from py4j.protocol import Py4JJavaError

    # Jars given by --jars and --packages are known to the thread's class loader only.
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001 - the only way to Java
    try:
        loader.loadClass(name)
    except Py4JJavaError as error:
        raise ConfigurationError(
            f"table_format={table_format!r} needs a jar that this Spark does not have; nothing was written. Give packages="
            f"'{coordinates}' to the operator (spark-submit --packages), or put the jar and what it depends on into jars=."
        ) from error


def extended(extensions: str, wanted: str) -> str:
    """Spark's extensions with one more, unless it is among them."""
    names = [name.strip() for name in extensions.split(",") if name.strip()]
    return ",".join(names if wanted in names else [*names, wanted])
