"""The job `spark-submit` runs: land one staged batch. See `docs/spark.md`.

spark-submit --py-files sfevents.zip land.py --manifest URL --table ROOT_OR_NAMESPACE
"""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.landing.land_batch import Order

logger = logging.getLogger("sfevents")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the batch has landed and its receipt is written; 1, after one line that says why, otherwise."""
    return run_job("Not landed", lambda: _landing(arguments))


Job = tuple[str, str, "Callable[[SparkSession, Callable[[str, str], None]], object]"]
"""The tables' format, what the job is about, and what it does, given a session and whom to tell its steps."""


def run_job(failed: str, job: Callable[[], Job]) -> int:
    """Run a job of this package: read its command line, get the session, do it, and say in one line what went wrong.

    :param failed: what that line begins with.
    :param job: reads the command line; raises `ConfigurationError` for options that cannot work, before Spark starts.
    :returns: the exit code.
    """
    logging.basicConfig(stream=sys.stdout, format="sfevents: %(message)s", level=logging.WARNING)
    logging.getLogger("airflow_provider_sfevents").setLevel(logging.INFO)
    try:
        from airflow_provider_sfevents import steps
        from airflow_provider_sfevents.exceptions import ConfigurationError
        from airflow_provider_sfevents.spark.failure import one_line
        from airflow_provider_sfevents.spark.landing_steps import BEGAN
    except ModuleNotFoundError as missing:
        logger.error(  # noqa: TRY400 - one line is what a log wants of it
            "%s. Pass the package along with --py-files; airflow_provider_sfevents.submit.packaging makes it.",
            missing,
        )
        return 1
    try:
        table_format, about, act = job()
    except ConfigurationError as mistake:
        logger.error("%s: %s", failed, mistake)  # noqa: TRY400 - as above
        return 1
    spark = _session(table_format)
    steps.reached(BEGAN, about)
    _say_it_once(spark)
    try:
        act(spark, steps.reached)
    except Exception as error:
        said = one_line(error)
        logger.error("%s: %s", failed, said or error, exc_info=None if said else error)  # noqa: TRY400 - as above
        return 1
    finally:
        spark.stop()
    return 0


def _landing(arguments: Sequence[str] | None) -> Job:
    from airflow_provider_sfevents.spark.landing.land_batch import land

    order = order_of(arguments)
    return order.table_format, order.manifest_url, lambda spark, step: land(spark, order, step)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Land one staged batch of Salesforce events in tables, exactly once."
    )
    parser.add_argument(
        "--manifest",
        required=True,
        metavar="URL",
        help="the batch's manifest.json, as Spark reaches it",
    )
    parser.add_argument(
        "--table",
        required=True,
        metavar="ROOT",
        help="folder of the tables, one below it for each event type; or, for delta and iceberg, the name of a namespace in a catalog",
    )
    parser.add_argument(
        "--format",
        default="parquet",
        metavar="FORMAT",
        help="table format: parquet, delta or iceberg (default: %(default)s)",
    )
    parser.add_argument(
        "--partition-by",
        default="event_date",
        metavar="HOW",
        help="how new tables are partitioned: event_date, none (delta, iceberg) or event_month (iceberg) (default: %(default)s)",
    )
    parser.add_argument(
        "--cluster-by",
        default="null",
        metavar="JSON",
        help='how new tables are clustered: ["event_date", "batch_sequence"] (delta), ["bucket(16, event_id)"] (iceberg)',
    )
    parser.add_argument(
        "--table-properties",
        default="{}",
        metavar="JSON",
        help='TBLPROPERTIES of new tables: {"delta.logRetentionDuration": "interval 60 days"}',
    )
    parser.add_argument(
        "--landing-folder",
        default="",
        metavar="URL",
        help="where files on their way and the types of columns go (default: the root, or the namespace's location)",
    )
    parser.add_argument(
        "--decimals",
        default="{}",
        metavar="JSON",
        help='numbers to land as decimals, by field: {"Amount__c": "decimal(18,2)", "*": "decimal(38,6)"}',
    )
    parser.add_argument(
        "--on-type-change",
        default="new_column",
        metavar="WHAT",
        help="what becomes of a field that changes in kind: new_column or quarantine (default: %(default)s)",
    )
    parser.add_argument(
        "--max-quarantined",
        type=int,
        metavar="N",
        help="fail, landing nothing, when more events than this cannot be decoded (default: when all of them cannot)",
    )
    parser.add_argument(
        "--keep-payload",
        action="store_true",
        help="keep each event's raw bytes in the column raw_payload",
    )
    return parser


def order_of(arguments: Sequence[str] | None) -> Order:
    """Read the command line.

    :raises ConfigurationError: for options that cannot work, before Spark starts.
    """
    return landing_of(parser().parse_args(arguments))


def landing_of(options: argparse.Namespace) -> Order:
    """What a command line says of a landing.

    :raises ConfigurationError: for options that cannot work, before Spark starts.
    """
    from airflow_provider_sfevents.spark.landing.land_batch import Order
    from airflow_provider_sfevents.spark.landing.landing_options import check_order, decimals_of
    from airflow_provider_sfevents.spark.tables.table_options import options_of

    given = options_of(options.partition_by, options.cluster_by, options.table_properties)
    order = Order(
        manifest_url=options.manifest,
        table=options.table,
        table_format=options.format,
        partition_by=given.partition_by,
        cluster_by=given.cluster_by,
        table_properties=given.properties,
        landing_folder=options.landing_folder,
        max_quarantined=options.max_quarantined,
        keep_payload=options.keep_payload,
        decimals=decimals_of(options.decimals),
        on_type_change=options.on_type_change,
    )
    check_order(
        order.table,
        order.table_format,
        given,
        order.decimals,
        order.on_type_change,
    )
    return order


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


def _say_it_once(spark: SparkSession) -> None:
    """Keep Spark from logging a failed task's stack trace five times before the job says what it means, in a line or in full.

    On a cluster lost tasks are still reported: most of them are run again, and the job never hears of it.
    """
    tiresome = ["executor.Executor", "util.Utils", "sql.execution.datasources.FileFormatWriter"]
    if spark.sparkContext.master.startswith("local"):
        tiresome.append("scheduler.TaskSetManager")
    log4j = spark._jvm.org.apache.logging.log4j  # noqa: SLF001 - there is no other way to Java's loggers
    for name in tiresome:
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{name}", log4j.Level.OFF)


if __name__ == "__main__":
    sys.exit(main())
