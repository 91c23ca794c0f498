"""Spark sessions for tables: the settings that results depend on, and the formats' jars.

1. In a classic session the tables get a session of their own, a clone of the given one, so that a
   user's own session keeps its settings.
2. A session of Spark Connect is one client's own on the server. Its settings are changed in place:
   on the server each further session would hold memory and start a Python of its own.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.remote import is_remote
from airflow_provider_sfevents.spark.tables import naming

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

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
    # Texts in a statement are values, whatever is in them.
    "spark.sql.variable.substitute": "false",
    # Other readers fail at the default, INT96, or change values, before 1677 and after 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    **{f"spark.sql.parquet.{mode}": "CORRECTED" for mode in _REBASED},
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""Settings of every session that writes, so that no default of the cluster changes a result."""

_DEPRECATED = {"spark.sql.parser.escapedStringLiterals": "false"}
"""Defaults that a session needs too; set only where they differ, since Spark warns of setting them.
"""


READING: Mapping[str, str] = {
    "spark.sql.files.openCostInBytes": "65536",  # with many small files
    # Tasks that list the folders of a batch with many event types; a task takes many folders.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    # ICU takes a second to start, and hexadecimal digits do not need it.
    "spark.sql.icu.caseMappings.enabled": "false",
    # The splits of a batch are read by the same code, which Java then compiles once.
    "spark.sql.codegen.useIdInClassName": "false",
    # Java does not compile longer methods, and code for a whole stage has one for a row of a MERGE
    # of 33 columns; without it the methods are short.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 1024 * 1024),
    # Spark holds as many rows of each column; 4096 of 100 kB, its default, need 400 MB.
    "spark.sql.parquet.columnarReaderBatchSize": "512",
}
"""Settings of every session that writes: for the speed and the memory of reading and decoding."""

FEW_ROWS = 20_000
"""Rows of a batch for which Spark's plans are made as small as can be."""

_FEW_ROWS_PLANS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Spark generates, formats and compiles code for each task: a third of the time of few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

_NO_CLASS = "Cannot find catalog plugin class"
"""Part of Spark's message if the class of a catalog is on no class path."""


def own_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Open a session for landing, with the given session's settings and these."""
    return reading_session(spark, {**SETTLED, **READING, **settings})


def reading_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Open a session for a user's own reading, with the given session's settings and these."""
    session = spark if is_remote(spark) else _clone(spark)
    settle(session, settings)
    return session


def _clone(spark: SparkSession) -> SparkSession:
    """Make a session with the same settings, which PySpark has for Spark Connect alone."""
    java: Any = spark._jsparkSession  # noqa: SLF001 - the only way to Java
    return type(spark)(spark.sparkContext, jsparkSession=java.cloneSession())


@contextmanager
def few_rows(session: SparkSession, *, few: bool = True) -> Iterator[None]:
    """Plan for few rows within the block, if there are few.

    Adaptive planning takes longer than the stages, a broadcast is a job of its own, and compiling
    code takes many times as long as interpreting some rows. With many rows, such as those of a
    table into which few are merged, such plans are slow.
    """
    before = _in_effect(session, _FEW_ROWS_PLANS) if few else {}
    if before in ({}, _FEW_ROWS_PLANS):
        # Another block has set them, and sets them back.
        yield
        return
    _set_all(session, _FEW_ROWS_PLANS)
    try:
        yield
    except BaseException:
        # An error of the block comes first: a server that is gone takes no settings either.
        with suppress(Exception):
            _set_all(session, before)
        raise
    _set_all(session, before)


def settings_of(session: SparkSession) -> dict[str, str]:
    """Read all settings of a session in few calls; PySpark needs two to Java for each of them."""
    if is_remote(session):
        return dict(session.conf.getAll)
    # A copy: entries of Scala's own map do not tell what they hold.
    copied = _java(session, "java.util.HashMap")(session.conf._jconf.getAllAsJava())  # noqa: SLF001
    join = _java(session, "org.apache.commons.lang3.StringUtils").join
    entries = str(join(copied.entrySet(), _SEPARATOR)).split(_SEPARATOR)
    return {key: value for key, _, value in (entry.partition("=") for entry in entries)}


def _in_effect(session: SparkSession, keys: Collection[str]) -> dict[str, str]:
    """Read settings that are set or have a default; `settings_of` leaves defaults out."""
    if not is_remote(session):
        return {key: str(session.conf.get(key)) for key in keys}
    client: Any = session.client
    return dict(zip(keys, client.get_configs(*keys), strict=True))  # one call for all of them


def settle(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set these values and read them back, because a cluster may fix or ignore a setting.

    :raises ConfigurationError: a setting has another value afterwards.
    """
    _set_all(session, settings)
    there = settings_of(session)
    wanted = {key: value for key, value in _DEPRECATED.items() if key in there}
    if not wanted.items() <= there.items():
        _set_all(session, wanted)
        there = settings_of(session)
    check_settled({**settings, **wanted}, there)


