"""The job `spark-submit` runs to maintain tables: compaction, expiry, removal of unneeded files. See `docs/upkeep.md`.

spark-submit --py-files sfevents.zip maintain.py --table ROOT_OR_NAMESPACE --current-state ROOT_OR_NAMESPACE --format delta
"""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.land import Job

logger = logging.getLogger("sfevents")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the tables are maintained or the dry run has reported; 1, after one line that says why, otherwise."""
    try:
        from airflow_provider_sfevents.spark.land import run_job
    except ModuleNotFoundError as missing:
        logging.basicConfig(stream=sys.stdout, format="sfevents: %(message)s")
        logger.error(  # noqa: TRY400 - one line is what a log wants of it
            "%s. Pass the package along with --py-files; airflow_provider_sfevents.submit.packaging makes it.",
            missing,
        )
        return 1
    return run_job("Not maintained", lambda: job_of(arguments))


def job_of(arguments: Sequence[str] | None) -> Job:
    """Read the command line.

    :raises ConfigurationError: for options that cannot work, before Spark starts.
    """
    from airflow_provider_sfevents.spark.upkeep.job import maintain
    from airflow_provider_sfevents.spark.upkeep.plan import MaintainOptions, check_maintain

    given = _parser().parse_args(arguments)
    check_maintain(given.table, given.current_state, given.format, given.keep_hours)
    options = MaintainOptions(
        table=given.table,
        current_state=given.current_state,
        table_format=given.format,
        keep_hours=given.keep_hours,
        dry_run=not given.run,
        report=given.report,
    )
    about = " ".join(root for root, _ in options.roots())
    return options.table_format, about, lambda spark, step: maintain(spark, options, step)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Maintain tables of events and of current state: compact, expire, remove unneeded files. Without --run: a dry run."
    )
    for name, metavar, text in (
        ("--table", "ROOT", "folder of the event tables, or a namespace's name"),
        ("--current-state", "ROOT", "folder of the current-state tables, or a namespace's name"),
        ("--report", "URL", "where to write the report, as JSON"),
    ):
        parser.add_argument(name, default="", metavar=metavar, help=text)
    parser.add_argument(
        "--format", required=True, metavar="FORMAT", help="table format: delta or iceberg"
    )
    parser.add_argument(
        "--keep-hours",
        type=int,
        default=168,
        metavar="N",
        help="versions younger than this stay readable (default: %(default)s)",
    )
    parser.add_argument(
        "--run", action="store_true", help="do it; otherwise only report what would be done"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
