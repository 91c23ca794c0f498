"""Which decoder decodes a batch. No I/O, no Spark.

| decoder  | where it runs                  | needs                                                        |
|----------|--------------------------------|--------------------------------------------------------------|
| `jvm`    | in Spark's own processes       | spark-avro on the classpath, and a limit on Avro's lengths   |
| `arrow`  | in the executors' Python       | the extra `accelerator` there                                |
| `python` | in the executors' Python       | nothing more than landing does                               |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from airflow_provider_sfevents.exceptions import ConfigurationError

Wanted = Literal["auto", "jvm", "arrow", "python"]
DECODERS: tuple[Wanted, ...] = get_args(Wanted)
OnExecutor = Literal["arrow", "python"]

ACCELERATOR = "pyruhvro"
ACCELERATOR_WHEELS = (ACCELERATOR, "numpy")

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
    :param accelerator: what the executors' Python lacks for `arrow`; empty where it lacks nothing.
    """

    spark_avro: bool
    limited: bool
    accelerator: tuple[str, ...]


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


def choose(wanted: Wanted, available: Available) -> Choice:
    """Pick the decoder, or the first of `jvm`, `arrow`, `python` that can be had.

    :raises ConfigurationError: the one that is wanted cannot be had; the message says what it needs.
    """
    if wanted == "python":
        return Choice(jvm=False, on_executor="python", why="as configured")
    no_jvm, no_arrow = _no_jvm(available), _no_arrow(available)
    if wanted == "arrow" and no_arrow:
        raise ConfigurationError(f"decoder='arrow' cannot be had: {no_arrow}")
    if wanted == "jvm" and no_jvm:
        raise ConfigurationError(f"decoder='jvm' cannot be had: {no_jvm}")
    on_executor: OnExecutor = "python" if no_arrow else "arrow"
    if wanted != "auto":
        return Choice(jvm=wanted == "jvm", on_executor=on_executor, why="as configured")
    reasons = [reason for reason in (no_jvm, no_arrow) if reason]
    return Choice(
        jvm=not no_jvm,
        on_executor=on_executor,
        why="the first of jvm, arrow and python that is there" if not no_jvm else reasons[-1],
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
    if not available.accelerator:
        return ""
    return (
        f"the executors' Python has no {' and no '.join(available.accelerator)}. Install the extra accelerator there, or ship an "
        'environment that has it with --archives and PYSPARK_PYTHON (docs/spark.md, "On a cluster").'
    )
