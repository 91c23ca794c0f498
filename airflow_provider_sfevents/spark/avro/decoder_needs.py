"""Modules that decoding needs in the driver's and the executors' Python."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.remote import is_remote

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

ACCELERATOR = "pyruhvro"
"""Optional decoder, many times faster than fastavro."""
PACKAGE = "airflow_provider_sfevents"
DRIVER_NEEDS = ("pandas", "pyarrow")
"""PySpark itself needs both for Arrow."""
EXECUTORS_NEED = ("fastavro", "numpy", "pyarrow")
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


def check_needs(
    *, driver_lacks: Collection[str], executors_lack: Collection[str], python: str
) -> None:
    """Refuse a Spark that cannot decode, before an event is read.

    :param driver_lacks: modules of `DRIVER_NEEDS`.
    :param executors_lack: modules of `EXECUTORS_NEED`, and this package.
    :param python: path of the executors' Python.
    :raises ConfigurationError: a module is missing; the message has the remedy.
    """
    if driver_lacks:
        raise ConfigurationError(
            f"The driver's Python has no {' and no '.join(driver_lacks)}. Install them where "
            "spark-submit runs; in cluster mode, in the image or environment that the driver gets "
            "(docs/how-to/clusters.md)."
        )
    if PACKAGE in executors_lack:
        raise ConfigurationError(
            f"The executors' Python ({python}) has no {PACKAGE}. Pass it along with --py-files: "
            f"{PACKAGE}.submit.packaging.py_files(folder) makes the zip."
        )
    if missing := wheels_missing(python, {*EXECUTORS_NEED} & {*executors_lack}):
        raise ConfigurationError(missing)


def wheels_missing(python: str, names: Collection[str]) -> str:
    """Return the error for missing modules of the executors' Python; empty if none is missing."""
    if not names:
        return ""
    return (
        f"The executors' Python ({python}) has no {' and no '.join(sorted(names))}. --py-files "
        "cannot ship compiled wheels: install them on every node (in the image, in the cluster's "
        "environment), or ship an environment that has them with spark.archives and "
        "PYSPARK_PYTHON (docs/how-to/clusters.md)."
    )


def is_this_python(named: str) -> bool:
    """Return whether a name or path stands for this process's interpreter and environment.

    The Python of an environment is a link to one that other environments have, too, so the folder
    counts.
    """
    found = shutil.which(named)
    if not found or not sys.executable:
        return False
    ours, there = Path(sys.executable).absolute(), Path(found).absolute()
    return there.parent == ours.parent and there.samefile(ours)


def lacking(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of the modules that this Python does not have."""
    return tuple(name for name in names if find_spec(name) is None)


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
        [[said]] = spark.range(1).select(F.udf(look, "string", useArrow=False)("id")).collect()
    python, missing = json.loads(said)
    return python, missing
