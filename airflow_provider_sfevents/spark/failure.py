"""Errors of a Spark job, in one line for its log. No I/O, no Spark.

An error raised on an executor reaches the driver as text: the name of its class and its message at
the end of a Python traceback, inside a Java one.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.spark.stores.storage_jars import no_store
from airflow_provider_sfevents.spark.tables import naming
from airflow_provider_sfevents.spark.tables.merging.conflicts import java_text

_OURS = re.compile(r"airflow_provider_sfevents\.exceptions\.\w+: (?P<said>.+)")
_NO_PACKAGE = re.compile(
    r"ModuleNotFoundError: No module named '(?P<name>airflow_provider_sfevents[^']*)'"
)
_NO_WHEEL = re.compile(
    r"(?:No module named '|PACKAGE_NOT_INSTALLED\] )(?P<name>pyarrow|fastavro|numpy|pandas)\b",
    re.IGNORECASE,
)
_PYTHONS = re.compile(
    r"PYTHON_VERSION_MISMATCH\] .*?worker.*?(?P<executors>\d+\.\d+)"
    r"\D.*?driver\D*(?P<drivers>\d+\.\d+)",
    re.DOTALL,
)
_NO_PYTHON = re.compile(r'Cannot run program "(?P<path>[^"]*python[^"]*)"[^\n]*No such file')
_STORAGE = re.compile(
    r"(?:No space left on device|Permission denied|Read-only file system|Disk quota exceeded)[^\n]*"
)
_UNREADABLE = re.compile(
    r"\[FAILED_READ_FILE\.(?P<why>\w+)\] "
    r"Encountered error while reading file (?P<url>\S+?)\.?(?:\s|$)"
)
_UNMAPPABLE = re.compile(r"unmappable characters: (?P<path>[^\n]+)")
_PATH = re.compile(r"(?:file:|s3a?:|hdfs:|gs:|abfss?:)?/[^\s:\]]+")


_NO_SESSION = re.compile(r"INVALID_HANDLE\.(?:SESSION|OPERATION)_\w+|NO_ACTIVE_SESSION")
_NO_SERVER = re.compile(
    r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|RETRIES_EXCEEDED"
    r"|SparkContext was shut|No active or default Spark session found"
)
_NO_CONNECTION = re.compile(r"Connection reset|Socket closed")
"""Of the server's connection only where there is one: other errors have these words, too."""
_WRONG_JAR = re.compile(
    r"(?:NoSuchMethodError|NoClassDefFoundError|IncompatibleClassChangeError|AbstractMethodError)"
    r"[^\n]*"
)


def one_line(error: BaseException) -> str:
    """Name the cause and the remedy.

    The text is empty for an unknown error, whose traceback is worth its length.
    """
    if isinstance(error, SfEventsError):
        return " ".join(str(error).split())
    text = java_text(error)
    if said := _OURS.search(text):
        return said["said"].strip()
    if name := _NO_PACKAGE.search(text):
        return (
            f"The executors do not have {name['name']}. Pass it along with --py-files "
            f"(airflow_provider_sfevents.submit.packaging makes it)."
        )
    if name := _NO_WHEEL.search(text):
        return (
            f"The Python of the driver or of an executor has no {name['name'].lower()}. Executors "
            "need pyarrow, fastavro and numpy, the driver pandas too: install them, or ship an "
            "environment with --archives and PYSPARK_PYTHON (docs/how-to/clusters.md)."
        )
    return (
        _of_server(text) or _of_pythons(text) or no_store(text) or _of_jars(text) or _of_files(text)
    )


def is_lost(error: BaseException) -> bool:
    """Tell whether a session of Spark Connect is gone, so that a new one may do the same work."""
    text = str(error)
    return any(one.search(text) for one in (_NO_SESSION, _NO_SERVER, _NO_CONNECTION))


def _of_server(text: str) -> str:
    if gone := _NO_SESSION.search(text):
        return (
            f"The Spark Connect server has ended this session ({gone[0]}): it was restarted, or "
            "the session had expired. Run the task again, which takes a new session."
        )
    if _NO_SERVER.search(text):
        return (
            "The Spark Connect server does not answer. Check that it runs at the connection's "
            "address, then run the task again."
        )
    return ""


def _of_pythons(text: str) -> str:
    if differ := _PYTHONS.search(text):
        return (
            f"Executors run Python {differ['executors']} and the driver {differ['drivers']}; they "
            "have to be the same. Name another one for the executors by spark.pyspark.python, or "
            "for the driver by spark.pyspark.driver.python (docs/how-to/clusters.md)."
        )
    if missing := _NO_PYTHON.search(text):
        return (
            f"There is no Python at {missing['path']} on an executor. Install it there, or name "
            "the one that is there by spark.pyspark.python (docs/how-to/clusters.md)."
        )
    return ""


def _of_jars(text: str) -> str:
    wrong = _WRONG_JAR.search(text)
    if wrong is None or not re.search("delta|iceberg", text, re.IGNORECASE):
        return ""
    return (
        f"A jar of Delta or Iceberg was built for another Spark ({wrong[0].strip()[:200]}). Use "
        f"the builds for this one: for Spark 4.1 {' and '.join(naming.JARS.values())}."
    )


def _of_files(text: str) -> str:
    if unreadable := _UNREADABLE.search(text):
        return _unreadable(unquote(unreadable["url"]), unreadable["why"])
    if unmappable := _UNMAPPABLE.search(text):
        return (
            f"Spark's Java cannot name the file {unmappable['path'].strip()}: its locale lacks "
            "some of these characters. Set LC_ALL=C.UTF-8 where the driver and the executors run, "
            "or give a path in ASCII."
        )
    if storage := _STORAGE.search(text):
        where = _PATH.search(text)
        return (
            f"Spark could not write: {storage[0].strip()}{f' ({where[0]})' if where else ''}. "
            f"Mend the storage and run the task again."
        )
    return ""


def _unreadable(url: str, why: str) -> str:
    if why == "FILE_NOT_EXIST":
        return (
            f"The file {url} went away while Spark was about to read it: another landing was at "
            f"work. Run the task again."
        )
    return (
        f"Spark could not read the file {url} ({why}); nothing was landed. In a table, where it is "
        "compared with what is to land, it is damaged or was not made by a landing: move it away. "
        "In the staging area it is damaged. Then run the task again."
    )
