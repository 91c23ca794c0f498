"""Staged rows to decoded rows, or to those that do not decode, by whichever decoder was chosen.

Where `from_avro` decodes, each of the two runs it: rows that prove themselves are decoded in Spark's own processes, the few others
in an executor's Python.
"""

from __future__ import annotations

import logging
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark import envelope, executor
from airflow_provider_sfevents.spark.decoders.choice import (
    ACCELERATOR,
    DRIVER_NEEDS,
    EXECUTORS_NEED,
    LENGTH_LIMIT,
    LIMITS,
    PACKAGE,
    Available,
    Choice,
    checked,
    choose,
)
from airflow_provider_sfevents.spark.decoders.on_executor import is_this_python, lacking
from airflow_provider_sfevents.spark.fieldtypes import quoted
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.decoders.jvm import FromAvro
    from airflow_provider_sfevents.spark.plan import EventType

logger = logging.getLogger(__name__)

# Other classes of that package lie in Spark's own jars, too.
_OF_AVRO = "org.apache.spark.sql.avro.AvroDataToCatalyst"


def chosen(spark: SparkSession, decoder: str = "auto", *, for_python: bool = False) -> Choice:
    """Settle, once for a batch, which decoder decodes it, and log it.

    :param decoder: `auto`, or one that has to be used.
    :param for_python: what is decoded goes to executors' Python anyway.
    :raises ConfigurationError: it cannot be had, or there is none of that name; in one line, with the remedy.
    """
    wanted = checked(decoder)
    looks_at_jvm = wanted == "jvm" or (wanted == "auto" and not for_python)
    python, executors_lack = _looked(spark)
    choice = choose(
        wanted,
        Available(
            spark_avro=looks_at_jvm and _has_spark_avro(spark),
            limited=looks_at_jvm and _is_limited(spark),
            driver_lacks=lacking(DRIVER_NEEDS),
            executors_lack=executors_lack,
            python=python,
        ),
        for_python=for_python,
    )
    logger.info("Decoder: %s (%s).", choice.name, choice.why.rstrip("."))
    return choice


def decoded(rows: DataFrame, task: executor.Task, *, jvm: bool) -> DataFrame:
    """Decode rows of the task's one event type; what does not decode is left out.

    :param rows: as staged.
    :returns: the leading columns, those of the event type, and the raw payload on request.
    """
    (kind,) = task.types
    columns = [f"{quoted(column.name)} {column.type.sql()}" for column in kind.columns]
    raw = [f"{envelope.RAW_PAYLOAD} binary"] if task.keep_payload else []
    sql = ", ".join([executor.LEADING_SQL, *columns, *raw])
    if not jvm:
        return rows.mapInArrow(partial(executor.decoded, task), sql)
    found, others = _split(rows, task, kind)
    doubtful = _union([*(one.doubtful() for one in found), *others])
    with_care = doubtful.mapInArrow(partial(executor.decoded, task), sql)
    return _by_split([*_sure(found, task), with_care], task)


def is_quick(kind: EventType) -> bool:
    """Whether `from_avro` can make all columns of an event type, whichever of its schemas an event has."""
    from airflow_provider_sfevents.spark.decoders import jvm

    return not any(
        jvm.unfit(text, kind.columns_of(schema_id)) for schema_id, text in kind.schemas.items()
    )


def quickly_decoded(rows: DataFrame, task: executor.Task) -> DataFrame:
    """Decode what `from_avro` can prove of the task's one event type (`is_quick`); what else would decode is missing.

    Nothing is decoded twice, no executor's Python is started, and of an event type with one schema no row is sent elsewhere.
    """
    (kind,) = task.types
    found, _ = _split(rows, task, kind)
    sure = _sure(found, task)
    return sure[0] if len(sure) == 1 else _by_split(sure, task)


def undecodable(rows: DataFrame, task: executor.Task, *, jvm: bool) -> DataFrame:
    """Keep the rows that do not decode, each with its raw payload and the reason.

    :param rows: as staged, of any schema of the task.
    """
    judge = partial(executor.undecodable, task)
    if not jvm:
        return rows.mapInArrow(judge, executor.QUARANTINE_SQL)
    from pyspark.sql import functions as F  # noqa: N812

    known = [schema_id for kind in task.types for schema_id in kind.schemas]
    others = rows.where(~F.coalesce(F.col(layout.SCHEMA_ID).isin(known), F.lit(False)))
    doubtful = [others]
    for kind in task.types:
        found, unfit = _split(rows, task, kind)
        doubtful += [*(one.doubtful() for one in found), *unfit]
    return _by_split([_union(doubtful).mapInArrow(judge, executor.QUARANTINE_SQL)], task)


