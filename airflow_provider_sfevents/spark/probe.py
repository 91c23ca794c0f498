"""Spark job that reads one file of the staging area as the landing job would, and says how it went.

It runs once for each way of submitting, before the first delivery, where Spark may run as another
user than the worker (`operators/staging_probe.py`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.failure import is_lost
from airflow_provider_sfevents.spark.land import run_job
from airflow_provider_sfevents.spark.remote import spark_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.land import Job
    from airflow_provider_sfevents.spark.stores.object_files import Stores

_USER = "java_method('java.lang.System', 'getProperty', 'user.name') AS user"
_UNSEEN = re.compile(
    r"FileNotFoundException: File \S+ does not exist|FILE_NOT_EXIST|PATH_NOT_FOUND"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when the answer is written, also if the file cannot be read."""
    return run_job("The staging area was not tried", lambda: _probing(arguments))


def _probing(arguments: Sequence[str] | None) -> Job:
    from airflow_provider_sfevents.spark.files import Files

    parser = argparse.ArgumentParser(description="Read a file of the staging area by Spark.")
    parser.add_argument("--probe", required=True, metavar="URL", help="the file to read")
    parser.add_argument("--answer", required=True, metavar="URL", help="where to write the answer")
    options = parser.parse_args(arguments)

    def act(spark: SparkSession, stores: Stores | None) -> None:
        Files(spark, stores).write_staged(options.answer, json.dumps(answer(spark, options.probe)))

    return "parquet", options.probe, act


def answer(spark: SparkSession, probe: str) -> dict[str, str]:
    """Read the file on an executor: the user that it runs as, and the reason if it cannot."""
    [row] = spark.range(1).selectExpr(_USER).collect()
    # Otherwise the log has the stack trace of each of four tries.
    spark.sparkContext.setLogLevel("OFF")
    return {"user": row["user"], "error": unreadable(spark, probe)}


def unreadable(spark: SparkSession, probe: str) -> str:
    """Read the file on an executor: the reason if it cannot be read, or an empty text.

    The error of a lost session of Spark Connect is raised, as it is no reason.
    """
    try:
        spark.read.text(probe).collect()
    except spark_errors() as error:
        if is_lost(error):
            raise
        return reason_in(str(error))
    return ""


def reason_in(text: str) -> str:
    """Find the reason in what Spark says of a file that it cannot read."""
    if "Permission denied" in text:
        return "Permission denied"
    if _UNSEEN.search(text):
        return "it sees no such file: a folder above is closed to it, or not mounted there"
    return text.partition("\n")[0][:300]


if __name__ == "__main__":
    sys.exit(main())
