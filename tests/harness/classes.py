"""Options that make each Spark of the tests start faster.

Spark's classes are loaded and verified once and kept in a file, and Java optimises little. The
tests start some two hundred Sparks, and the start is most of what each does. `python -m
tests.harness.classes` makes the file, which belongs to one environment: Java uses it only with the
very jars that it was made from. The file halves the time of a start; less optimisation halves the
processor time of a short job.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.harness.spark import environment

VARIABLE = "SPARK_SUBMIT_OPTS"
"""Environment variable with Java options for each `spark-submit` and PySpark session."""

_ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_SECONDS = 300
# Java skips a file that does not fit, and would log that on standard output, which tests read.
_SILENT = "-Xlog:cds*=off -Xlog:class+path*=off"
# As in `preflight.quick_start`: full optimisation would take as much time again as a short job.
_SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# Loads the classes that most jobs of the tests load.
_JOB = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
kind = (F.col("id") % 3).cast("string").alias("kind")
rows = spark.range(100).select("id", kind, F.current_timestamp().alias("at"))
rows.write.partitionBy("kind").parquet(sys.argv[1])
read = spark.read.parquet(sys.argv[1])
joined = read.mapInArrow(lambda batches: batches, read.schema).join(rows.select("id"), "id")
joined.groupBy("kind").agg(F.max("at"), F.count("*")).collect()
spark.createDataFrame([(1, "one")], "id bigint, name string").sort("name").toArrow()
spark.stop()
"""


def options() -> str:
    """Java options for a Spark of the tests; they name the file if there is one."""
    return _with("SharedArchiveFile", _ARCHIVE) if _ARCHIVE.exists() else _SHORT_JOBS


def main() -> None:
    """Make the file if there is none; without it, the tests take longer."""
    if _ARCHIVE.exists():
        return
    _say("Spark's classes are put into a file that its tests share (half a minute, once) ...")
    with tempfile.TemporaryDirectory(dir=_ARCHIVE.parent) as made:
        job, archive = Path(made, "job.py"), Path(made, _ARCHIVE.name)
        job.write_text(_JOB)
        try:
            run = subprocess.run(
                ["spark-submit", "--master", "local[2]", str(job), f"{made}/table"],
                env={
                    **os.environ,
                    **environment(),
                    VARIABLE: _with("ArchiveClassesAtExit", archive),
                },
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            _say(f"... could not be done, the tests go without: {error}")
            return
        if run.returncode or not archive.exists():
            _say(f"... could not be done, the tests go without:\n{run.stderr[-2000:]}")
            return
        archive.rename(_ARCHIVE)


def _with(option: str, archive: Path) -> str:
    # The variable is split as by a shell, and the path may contain a space.
    return f'-XX:{option}="{archive}" {_SILENT} {_SHORT_JOBS}'


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
