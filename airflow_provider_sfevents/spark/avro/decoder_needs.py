"""Modules that decoding needs in the driver's and the executors' Python. No I/O, no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

ACCELERATOR = "pyruhvro"
"""Optional decoder, many times faster than fastavro."""
PACKAGE = "airflow_provider_sfevents"
DRIVER_NEEDS = ("pandas", "pyarrow")
"""PySpark itself needs both for Arrow."""
EXECUTORS_NEED = ("fastavro", "numpy", "pyarrow")


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
    missing = wheels_missing(python, {*EXECUTORS_NEED} & {*executors_lack})
    if missing:
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
