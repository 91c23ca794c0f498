"""The job `spark-submit` runs: land one staged batch. See `docs/reference/spark-jobs.md`.

spark-submit --py-files sfevents.zip land.py --manifest URL --table ROOT_OR_NAMESPACE
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.stores.object_files import Stores

    Job = tuple[str, str, Callable[[SparkSession, Stores | None], object]]
    """The tables' format, the job's subject, and its work; stores as of `files.Files`."""

logger = logging.getLogger("sfevents")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job: exit code 0 if the batch has landed and its receipt is written, otherwise 1."""
    return run_job("Not landed", lambda: job_of(arguments))


def run_job(failed: str, job: Callable[[], Job]) -> int:
    """Run a job of this package: read its command line, get the session, work, and log an error.

    :param failed: first words of the line for an error.
    :param job: reads the command line; raises `ConfigurationError` before Spark starts if options
        cannot work.
    :returns: the exit code.
    """
    logging.basicConfig(stream=sys.stdout, format="sfevents: %(message)s", level=logging.WARNING)
    logging.getLogger("airflow_provider_sfevents").setLevel(logging.INFO)
    try:
        from airflow_provider_sfevents import steps
        from airflow_provider_sfevents.exceptions import ConfigurationError
        from airflow_provider_sfevents.spark.failure import one_line
    except ModuleNotFoundError as missing:
        print(  # noqa: T201 - one line for the job's log
            f"sfevents: {missing}. Pass the package along with --py-files; "
            "airflow_provider_sfevents.submit.packaging makes it."
        )
        return 1
    try:
        table_format, about, act = job()
    except ConfigurationError as mistake:
        logger.error("%s: %s", failed, mistake)  # noqa: TRY400 - as above
        return 1
    spark = _session(table_format)
    steps.reached(steps.LANDING_BEGAN, about)
    _log_errors_once(spark)
    try:
        act(spark, None)
    except Exception as error:
        said = one_line(error)
        trace = None if said else error
        logger.error("%s: %s", failed, said or error, exc_info=trace)  # noqa: TRY400 - as above
        return 1
    finally:
        spark.stop()
    return 0


def job_of(arguments: Sequence[str] | None) -> Job:
    """Read the command line.

    :raises ConfigurationError: for options that cannot work, before Spark starts.
    """
    from airflow_provider_sfevents.spark.landing.land_batch import land
    from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
    from airflow_provider_sfevents.spark.options import command_line, options_from

    parser = command_line(
        "Land one staged batch of Salesforce events in tables, exactly once.", LandingOptions
    )
    options = options_from(LandingOptions, vars(parser.parse_args(arguments)))
    return (
        options.table_format,
        options.manifest_url,
        lambda spark, stores: land(spark, options, stores=stores),
    )


def _session(table_format: str) -> SparkSession:
    """Get the session `spark-submit` configured; master, name and all come from there.

    What Delta has to have from the start is added to it.
    """
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.tables import delta, naming

    builder = SparkSession.builder
    if table_format == naming.DELTA:
        given = SparkConf()
        builder = builder.config(map=delta.from_the_start(dict(given.getAll())))
    return builder.getOrCreate()


def _log_errors_once(spark: SparkSession) -> None:
    """Keep Spark from logging a failed task's stack trace five times before the job's own line.

    On a cluster lost tasks are still logged: most of them are run again, and the job is not told.
    """
    names = ["executor.Executor", "util.Utils", "sql.execution.datasources.FileFormatWriter"]
    if str(spark.conf.get("spark.master")).startswith("local"):
        names.append("scheduler.TaskSetManager")
    log4j = spark._jvm.org.apache.logging.log4j  # noqa: SLF001 - the only way
    for name in names:
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{name}", log4j.Level.OFF)


if __name__ == "__main__":
    sys.exit(main())
