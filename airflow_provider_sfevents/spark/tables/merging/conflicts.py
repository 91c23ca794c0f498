"""Commits that fail because another writer's commit came first, and their retries.

The formats report a conflict by exceptions of their own, which Spark wraps in others. A classic
session has the Java exceptions themselves, a session of Spark Connect their text.
"""

from __future__ import annotations

import logging
import random
import re
import time
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.tables.merging.merge_statements import IS_THERE

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

logger = logging.getLogger(__name__)

_CONFLICT = re.compile(
    r"io\.delta\.exceptions\.\w*Concurrent\w*Exception|delta\.\w*Concurrent\w*Exception"
    r"|MetadataChangedException|ProtocolChangedException"
    r"|DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED"
    r"|TABLE_OR_VIEW_ALREADY_EXISTS|TableAlreadyExistsException"
    r"|iceberg\.exceptions\.(?:AlreadyExists|CommitFailed|Validation)Exception"
    r"|DELTA_TABLE_NOT_FOUND"
)
# Another job creates the table: Delta makes the folder before the first commit, and a folder with
# anything in it is enough for `CREATE TABLE IF NOT EXISTS` to do nothing.
_NO_COMMIT = re.compile(r"DELTA_TABLE_NOT_FOUND\] Delta table `?(?P<table>.+?)`? doesn't exist")
_MOST_CAUSES = 20
_TRIES = 20
_LONGEST_PAUSE = 5.0


class ConflictsError(StagingError):
    """Other writers committed first, each time that a commit was tried."""


def retry_conflicts(
    act: Callable[[], T], gave_up: str, pause: Callable[[float], None] = time.sleep
) -> T:
    """Commit, and retry if another writer's commit came first.

    :param act: reads what the commit depends on anew each time.
    :param gave_up: message of the error: what happened, what stays, what to do.
    :param pause: waits for a number of seconds between two tries.
    :raises ConflictsError: each of the tries met a conflict.
    """
    said = ""
    for tried in range(_TRIES):
        try:
            return act()
        except Exception as error:
            if not is_conflict(error):
                raise
            said = java_text(error)
            logger.info("Another job committed to the table at the same moment; trying again.")
            # A random pause, so that two writers do not meet again.
            pause(min(_LONGEST_PAUSE, 0.2 * 2**tried) * random.uniform(0.5, 1.5))  # noqa: S311
    if unborn := _NO_COMMIT.search(said):
        raise ConflictsError(
            f"The folder {unborn['table']} holds no commit of a Delta table: the job that was "
            "creating the table there was killed, or takes long. Nothing of the table was "
            "written by this task. If no other job is at work on the table, remove the folder, "
            "in which there is no committed row, and run the task again."
        )
    raise ConflictsError(gave_up)


def has_added(act: Callable[[], object]) -> bool:
    """Run an INSERT of `merge_statements`; False if nothing was added, since rows are there."""
    try:
        act()
    except Exception as error:
        if IS_THERE not in java_text(error):
            raise
        return False
    return True


def is_conflict(error: BaseException) -> bool:
    """Tell whether a commit failed because another came first, so that it can be retried."""
    return bool(_CONFLICT.search(java_text(error)))


def java_text(error: BaseException) -> str:
    """Text of an error and of its causes in Java."""
    said = [str(error), str(getattr(error, "_stacktrace", "") or "")]
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(_MOST_CAUSES):
        if cause is None:
            break
        said.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n".join(said)
