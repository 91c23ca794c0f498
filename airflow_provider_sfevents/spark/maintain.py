"""The Spark job of upkeep: compact tables, expire old versions, remove unneeded files.

spark-submit --py-files sfevents.zip maintain.py --table ROOT_OR_NAMESPACE \
    --current-state ROOT_OR_NAMESPACE --format delta --no-dry-run
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.land import Job


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job: exit code 0 if the tables are maintained or reported on, otherwise 1."""
    try:
        from airflow_provider_sfevents.spark.land import run_job
    except ModuleNotFoundError as missing:
        print(  # noqa: T201 - one line for the job's log
            f"sfevents: {missing}. Pass the package along with --py-files; "
            "airflow_provider_sfevents.submit.packaging makes it."
        )
        return 1
    return run_job("Not maintained", lambda: job_of(arguments))


def job_of(arguments: Sequence[str] | None) -> Job:
    from airflow_provider_sfevents.spark.options import command_line, options_from
    from airflow_provider_sfevents.spark.upkeep.job import maintain
    from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions

    parser = command_line(
        "Maintain event tables and current-state tables: compact, expire, remove unneeded files.",
        UpkeepOptions,
    )
    options = options_from(UpkeepOptions, vars(parser.parse_args(arguments)))
    about = " ".join(root for root, _ in options.roots())
    return (
        options.table_format,
        about,
        lambda spark, stores: maintain(spark, options, stores),
    )


if __name__ == "__main__":
    sys.exit(main())