def _set_all(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set values in few calls, whatever their number; those that are fixed keep theirs."""
    if is_remote(session):
        conf: Any = session.conf
        with warnings.catch_warnings():
            # A refused setting is a warning here; the error below names it.
            warnings.simplefilter("ignore")
            conf._set_all(dict(settings), silent=True)  # noqa: SLF001 - one call for all of them
        return
    lines = (f"{_escaped(key)}={_escaped(value)}" for key, value in settings.items())
    values = _java(session, "java.util.Properties")()
    values.load(_java(session, "java.io.StringReader")("\n".join(lines)))
    copied = _java(session, "java.util.HashMap")(values)
    module = getattr(_java(session, "org.apache.spark.sql.classic.SparkSession$"), "MODULE$")
    module.applyModifiableSettings(session._jsparkSession, copied)  # noqa: SLF001


def _escaped(text: str) -> str:
    """Spell a key or a value for Java's properties, in which everything else means itself."""
    return "".join(one if one.isascii() and one.isalnum() else f"\\u{ord(one):04x}" for one in text)


def _java(session: SparkSession, name: str) -> Any:
    """A class of Java by its full name; looked up part by part it costs a call for each part."""
    from py4j.java_gateway import JavaClass

    return JavaClass(name, session._jvm._gateway_client)  # noqa: SLF001 - the only way to Java


def check_settled(settings: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Check that settings have the values that were set.

    :raises ConfigurationError: a setting has another value than the one that was set.
    """
    for key, value in settings.items():
        if found.get(key) != value:
            raise ConfigurationError(
                f"This Spark has {key}={found.get(key)!r} and does not change it, but a "
                f"landing needs {value!r}; nothing was written. Remove the "
                "setting from the cluster's policy, or land on another cluster."
            )


def namespace_exists(session: SparkSession, namespace: str, table_format: str) -> bool:
    """Tell whether a catalog has a namespace; for this, Spark loads the catalog's class.

    :param namespace: quoted, with its catalog.
    :raises ConfigurationError: Spark does not have the format's jar.
    """
    try:
        return bool(session.catalog.databaseExists(namespace))
    except Exception as error:
        if _NO_CLASS not in str(error):
            raise
        remedy = (
            "Start the Spark Connect server with it: --packages"
            if is_remote(session)
            else "Give packages= to the operator (spark-submit --packages):"
        )
        raise ConfigurationError(
            f"table_format={table_format!r} needs a jar that this Spark does not have; nothing was "
            f"written. {remedy} {naming.JARS[table_format]}, or put the jar and what it depends on "
            "into jars=."
        ) from error


def extended(extensions: str, wanted: str) -> str:
    """Add an extension to Spark's extensions unless it is among them."""
    names = [name.strip() for name in extensions.split(",") if name.strip()]
    return ",".join(names if wanted in names else [*names, wanted])
