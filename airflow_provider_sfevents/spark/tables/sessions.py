"""Spark sessions for tables: the settings that results depend on, and the formats' jars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

EXTENSIONS = "spark.sql.extensions"
CATALOGS = "spark.sql.catalog."

_SEPARATOR = "\x1f"

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


FEW_ROWS = 20_000
"""Rows of a batch for which Spark's plans are made as small as can be."""


def own_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Make a session for landing, with the given session's catalogs and these settings."""
    quick = {"spark.sql.files.openCostInBytes": "65536"}  # with many small files
    return _made(spark, CATALOGS, {**SETTLED, **quick, **settings})


def reading_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Make a session for a user's own reading, with the given session's settings and these."""
    return _made(spark, "spark.sql.", settings)


def _made(spark: SparkSession, copied: str, settings: Mapping[str, str]) -> SparkSession:
    session = spark.newSession()
    found = {key: value for key, value in settings_of(spark).items() if key.startswith(copied)}
    # What Spark was started with every session has, and none can set. Of catalogs' keys Spark knows
    # too little to say so.
    kept = {
        key: value
        for key, value in found.items()
        if key.startswith(CATALOGS) or spark.conf.isModifiable(key)
    }
    for key, value in kept.items():
        session.conf.set(key, value)
    settle(session, settings)
    return session


def few_rows(session: SparkSession, rows: int) -> None:
    """Plan for few rows if the batch has few: adaptive planning takes longer than its stages."""
    if rows <= FEW_ROWS:
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.shuffle.partitions", "2")


def few_rows_merge(session: SparkSession, rows: int) -> None:
    """Let a MERGE of few rows be one job: a broadcast would be a job of its own."""
    if rows <= FEW_ROWS:
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")


def settings_of(session: SparkSession) -> dict[str, str]:
    """Read all settings of a session in a few calls to Java; PySpark needs two for each of them."""
    java: Any = session._jvm  # noqa: SLF001 - the only way to Java
    # A copy: entries of Scala's own map do not tell what they hold.
    found = java.java.util.HashMap(session.conf._jconf.getAllAsJava()).entrySet()  # noqa: SLF001
    join = java.org.apache.commons.lang3.StringUtils.join
    entries = str(join(found, _SEPARATOR)).split(_SEPARATOR)
    return {key: value for key, _, value in (entry.partition("=") for entry in entries)}


def settle(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set these values and read them back, because a cluster may fix or ignore a setting.

    :raises ConfigurationError: a setting has another value afterwards.
    """
    for key, value in settings.items():
        session.conf.set(key, value)
    check_settled(settings, settings_of(session))


def check_settled(settings: Mapping[str, str], found: Mapping[str, str]) -> None:
    """:raises ConfigurationError: a setting has another value than the one that was set."""
    for key, value in settings.items():
        if found.get(key) != value:
            raise ConfigurationError(
                f"This Spark has {key}={found.get(key)!r} and does not change it, but a "
                f"landing needs {value!r}; nothing was written. Remove the "
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
            f"table_format={table_format!r} needs a jar that this Spark does not have; "
            f"nothing was written. Give packages="
            f"'{coordinates}' to the operator (spark-submit --packages), or put the jar and "
            f"what it depends on into jars=."
        ) from error


def extended(extensions: str, wanted: str) -> str:
    """Add an extension to Spark's extensions unless it is among them."""
    names = [name.strip() for name in extensions.split(",") if name.strip()]
    return ",".join(names if wanted in names else [*names, wanted])
