"""Batches landed by two processes, each of which waits before its commits for the other.

`python -m tests.spark.racing JOBS MINE OTHER`: a JSON file of landings, and the names of the two
racers. One of them may be a session that is there already (`race`): starting one more takes longer
than the races.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.tables import delta
from airflow_provider_sfevents.submit.java import find_java
from airflow_provider_sfevents.submit.preflight import quick_start
from tests.harness.jars import Jars
from tests.spark.lakes import land_watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.harness.step_hooks import OnStep

logger = logging.getLogger(__name__)

_LONGEST_WAIT = 400
"""Seconds; one of the two may have to start a JVM first, beside others."""
_TRIES = 5


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = find_java().home
    jars = Jars()
    conf = {
        **quick_start("local[1]", 0, {}),
        **delta.from_the_start({}),
        "spark.jars": ",".join(map(str, [*jars.delta, *jars.iceberg])),
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
    }
    return SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()


def together(folder: Path, mine: str, other: str) -> OnStep:
    """Wait before the first commit until the other racer is about to commit, too."""
    met: list[str] = []

    def step(name: str, about: str) -> None:
        if name == steps.LANDING_MOVE and about not in met:
            met.append(about)
            (folder / f"{about}-{mine}").touch()
            until = time.monotonic() + _LONGEST_WAIT
            while not (folder / f"{about}-{other}").exists():
                if time.monotonic() > until:
                    raise TimeoutError(f"{other} never came to commit to {about}")
                time.sleep(0.005)

    return step


def race(spark: SparkSession, jobs: Path, mine: str, other: str) -> None:
    """Land all batches of this racer, each at the same moment as the other racer's."""
    for number, job in enumerate(json.loads(jobs.read_text())):
        folder = jobs.parent / f"race-{number}"
        folder.mkdir(exist_ok=True)
        order = LandingOptions(
            manifest_url=job[mine], table=job["table"], table_format=job["table_format"]
        )
        step = together(folder, mine, other)
        for tried in range(_TRIES):
            try:
                land_watched(spark, order, step)
            except StagingError as error:
                # A commit was lost: the count has shown it, and the task is run again, as Airflow
                # would.
                logger.warning("Once more: %s", error)
                if tried == _TRIES - 1:
                    raise
            else:
                break


def main(jobs: str, mine: str, other: str) -> None:
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = session()
    race(spark, Path(jobs), mine, other)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
