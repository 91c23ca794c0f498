"""The job `spark-submit` runs: land one staged batch. See `docs/spark.md`.

spark-submit --py-files sfevents.zip land.py --manifest URL --table ROOT
"""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

logger = logging.getLogger("sfevents")

FORMATS = ("parquet",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the batch has landed and its receipt is written; 1, after one line that says why, otherwise."""
    logging.basicConfig(stream=sys.stdout, format="sfevents: %(message)s", level=logging.WARNING)
    logging.getLogger("airflow_provider_sfevents").setLevel(logging.INFO)
    options = _parser().parse_args(arguments)
    try:
        from airflow_provider_sfevents import steps
        from airflow_provider_sfevents.spark.failure import one_line
        from airflow_provider_sfevents.spark.landing import Order, land
        from airflow_provider_sfevents.spark.landing_steps import BEGAN
    except ModuleNotFoundError as missing:
        logger.error(  # noqa: TRY400 - one line is what a log wants of it
            "%s. Pass the package along with --py-files; airflow_provider_sfevents.spark.ship makes it.",
            missing,
        )
        return 1
    order = Order(
        manifest_url=options.manifest,
        table=options.table,
        max_quarantined=options.max_quarantined,
        keep_payload=options.keep_payload,
    )
    spark = _session()
    steps.reached(BEGAN, order.manifest_url)
    _say_it_once(spark)
    try:
        land(spark, order, steps.reached)
    except Exception as error:
        said = one_line(error)
        logger.error("Not landed: %s", said or error, exc_info=None if said else error)  # noqa: TRY400 - as above
        return 1
    finally:
        spark.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
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
        help="folder of the tables; each event type gets one below it",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="table format (default: %(default)s)"
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


def _session() -> SparkSession:
    """Get the session `spark-submit` configured; master, name and all come from there."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


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
