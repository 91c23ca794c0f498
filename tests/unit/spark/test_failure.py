"""Error lines of a failed job's log."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.failure import is_lost, one_line
from airflow_provider_sfevents.spark.tables import naming
from airflow_provider_sfevents.spark.tables.merging.conflicts import is_conflict

FROM_EXECUTOR = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "executor.py", line 1, in decoded
airflow_provider_sfevents.exceptions.ConfigurationError: The executors' Python has no fastavro. \
Install it.

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(\
PythonRunner.scala:645)
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            StagingError("The staged file x is missing.\n Release the batch."),
            "The staged file x is missing. Release the batch.",
        ),
        (RuntimeError(FROM_EXECUTOR), "The executors' Python has no fastavro. Install it."),
        (
            RuntimeError(
                "ModuleNotFoundError: No module named 'airflow_provider_sfevents'\n\tat org.apache"
            ),
            "The executors do not have airflow_provider_sfevents. Pass it along with --py-files",
        ),
        (
            RuntimeError("ModuleNotFoundError: No module named 'pyarrow'"),
            "The Python of the driver or of an executor has no pyarrow. Executors need pyarrow, fastavro and numpy,",
        ),
        (
            RuntimeError(
                'Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "walk.py", line 11\n'
                "ModuleNotFoundError: No module named 'numpy'\n\tat org.apache"
            ),
            "The Python of the driver or of an executor has no numpy. Executors need pyarrow, fastavro and numpy,",
        ),
        (
            RuntimeError(
                "pyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: "
                "3.11, PySpark cannot run with different minor versions."
            ),
            "Executors run Python 3.12 and the driver 3.11; they have to be the same.",
        ),
        (
            RuntimeError(
                'java.io.IOException: Cannot run program "/opt/env/bin/python": Exec failed, error: 2 (No such file or directory)'
            ),
            "There is no Python at /opt/env/bin/python on an executor. Install it there",
        ),
        (
            RuntimeError(
                "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
            ),
            "Spark has no jar for s3a:// addresses. Give it org.apache.hadoop:hadoop-aws",
        ),
        (
            RuntimeError('UnsupportedFileSystemException: No FileSystem for scheme "gs"\n\tat'),
            "Spark has no jar for gs:// addresses. Give it Google's Cloud Storage connector",
        ),
        (
            RuntimeError("[PACKAGE_NOT_INSTALLED] PyArrow >= 15.0.0 must be installed"),
            "The Python of the driver or of an executor has no pyarrow.",
        ),
        (
            RuntimeError(
                "Job aborted: java.io.IOException: Mkdirs failed: file:/lake/x: No space left on device\n\tat"
            ),
            "Spark could not write: No space left on device (file:/lake/x). Mend the storage",
        ),
        (
            RuntimeError(
                "IllegalArgumentException: Malformed input or input contains unmappable characters: "
                "/läke/_landing\n\tat"
            ),
            "Spark's Java cannot name the file /läke/_landing: its locale lacks some of these",
        ),
        (
            RuntimeError(
                "Caused by: SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file "
                "file:///my%20lake/Order__e/old.parquet. \n SQLSTATE: KD001\n\tat"
            ),
            "Spark could not read the file file:///my lake/Order__e/old.parquet (NO_HINT); nothing was landed.",
        ),
        (
            RuntimeError(
                "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:/x.parquet. File does not exist."
            ),
            "The file file:/x.parquet went away while Spark was about to read it: another landing was at work.",
        ),
    ],
    ids=[
        "ours",
        "ours from an executor",
        "no package",
        "no pyarrow",
        "no numpy",
        "two versions of Python",
        "no Python",
        "no S3",
        "no Google",
        "no pyarrow, as pyspark says it",
        "disk full",
        "unmappable",
        "not readable",
        "gone",
    ],
)
def test_an_expected_failure_is_one_line_with_the_remedy(error: Exception, said: str) -> None:
    """An expected failure is one line with the remedy, without a traceback."""
    line = one_line(error)

    assert line.startswith(said)
    assert "\n" not in line


def test_an_unexpected_failure_keeps_its_traceback() -> None:
    """An unknown failure is logged whole."""
    assert one_line(ZeroDivisionError("division by zero")) == ""


@dataclass
class Thrown:
    """An exception of Java, as the bridge returns it."""

    said: str
    cause: Thrown | None = None

    def toString(self) -> str:  # noqa: N802 - Java's name
        return self.said

    def getCause(self) -> Thrown | None:  # noqa: N802 - as above
        return self.cause


class CapturedError(Exception):
    def __init__(self, thrown: Thrown) -> None:
        super().__init__("Writing job aborted.")
        self._origin = thrown


@pytest.mark.parametrize(
    "said",
    [
        "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] Files were added",
        "org.apache.spark.sql.delta.MetadataChangedException: [DELTA_METADATA_CHANGED]",
        "org.apache.iceberg.exceptions.ValidationException: Found conflicting files that can contain",
        "org.apache.iceberg.exceptions.CommitFailedException: Version 2 already exists",
        "org.apache.iceberg.exceptions.AlreadyExistsException: Table already exists",
    ],
)
def test_a_commit_that_came_second_is_known_by_its_cause(said: str) -> None:
    """A conflict is recognised by its cause at any depth."""
    assert is_conflict(CapturedError(Thrown("org.apache.spark.SparkException", Thrown(said))))


def test_another_failure_is_no_conflict() -> None:
    """A commit whose outcome is unknown is no conflict."""
    unknown = "org.apache.iceberg.exceptions.CommitStateUnknownException: the catalog is silent"
    assert not is_conflict(CapturedError(Thrown(unknown)))
    assert not is_conflict(OSError("no space left"))


def test_a_jar_for_another_spark_is_named_with_the_right_ones() -> None:
    """A jar for another Spark version is an error that names the right jars."""
    thrown = Thrown("java.lang.NoSuchMethodError: 'void org.apache.spark.sql.delta.X.y()'")

    said = one_line(CapturedError(thrown))

    assert "built for another Spark (NoSuchMethodError" in said
    assert all(jar in said for jar in naming.JARS.values())
    assert "\n" not in said


def test_a_conflict_over_spark_connect_is_known_by_the_servers_stack_trace() -> None:
    """A session of Spark Connect has the Java exceptions as text beside the message."""
    said = "io.delta.exceptions.ConcurrentAppendException: Files were added\n\tat io.delta"
    trace = f"org.apache.spark.SparkException\nCaused by: {said}"
    assert is_conflict(SparkConnectGrpcException("Job aborted.", server_stacktrace=trace))
    assert not is_conflict(SparkConnectGrpcException("Job aborted.", server_stacktrace=""))


def test_a_server_that_ended_the_session_or_does_not_answer_is_named() -> None:
    """The line of each has its remedy."""
    ended = "[INVALID_HANDLE.SESSION_CLOSED] The handle 1b1eea36 is invalid. Session was closed."
    silent = 'status = StatusCode.UNAVAILABLE details = "failed to connect to all addresses"'
    lines = [one_line(SparkConnectGrpcException(text)) for text in (ended, silent)]
    assert lines[0].startswith("The Spark Connect server has ended this session (INVALID_HANDLE")
    assert lines[1].startswith("The Spark Connect server does not answer. Check that it runs")


@pytest.mark.parametrize(
    "said",
    [
        "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle 1 is invalid. Session not found.",
        "[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance restarted.",
        "[INVALID_HANDLE.OPERATION_ABANDONED] The handle 2 is invalid.",
        "<_InactiveRpcError: status = StatusCode.UNAVAILABLE>",
        "[INTERNAL_ERROR] No active or default Spark session found SQLSTATE: XX000",
        "failed to connect to all addresses; last error: Socket closed",
    ],
)
def test_a_lost_session_is_known_by_the_error(said: str) -> None:
    """Errors of a restarted, ended or unreachable server mean that a new session may go on."""
    assert is_lost(RuntimeError(said))


@pytest.mark.parametrize(
    "said",
    ["[TABLE_OR_VIEW_NOT_FOUND] The table cannot be found.", "[OPERATION_CANCELED] Canceled.", ""],
)
def test_other_errors_are_no_lost_session(said: str) -> None:
    """A job that fails by itself is not run again."""
    assert not is_lost(RuntimeError(said))
