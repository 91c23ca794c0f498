"""How every Spark of the tests starts: its classes are loaded and verified once and kept in a file, and Java optimises little.

The tests start some two hundred, and to start is most of what each does. `python -m tests.harness.classes` makes the file, which belongs to
one environment: Java takes it for the very jars that it was made from, and otherwise goes without. The one halves the time that a start takes,
the other what a short job takes of the processors.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.harness.spark import environment

VARIABLE = "SPARK_SUBMIT_OPTS"
"""Where each `spark-submit`, and each session of PySpark, looks for options of Java."""

_ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_SECONDS = 300
# What does not fit is passed over; that is said on standard output, where tests read what jobs say.
_SILENT = "-Xlog:cds*=off -Xlog:class+path*=off"
# As `preflight.quick_start` has it for little work: to optimise for longer than the job lasts takes as much again as the job.
_SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# Touches what most jobs of the tests touch.
_JOB = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
rows = spark.range(100).select("id", (F.col("id") % 3).cast("string").alias("kind"), F.current_timestamp().alias("at"))
rows.write.partitionBy("kind").parquet(sys.argv[1])
read = spark.read.parquet(sys.argv[1])
read.mapInArrow(lambda batches: batches, read.schema).join(rows.select("id"), "id").groupBy("kind").agg(F.max("at"), F.count("*")).collect()
spark.createDataFrame([(1, "one")], "id bigint, name string").sort("name").toArrow()
spark.stop()
"""


def options() -> str:
    """What Java is to be started with for a Spark of the tests; with the file where there is one."""
    return _with("SharedArchiveFile", _ARCHIVE) if _ARCHIVE.exists() else _SHORT_JOBS


def main() -> None:
    """Make the file if it is not there. Where that fails, the tests take longer and do without."""
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
    # It is taken apart as by a shell: there may be a space in the path.
    return f'-XX:{option}="{archive}" {_SILENT} {_SHORT_JOBS}'


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
