"""Read closed files: parse the footer, and verify that the rows agree with it."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Part
from airflow_provider_sfevents.staging.parts.part_checksum import Checksum
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from upath import UPath

log = logging.getLogger(__name__)

SCHEMA = pa.schema(
    [
        pa.field(layout.ORDINAL, pa.int64(), nullable=False),
        pa.field(layout.EVENT_ID, pa.string(), nullable=False),
        pa.field(layout.REPLAY_ID, pa.binary(), nullable=False),
        pa.field(layout.SCHEMA_ID, pa.string(), nullable=False),
        pa.field(layout.RECEIVED_AT, pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field(layout.PAYLOAD, pa.binary(), nullable=False),
    ]
)
"""Arrow schema of a staged file; the columns of `layout.STAGED_COLUMNS`."""

_READ_ROWS = 5_000  # rows in memory at once during verification; the size of a row group


def footer_of(part: Part) -> dict[str, str]:
    """Return the Parquet footer entries of a file that is about to be closed."""
    return {layout.FOOTER: json.dumps(asdict(part))}


def read_part(batch: UPath, path: str) -> Part | None:
    """Read a file's footer; None if it is not a complete staged file (a truncated copy, say).

    :param path: below the batch's folder.
    :raises StagingError: the store does not answer; that says nothing about the file.
    """
    tail = durable_files.read_tail(batch / path)
    try:
        metadata = pq.read_metadata(pa.BufferReader(tail or b""))
        part = Part.from_json(json.loads(metadata.metadata[layout.FOOTER.encode()]))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        log.warning(
            "%s is not a complete staged file and is left out: %s. Its events are fetched and "
            "paid for again.",
            batch / path,
            _in_one_line(error),
        )
        return None
    if metadata.num_rows != part.events or part.events < 1:
        log.warning(
            "%s holds %s and its footer says %d; it is left out, and its events are fetched and "
            "paid for again.",
            batch / path,
            counted(metadata.num_rows, "row"),
            part.events,
        )
        return None
    return replace(part, path=path)


def read_sound_part(batch: UPath, path: str) -> Part | None:
    """Read a file's footer and verify its rows, for a file that is to be kept.

    A file that does not agree with its footer is left out with a warning.

    :raises StagingError: the store does not answer.
    """
    part = read_part(batch, path)
    wrong = damage(batch, part) if part is not None else ""
    if part is None or not wrong:
        return part
    log.warning(
        "Staged file %s %s. It was damaged after it was written and is left out; unless another "
        "file holds the same (%s), they are fetched and paid for again.",
        batch / path,
        wrong,
        counted(part.events, "event"),
    )
    return None


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def damage(batch: UPath, part: Part) -> str:
    """Read a file through and describe what differs from its record; empty if nothing does.

    :param part: the record, from the footer or the manifest.
    :raises StagingError: the store does not answer; that says nothing about the file.
    """
    data = durable_files.read(batch / part.path)
    if data is None:
        return "is missing"
    try:
        found = asdict(_recompute(data, part))
    except Exception as error:  # noqa: BLE001 - damaged bytes make Arrow raise anything
        return f"cannot be parsed ({type(error).__name__}: {_in_one_line(error)})"
    said = asdict(part)
    wrong = [
        f"{name} {found[name]!r} instead of {said[name]!r}"
        for name in said
        if found[name] != said[name]
    ]
    return f"does not hold what its record says: {', '.join(wrong)}" if wrong else ""


def identities(batch: UPath, part: Part) -> dict[bytes, str]:
    """Read the event ids of a file, by replay id; empty if the file cannot be read.

    An event that is missing here is not left out as a duplicate.

    :raises StagingError: the store does not answer.
    """
    data = durable_files.read(batch / part.path)
    try:
        rows = pq.read_table(
            pa.BufferReader(data or b""), columns=[layout.REPLAY_ID, layout.EVENT_ID]
        )
        ids = rows[layout.REPLAY_ID].to_pylist(), rows[layout.EVENT_ID].to_pylist()
    except (pa.ArrowException, OSError, KeyError) as error:
        log.warning(
            "%s cannot be read, so its events are not recognised if they are delivered again; "
            "landing compares them: %s",
            batch / part.path,
            _in_one_line(error),
        )
        return {}
    return dict(zip(*ids, strict=True))


def last_event(batch: UPath, part: Part) -> tuple[str, bytes]:
    """Read schema id and payload of a file's last event.

    :raises StagingError: the store does not answer, or the file cannot be read.
    """
    data = durable_files.read(batch / part.path)
    try:
        file = pq.ParquetFile(pa.BufferReader(data or b""))
        rows = file.read_row_group(
            file.num_row_groups - 1, columns=[layout.SCHEMA_ID, layout.PAYLOAD]
        )
        return rows[layout.SCHEMA_ID][-1].as_py(), rows[layout.PAYLOAD][-1].as_py()
    except (pa.ArrowException, OSError, KeyError, IndexError) as error:
        raise StagingError(f"{batch / part.path} cannot be read: {_in_one_line(error)}") from error


def rows(batch: UPath, part: Part) -> list[dict[str, Any]]:
    """Read the rows of a file, by the columns of `layout.STAGED_COLUMNS`.

    :raises StagingError: the store does not answer, or the file cannot be read.
    """
    data = durable_files.read(batch / part.path)
    try:
        found = pq.read_table(pa.BufferReader(data or b""), columns=list(layout.STAGED_COLUMNS))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise StagingError(f"{batch / part.path} cannot be read: {_in_one_line(error)}") from error
    return list(found.to_pylist())


@cache
def _parquet_schema() -> pq.ParquetSchema:
    """Return the Parquet schema of a staged file: Spark reads the bytes by it."""
    empty = pa.BufferOutputStream()
    pq.write_table(SCHEMA.empty_table(), empty)
    return pq.ParquetFile(pa.BufferReader(empty.getvalue())).schema


def _recompute(data: bytes, part: Part) -> Part:
    checksum = Checksum(SCHEMA)
    ordinals: list[int] = []
    end = b""
    size = 0
    schemas: set[str] = set()
    # The bytes are read first (a file's limits bound them), so that an error of the store and a
    # damaged file are not confused.
    file = pq.ParquetFile(pa.BufferReader(data))
    if not file.schema_arrow.equals(SCHEMA) or not file.schema.equals(_parquet_schema()):
        raise ValueError("its columns are not those of a staged file")
    for rows in file.iter_batches(_READ_ROWS):
        checksum.update(rows)
        ordinals += rows[layout.ORDINAL][0].as_py(), rows[layout.ORDINAL][-1].as_py()
        end = rows[layout.REPLAY_ID][-1].as_py()
        size += pc.sum(pc.binary_length(rows[layout.PAYLOAD])).as_py()
        schemas.update(pc.unique(rows[layout.SCHEMA_ID]).to_pylist())
    return replace(
        part,
        first_ordinal=ordinals[0],
        events=ordinals[-1] - ordinals[0] + 1,
        bytes=size,
        end=end.hex(),
        sha256=checksum.hexdigest(),
        schemas=tuple(sorted(schemas)),
    )
