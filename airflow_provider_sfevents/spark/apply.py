"""The Spark job of current-state tables: land one staged batch of change events, then apply it.

spark-submit --py-files sfevents.zip apply.py --manifest URL --table ROOT_OR_NAMESPACE \
    --current-state ROOT_OR_NAMESPACE --format delta

The receipt is written last, with the result of both (`applied`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.land import Job


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job: exit code 0 if the batch has landed and is applied, otherwise 1."""
    try:
        from airflow_provider_sfevents.spark.land import run_job
    except ModuleNotFoundError as missing:
        print(  # noqa: T201 - one line for the job's log
            f"sfevents: {missing}. Pass the package along with --py-files; "
            "airflow_provider_sfevents.submit.packaging makes it."
        )
        return 1
    return run_job("Not applied", lambda: job_of(arguments))


def job_of(arguments: Sequence[str] | None) -> Job:
    from airflow_provider_sfevents.spark.current_state.apply_batch import land_and_apply
    from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
    from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
    from airflow_provider_sfevents.spark.options import command_line, options_from

    parser = command_line(
        "Land one staged batch of change events, and apply it to current-state tables.",
        LandingOptions,
        ApplyOptions,
    )
    given = vars(parser.parse_args(arguments))
    landing = options_from(LandingOptions, given)
    options = options_from(ApplyOptions, given)
    return (
        landing.table_format,
        landing.manifest_url,
        lambda spark, stores: land_and_apply(spark, landing, options, stores),
    )


if __name__ == "__main__":
    sys.exit(main())
