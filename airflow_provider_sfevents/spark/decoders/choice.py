"""Which decoder decodes a batch. No I/O, no Spark.

| decoder  | where it runs                  | needs                                                        |
|----------|--------------------------------|--------------------------------------------------------------|
| `jvm`    | in Spark's own processes       | spark-avro on the classpath, and a limit on Avro's lengths   |
| `arrow`  | in the executors' Python       | the extra `accelerator` there                                |
| `python` | in the executors' Python       | nothing more than landing does                               |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

Wanted = Literal["auto", "jvm", "arrow", "python"]
DECODERS: tuple[Wanted, ...] = get_args(Wanted)
OnExecutor = Literal["arrow", "python"]

ACCELERATOR = "pyruhvro"
PACKAGE = "airflow_provider_sfevents"
DRIVER_NEEDS = ("pandas", "pyarrow")
"""PySpark itself asks for both, wherever Arrow is used."""
EXECUTORS_NEED = ("fastavro", "numpy", "pyarrow")

LENGTH_LIMIT = 16 * 1024 * 1024
"""Bytes of a text, items of a list: sixteen times what a whole event may have."""

LIMITS = tuple(
    f"org.apache.avro.limits.{what}.maxLength" for what in ("string", "bytes", "collectionItems")
)
"""JVM properties. Without them Avro reserves whatever length a corrupt payload claims, up to 2 GB, and the executor dies of it."""

LIMITS_JAVA_OPTIONS = " ".join(f"-D{name}={LENGTH_LIMIT}" for name in LIMITS)
"""For `spark.driver.defaultJavaOptions` and `spark.executor.defaultJavaOptions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """What a Spark session has.

    :param spark_avro: `from_avro` is on the classpath.
    :param limited: Avro's lengths are limited, on the driver and on executors.
    :param driver_lacks: of `DRIVER_NEEDS`.
    :param executors_lack: of this package, `EXECUTORS_NEED` and `ACCELERATOR`.
    :param python: path of the executors' Python.
    """

    spark_avro: bool
    limited: bool
    driver_lacks: tuple[str, ...] = ()
    executors_lack: tuple[str, ...] = ()
    python: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A decoder.

    :param jvm: `from_avro` decodes, and hands over to `on_executor` what it is not sure of.
    :param why: for the log.
    """

    jvm: bool
    on_executor: OnExecutor
    why: str

    @property
    def name(self) -> str:
        return "jvm" if self.jvm else self.on_executor


PYTHON = Choice(jvm=False, on_executor="python", why="needs the least")


def checked(wanted: str) -> Wanted:
    """:raises ConfigurationError: there is no such decoder."""
    if wanted not in DECODERS:
        raise ConfigurationError(
            f"decoder is {wanted!r}; it has to be one of {', '.join(DECODERS)}. auto takes the first that can be had."
        )
    return wanted


def choose(wanted: Wanted, available: Available, *, for_python: bool = False) -> Choice:
    """Pick the decoder, or the first of `jvm`, `arrow`, `python` that can be had.

    :param for_python: what is decoded goes to executors' Python anyway: then `auto` leaves `jvm` out, which would only add a way there.
    :raises ConfigurationError: the one that is wanted cannot be had, or none can; the message says what it needs.
    """
    _check_needs(available)
    if wanted == "python":
        return Choice(jvm=False, on_executor="python", why="as configured")
    no_jvm, no_arrow = _no_jvm(available), _no_arrow(available)
    if wanted == "arrow" and no_arrow:
        raise ConfigurationError(
            f"decoder='arrow' cannot be had: {no_arrow} It comes with the extra `accelerator` of this package."
        )
    if wanted == "jvm" and no_jvm:
        raise ConfigurationError(f"decoder='jvm' cannot be had: {no_jvm}")
    on_executor: OnExecutor = "python" if no_arrow else "arrow"
    if wanted != "auto":
        return Choice(jvm=wanted == "jvm", on_executor=on_executor, why="as configured")
    if for_python:
        no_jvm = "The rows go to Python anyway."
    reasons = [reason for reason in (no_jvm, no_arrow) if reason]
    return Choice(
        jvm=not no_jvm,
        on_executor=on_executor,
        # The remedy is for those who ask for a decoder by name.
        why=reasons[-1].partition(". ")[0]
        if no_jvm
        else "the first of jvm, arrow and python that is there",
    )


def _no_jvm(available: Available) -> str:
    if not available.spark_avro:
        return (
            "spark-avro is not on Spark's classpath. Add it with packages (--packages org.apache.spark:spark-avro_2.13:<Spark's version>) "
            "or jars (--jars)."
        )
    if not available.limited:
        return (
            "Avro's lengths are not limited in Spark's processes, so that one corrupt event could end an executor. Add "
            f"{LIMITS_JAVA_OPTIONS} to spark.driver.defaultJavaOptions and spark.executor.defaultJavaOptions."
        )
    return ""


def _no_arrow(available: Available) -> str:
    return wheels_missing(available.python, {ACCELERATOR} & {*available.executors_lack})


def _check_needs(available: Available) -> None:
    if available.driver_lacks:
        raise ConfigurationError(
            f"The driver's Python has no {' and no '.join(available.driver_lacks)}. Install them where spark-submit runs; in cluster "
            'mode, in the image or environment that the driver gets (docs/spark.md, "On a cluster").'
        )
    if PACKAGE in available.executors_lack:
        raise ConfigurationError(
            f"The executors' Python ({available.python}) has no {PACKAGE}. Pass it along with --py-files: "
            f"{PACKAGE}.spark.ship.py_files(folder) makes the zip."
        )
    missing = wheels_missing(available.python, {*EXECUTORS_NEED} & {*available.executors_lack})
    if missing:
        raise ConfigurationError(missing)


def wheels_missing(python: str, names: Collection[str]) -> str:
    """What to do about modules that the executors' Python has not; empty where it has all."""
    if not names:
        return ""
    return (
        f"The executors' Python ({python}) has no {' and no '.join(sorted(names))}. Compiled wheels do not travel by --py-files: "
        "install them on every node (in the image, in the cluster's environment), or ship an environment that has them with "
        'spark.archives and PYSPARK_PYTHON (docs/spark.md, "On a cluster").'
    )