def _split(
    rows: DataFrame, task: executor.Task, kind: EventType
) -> tuple[list[FromAvro], list[DataFrame]]:
    """The staged rows of one event type: by schema those that `from_avro` decodes, and those that it cannot."""
    from pyspark.sql import functions as F  # noqa: N812

    from airflow_provider_sfevents.spark.decoders import jvm

    wanted = rows
    if task.left_out:
        wanted = rows.where(~F.col(layout.ORDINAL).isin(sorted(task.left_out)))
    found: list[FromAvro] = []
    others: list[DataFrame] = []
    for schema_id, text in kind.schemas.items():
        own = wanted.where(F.col(layout.SCHEMA_ID) == schema_id)
        columns = kind.columns_of(schema_id)
        if jvm.unfit(text, columns):
            others.append(own)
        else:
            found.append(jvm.FromAvro(own, text, columns))
    return found, others


def _sure(found: list[FromAvro], task: executor.Task) -> list[DataFrame]:
    return [one.sure(task.first_ordinals, keep_payload=task.keep_payload) for one in found]


def _by_split(frames: list[DataFrame], task: executor.Task) -> DataFrame:
    """Together, and all rows of a split in one task again: it makes one file of those of a date."""
    return _union(frames).repartition(max(len(task.first_ordinals), 1), envelope.SPLIT)


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionAll(other), frames)


def _has_spark_avro(spark: SparkSession) -> bool:
    """Whether `from_avro` is there; its jar may be one of `--jars`, which only the thread's own class loader knows."""
    from py4j.protocol import Py4JJavaError

    jvm = spark._jvm  # noqa: SLF001 - there is no other way to Java
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(_OF_AVRO, False, loader)
    except Py4JJavaError:
        return False
    return True


def _is_limited(spark: SparkSession) -> bool:
    """Whether Avro refuses absurd lengths wherever this session decodes."""
    if not _is_limited_here(spark):
        return False
    if spark.sparkContext.master.startswith("local"):
        return True
    conf = spark.sparkContext.getConf()
    names = ("spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions")
    options = " ".join(conf.get(name, "") for name in names).split()
    return all(f"-D{name}={LENGTH_LIMIT}" in options for name in LIMITS)


def _is_limited_here(spark: SparkSession) -> bool:
    """Whether the driver's own Avro refuses: it read its properties when it was first used, and never again."""
    from py4j.protocol import Py4JError, Py4JJavaError

    limits = spark._jvm.org.apache.avro.SystemLimitException  # noqa: SLF001 - there is no other way to Java
    absurd = LENGTH_LIMIT + 1
    checks: tuple[Callable[[], Any], ...] = (
        lambda: limits.checkMaxStringLength(absurd),
        lambda: limits.checkMaxBytesLength(absurd),
        lambda: limits.checkMaxCollectionLength(0, absurd),
    )
    for check in checks:
        try:
            check()
        except Py4JJavaError:
            continue
        except Py4JError:
            return False  # an Avro that has no limits
        return False
    return True


def _looked(spark: SparkSession) -> tuple[str, tuple[str, ...]]:
    """Path of an executor's Python, and what it lacks.

    One is asked, not through Arrow, which it may lack; unless it is this very Python: to start another takes longer than a second.
    """
    names = (PACKAGE, *EXECUTORS_NEED, ACCELERATOR)

    # A function within one travels as it is; another would be looked for in this package, which may be missing there.
    def look(_: object) -> tuple[str, tuple[str, ...]]:
        import sys
        from importlib.util import find_spec

        return sys.executable, tuple(name for name in names if find_spec(name) is None)

    if spark.sparkContext.master.startswith("local") and is_this_python(
        spark.sparkContext.pythonExec
    ):
        return look(None)
    found: tuple[str, tuple[str, ...]] = spark.sparkContext.parallelize([None], 1).map(look).first()
    return found
