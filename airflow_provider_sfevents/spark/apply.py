"""The job `spark-submit` runs to follow records: land one staged batch of change events, then apply it. See `docs/changes.md`.

spark-submit --py-files sfevents.zip apply.py --manifest URL --table ROOT_OR_NAMESPACE --current-state ROOT_OR_NAMESPACE --format delta

The receipt is written last: it says what has landed, and what became of it in the tables of records (`applied`).
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
    """Exit code 0 when the batch has landed and is applied, and its receipt says so; 1, after one line that says why, otherwise."""
    try:
        from airflow_provider_sfevents.spark.land import run_job
    except ModuleNotFoundError as missing:
        logging.basicConfig(stream=sys.stdout, format="sfevents: %(message)s")
        logger.error(  # noqa: TRY400 - one line is what a log wants of it
            "%s. Pass the package along with --py-files; airflow_provider_sfevents.submit.packaging makes it.",
            missing,
        )
        return 1
    return run_job("Not applied", lambda: job_of(arguments))


def job_of(arguments: Sequence[str] | None) -> Job:
    """Read the command line.

    :raises ConfigurationError: for options that cannot work, before Spark starts.
    """
    from airflow_provider_sfevents.spark.current_state.apply_job import land_and_apply
    from airflow_provider_sfevents.spark.current_state.current_state_options import (
        ApplyOrder,
        check_apply,
    )
    from airflow_provider_sfevents.spark.land import landing_of
    from airflow_provider_sfevents.spark.tables.table_options import check_row_changes

    options = _parser().parse_args(arguments)
    landing = landing_of(options)
    check_apply(
        options.current_state, landing.table_format, options.deletions, options.new_entities
    )
    check_row_changes(options.row_changes)
    order = ApplyOrder(
        manifest_url=landing.manifest_url,
        current_state=options.current_state,
        table_format=landing.table_format,
        deletions=options.deletions,
        new_entities=options.new_entities,
        history=options.history,
        settle=options.settle,
        landing_folder=landing.landing_folder,
        on_type_change=landing.on_type_change,
        row_changes=options.row_changes,
    )
    return (
        landing.table_format,
        landing.manifest_url,
        lambda spark, step: land_and_apply(spark, landing, order, step),
    )


def _parser() -> argparse.ArgumentParser:
    from airflow_provider_sfevents.spark.land import parser

    made = parser()
    made.description = (
        "Land one staged batch of change events, and apply it to tables of the records as they are."
    )
    made.add_argument(
        "--current-state",
        required=True,
        metavar="ROOT",
        help="folder of the tables of records, one below it for each entity; or the name of a namespace in a catalog",
    )
    made.add_argument(
        "--deletions",
        default="delete",
        metavar="WHAT",
        help="what becomes of a deleted record's row: delete or flag (default: %(default)s)",
    )
    made.add_argument(
        "--new-entities",
        default="unseeded",
        metavar="WHAT",
        help="what an entity is taken for whose first event comes: unseeded or empty (default: %(default)s)",
    )
    made.add_argument(
        "--row-changes",
        default="rewrite",
        metavar="HOW",
        help="how a changed row gets into a new table: rewrite its file, or vectors (default: %(default)s)",
    )
    made.add_argument(
        "--history",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="keep a table of all states too, with the times from which and until which they held",
    )
    made.add_argument(
        "--settle",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="silence came after the batch, which has been applied: land nothing, release what is held",
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
