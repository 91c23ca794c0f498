"""Spark job that applies an entity snapshot: it fills or repairs a current-state table.

See `docs/reference/spark-jobs.md`.

spark-submit --py-files sfevents.zip entity_snapshot.py --current-state ROOT_OR_NAMESPACE \
    --format delta --entity Account --records URL --records-format csv \
    --read-at 2026-11-01T06:30:00Z
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.land import Job


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job: exit code 0 if the entity snapshot is applied, otherwise 1."""
    try:
        from airflow_provider_sfevents.spark.land import run_job
    except ModuleNotFoundError as missing:
        print(  # noqa: T201 - one line for the job's log
            f"sfevents: {missing}. Pass the package along with --py-files; "
            "airflow_provider_sfevents.submit.packaging makes it."
        )
        return 1
    return run_job("Entity snapshot not applied", lambda: job_of(arguments))


def job_of(arguments: Sequence[str] | None) -> Job:
    from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import apply_snapshot
    from airflow_provider_sfevents.spark.current_state.snapshot.snapshot_options import (
        SnapshotOptions,
    )
    from airflow_provider_sfevents.spark.options import command_line, options_from

    parser = command_line("Make an entity's records equal a read of the org.", SnapshotOptions)
    options = options_from(SnapshotOptions, vars(parser.parse_args(arguments)))
    return (
        options.table_format,
        f"{options.current_state} {options.entity}",
        lambda spark, stores: apply_snapshot(spark, options, stores),
    )


if __name__ == "__main__":
    sys.exit(main())
