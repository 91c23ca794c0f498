"""Read records from files, one by one: JSON lines and Parquet, at any URL of `ObjectStoragePath`.

No file is read into memory as a whole.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from contextlib import contextmanager
from decimal import Decimal
from os import PathLike
from typing import TYPE_CHECKING, Any

from airflow.sdk import ObjectStoragePath
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.publishing.event_encoder import GivenRecord
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from upath import UPath

_JSON = (".jsonl", ".ndjson", ".json")
_PARQUET = ".parquet"
_GZIP = ".gz"
_FINISHED, _UNFINISHED = "_SUCCESS", "_temporary"
"""Names in a folder of Spark (as of all Hadoop writers): left at the end, and there until then."""
_LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of a line: an event has at most 1 MB, and no JSON spelling of it is this long."""
_PLAIN_DIGITS = 16
"""Characters with the point: any 15 digits survive a double unchanged."""
_ROWS = 1_000
_BUFFER = 1024 * 1024


def record_files(url: Any) -> list[ObjectStoragePath]:
    """Return the files of records at a URL: the file itself, or all in a folder, by name.

    In a folder, names that begin with `_` or `.` belong to the writer of the folder and are
    skipped.

    :param url: as a template has rendered it.
    :returns: an empty list if Spark has written no rows.
    :raises ConfigurationError: there is no file, a file is of another kind, or Spark has not
        finished.
    """
    if not isinstance(url, str | PathLike) or not str(url).strip():
        raise ConfigurationError(
            f"files={url!r} is no URL. Give the URL of a file or folder, such as s3://bucket/path; "
            "a template may have rendered to nothing."
        )
    try:
        place = ObjectStoragePath(url)
        place.fs  # noqa: B018 - looks the store up, which says when its package is missing
    except (ValueError, ImportError) as error:
        raise ConfigurationError(
            f"files={url!r} cannot be opened: {error}. Give a file or folder as file:///path or "
            "s3://bucket/path (its Airflow provider must be installed)."
        ) from error
    with durable_files.told(place, "be looked at"):
        if place.is_file():
            return [_known(place)]
    found = durable_files.names(place)
    if _UNFINISHED in found:
        raise ConfigurationError(
            f"files={url!r}: there is a folder {_UNFINISHED}, so a Spark job is still writing, or "
            "died while it wrote. Publish after it has ended; if it died, let it write the folder "
            "again."
        )
    names = [name for name in found if not name.startswith(("_", "."))]
    if not names and _FINISHED not in found:
        raise ConfigurationError(
            f"files={url!r}: there is no file and no folder with files. Give one that holds JSON "
            "lines or Parquet."
        )
    return [_known(place / name) for name in names]


def read_records(files: list[ObjectStoragePath]) -> Iterator[GivenRecord]:
    """Read the records of these files, numbered through.

    A line that is no JSON is returned as text, with the reason.

    :raises StagingError: a file cannot be read.
    :raises ConfigurationError: a file is not of the kind that its name says.
    """
    number = 0
    for file in files:
        rows = _parquet_rows(file) if file.name.endswith(_PARQUET) else _json_rows(file)
        with durable_files.told(file, "be read"):
            for where, record, unreadable in rows:
                number += 1
                yield GivenRecord(
                    number=number,
                    record=record,
                    where=f"{file.name}, {where}",
                    unreadable=unreadable,
                )


def _known(file: ObjectStoragePath) -> ObjectStoragePath:
    if not file.name.removesuffix(_GZIP).endswith(_JSON) and not file.name.endswith(_PARQUET):
        raise ConfigurationError(
            f"{file} is neither JSON lines (.jsonl, .ndjson, .json, each also with .gz) nor "
            "Parquet (.parquet). Give such files; a folder may hold no other files and no folders, "
            "so write a DataFrame without partitionBy."
        )
    return file


def _json_rows(file: UPath) -> Iterator[tuple[str, Any, str]]:
    with _whole(file), file.fs.open(file.path, "rb") as raw:
        plain = gzip.GzipFile(fileobj=raw) if file.name.endswith(_GZIP) else raw
        lines = io.BufferedReader(_Bytes(plain), _BUFFER)
        number = 0
        while line := lines.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise ConfigurationError(
                    f"{file}, line {number} is longer than {_LONGEST_LINE:,} bytes, which no event "
                    "is. Write one record on each line."
                )
            if line.strip():
                yield f"line {number}", *_from_json(line)


@contextmanager
def _whole(file: UPath) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ConfigurationError(
            f"{file} is no complete gzip file: {error}. Write it again; the name of a file that is "
            f"not compressed does not end with {_GZIP}."
        ) from error


class _Bytes(io.RawIOBase):
    """Raw stream that `io` can buffer; a store's own files do not bound the length of a line."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _from_json(line: bytes) -> tuple[Any, str]:
    """Parse a line; returns the record and "", or the text and the reason that it is no record."""
    try:
        return json.loads(line.rstrip(), parse_float=_number), ""
    except UnicodeDecodeError as error:
        why = f"no UTF-8 (byte {error.start + 1})"
    except json.JSONDecodeError as error:
        why = f"no JSON ({error.msg}, column {error.colno})"
    except (ValueError, RecursionError) as error:  # a number of too many digits; too many brackets
        why = f"not readable ({error})"
    text = line.decode(errors="replace").strip()
    return text, f"which is {why}; each line must be one record as JSON"


def _number(text: str) -> float | Decimal:
    """Return a double if it equals the written number, otherwise a decimal, to detect rounding."""
    if len(text) <= _PLAIN_DIGITS and "e" not in text.casefold():
        return float(text)
    number, exact = float(text), Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


def _parquet_rows(file: UPath) -> Iterator[tuple[str, Any, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with file.fs.open(file.path, "rb") as raw:
        try:
            opened = pq.ParquetFile(raw)
        except pa.ArrowInvalid as error:
            raise ConfigurationError(
                f"{file} is no Parquet file: {error}. Write it again."
            ) from error
        # Spark's usual type for times, INT96, is in UTC without saying so.
        utc = {
            column.name
            for column in map(opened.schema.column, range(len(opened.schema)))
            if column.physical_type == "INT96"
        }
        number = 0
        for batch in opened.iter_batches(batch_size=_ROWS):
            for record in _in_microseconds(batch, utc).to_pylist():
                number += 1
                yield f"row {number}", record, ""


def _in_microseconds(batch: Any, utc: set[str]) -> Any:
    """Convert times to microseconds, as Python has no nanoseconds; no event keeps those either."""
    import pyarrow as pa

    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            zone = "UTC" if name in utc else column.type.tz
            columns.append(
                column.cast(pa.timestamp("us"), safe=False).cast(pa.timestamp("us", zone))
            )
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
