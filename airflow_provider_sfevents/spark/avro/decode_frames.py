"""Decode staged rows in the executors' Python: DataFrames of decoded and of undecodable rows."""

from __future__ import annotations

import json
import logging
import os
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider_sfevents.spark.avro import executor_tasks
from airflow_provider_sfevents.spark.avro.decoder_needs import (
    ACCELERATOR,
    DRIVER_NEEDS,
    EXECUTORS_NEED,
    PACKAGE,
    check_needs,
)
from airflow_provider_sfevents.spark.avro.executor_decoder import is_this_python, lacking
from airflow_provider_sfevents.spark.remote import is_remote
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

ASKED_FOR = (PACKAGE, *EXECUTORS_NEED, ACCELERATOR)
"""Modules that an executor's Python is asked for."""
_KNOWN: WeakKeyDictionary[SparkSession, tuple[str, list[str]]] = WeakKeyDictionary()


def has_accelerator(spark: SparkSession) -> bool:
    """Check that the executors' Python can decode; return whether it has the accelerator.

    Called once for each batch; the log names the decoder.

    :raises ConfigurationError: a module that decoding needs is missing; the message has the remedy.
    """
    python, executors_lack = _looked(spark)
    check_needs(driver_lacks=lacking(DRIVER_NEEDS), executors_lack=executors_lack, python=python)
    accelerated = ACCELERATOR not in executors_lack
    if accelerated:
        logger.info(
            "Decoding with %s; fastavro decodes the events that it cannot verify.", ACCELERATOR
        )
    else:
        logger.info(
            "Decoding with fastavro, event by event: the executors' Python (%s) has no %s, which "
            "is many times faster. The extra `accelerator` of this package brings it.",
            python,
            ACCELERATOR,
        )
    return accelerated


def remember_python(spark: SparkSession, python: str, lacking: Sequence[str]) -> None:
    """Keep what a session's executors lack of `ASKED_FOR`, so that they are not asked again."""
    _KNOWN[spark] = python, [name for name in lacking if name in ASKED_FOR]


def decoded(rows: DataFrame, task: executor_tasks.Task) -> DataFrame:
    """Decode rows of the task's one event type; undecodable rows are left out.

    :param rows: as staged.
    :returns: the leading columns, those of the event type, and the raw payload on request.
    """
    (kind,) = task.types
    columns = [f"{quoted(column.name)} {column.type.sql()}" for column in kind.columns]
    raw = [f"{envelope.RAW_PAYLOAD} binary"] if task.keep_payload else []
    sql = ", ".join([executor_tasks.LEADING_SQL, *columns, *raw])
    return rows.mapInArrow(partial(executor_tasks.decoded, task), sql)


def undecodable(rows: DataFrame, task: executor_tasks.Task) -> DataFrame:
    """Keep only rows that cannot be decoded, each with its raw payload and the reason.

    :param rows: as staged, of any schema of the task.
    """
    return rows.mapInArrow(partial(executor_tasks.undecodable, task), executor_tasks.QUARANTINE_SQL)


def _looked(spark: SparkSession) -> tuple[str, list[str]]:
    """Return the path of an executor's Python, and its missing modules.

    One executor is asked, without Arrow, as that may be missing. It is not asked if it is this very
    Python, because the start of another one takes longer than a second.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    if (known := _KNOWN.get(spark)) is not None:
        return known
    names = ASKED_FOR

    # A nested function is pickled by value; others would be imported from this package, which may
    # be missing there.
    def look(_: object) -> str:
        import json
        import sys
        from importlib.util import find_spec

        return json.dumps([sys.executable, [one for one in names if find_spec(one) is None]])

    local = not is_remote(spark) and str(spark.conf.get("spark.master", "")).startswith("local")
    if local and is_this_python(os.environ.get("PYSPARK_PYTHON", "python3")):
        said = look(None)
    else:
        [row] = spark.range(1).select(F.udf(look, "string", useArrow=False)("id")).collect()
        said = str(row[0])
    python, missing = json.loads(said)
    return python, missing
