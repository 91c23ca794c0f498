"""The job `spark-submit` runs to make tables of records right from a read of the org; seeding is the same. See `docs/changes.md`.

spark-submit --py-files sfevents.zip resolve.py --current-state ROOT_OR_NAMESPACE --format delta --entity Account \
    --records URL --records-format csv --read-at 2026-11-01T06:30:00Z
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
    """Exit code 0 when the records are resolved; 1, after one line that says why, otherwise."""
    try:
        from airflow_provider_sfevents.spark.land import run_job
    except ModuleNotFoundError as missing:
        logging.basicConfig(stream=sys.stdout, format="sfevents: %(message)s")
        logger.error(  # noqa: TRY400 - one line is what a log wants of it
            "%s. Pass the package along with --py-files; airflow_provider_sfevents.submit.packaging makes it.",
            missing,
        )
        return 1
    return run_job("Not resolved", lambda: job_of(arguments))


def job_of(arguments: Sequence[str] | None) -> Job:
    """Read the command line.

    :raises ConfigurationError: for options that cannot work, before Spark starts.
    """
    from airflow_provider_sfevents.spark.current_state.current_state_options import check_apply
    from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_files import (
        ResolveOrder,
        check_format,
        moment_of,
        resolve_files,
    )
    from airflow_provider_sfevents.spark.landing.landing_options import decimals_of
    from airflow_provider_sfevents.spark.tables.table_options import check_row_changes

    options = _parser().parse_args(arguments)
    check_apply(options.current_state, options.format, options.deletions, "unseeded")
    check_format(options.records_format)
    check_row_changes(options.row_changes)
    order = ResolveOrder(
        current_state=options.current_state,
        table_format=options.format,
        entity=options.entity,
        records=options.records,
        records_format=options.records_format,
        read_at=moment_of(options.read_at),
        deleted_ids=options.deleted_ids,
        whole=not options.partial,
        deletions=options.deletions,
        history=options.history,
        row_changes=options.row_changes,
        landing_folder=options.landing_folder,
        event_schema=options.event_schema,
        decimals=decimals_of(options.decimals),
        lacking=tuple(one.strip() for one in options.lacking.split(",") if one.strip()),
        report=options.report,
    )
    return (
        order.table_format,
        f"{order.current_state} {order.entity}",
        lambda spark, step: resolve_files(spark, order, step),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Make an entity's records equal a read of the org."
    )
    for name, metavar, text in (
        ("--current-state", "ROOT", "folder of the tables of records, or a namespace's name"),
        ("--format", "FORMAT", "table format: delta or iceberg"),
        ("--entity", "NAME", "API name of the object"),
        ("--records", "URL", "file or folder of full records"),
        (
            "--records-format",
            "FORMAT",
            "json (REST, JSON lines), csv (Bulk, with a header) or parquet",
        ),
        ("--read-at", "TIME", "when the read began, by the org's clock; ISO-8601 with a zone"),
    ):
        parser.add_argument(name, required=True, metavar=metavar, help=text)
    for name, default, metavar, text in (
        (
            "--deleted-ids",
            "",
            "URL",
            "a file with the ids of records that are not there, one a line",
        ),
        ("--deletions", "delete", "WHAT", "as of the apply: delete or flag (default: %(default)s)"),
        ("--landing-folder", "", "URL", "as of the apply"),
        ("--row-changes", "rewrite", "HOW", "as of the apply: rewrite or vectors"),
        (
            "--event-schema",
            "",
            "URL",
            "Avro schema that the entity's change events have now; needed where none has been "
            "applied, and where a field has changed its kind",
        ),
        ("--decimals", "{}", "JSON", "as of the apply"),
        (
            "--lacking",
            "",
            "FIELD,...",
            "fields that the table has, and the org has no more: null from now on",
        ),
        ("--report", "", "URL", "where to write the counts, as JSON"),
    ):
        parser.add_argument(name, default=default, metavar=metavar, help=text)
    parser.add_argument(
        "--partial",
        action="store_true",
        help="the read is of some records only: what it does not bring stays",
    )
    parser.add_argument(
        "--history",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="as of the apply",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
