"""Errors of files: those that a store refuses, and those that PyArrow cannot read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS = 10_000


class FileGoneError(StagingError):
    """A file of the staging area is not there (any more)."""


def refused(url: str, said: str) -> StagingError:
    """Make the error for an operation on a file that its store refuses."""
    return StagingError(
        f"{url}: {said}. The batch stays staged; once this is mended, run the task again."
    )


@contextmanager
def naming(url: str, advice: str) -> Iterator[None]:
    """Name a file that cannot be read.

    :raises FileGoneError: there is none.
    :raises StagingError: in place of another error of PyArrow or the operating system.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise FileGoneError(f"{url} is not there.") from error
    except (pa.ArrowException, OSError) as error:
        raise StagingError(f"{url} cannot be read: {error_line(error)}. {advice}") from error


def error_line(error: Exception) -> str:
    """Text of an error in one line, without its last full stop."""
    return " ".join(str(error).split())[:500].rstrip(".")


def staged_rows(parquet: Any, url: str, advice: str) -> Iterator[pa.RecordBatch]:
    """Read the rows of a staged file, in its order.

    :param parquet: the file, as a `pyarrow.parquet.ParquetFile`.
    :raises StagingError: its pages cannot be read.
    """
    found = parquet.iter_batches(batch_size=_ROWS, columns=list(layout.STAGED_COLUMNS))
    while True:
        with naming(url, advice):
            rows = next(found, None)
        if rows is None:
            return
        yield rows
