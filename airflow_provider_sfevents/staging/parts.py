"""Reading closed files: what their footer says, and whether their rows agree with it."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import durable, layout
from airflow_provider_sfevents.staging.checksum import Checksum
from airflow_provider_sfevents.staging.manifest import Part

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

_READ_ROWS = 5_000  # rows in memory at once while verifying; the size of a row group


def footer_of(part: Part) -> dict[str, str]:
    """What goes to the Parquet footer of a file that is about to be closed."""
    return {layout.FOOTER: json.dumps(asdict(part))}


def read_part(batch: UPath, path: str) -> Part | None:
    """What a file's footer says; `None` where it is not a complete file of ours (a copy was cut short, say).

    :param path: below the batch's folder.
    :raises StagingError: the store does not answer; that says nothing about the file.
    """
    tail = durable.read_tail(batch / path)
    try:
        metadata = pq.read_metadata(pa.BufferReader(tail or b""))
        part = Part.from_json(json.loads(metadata.metadata[layout.FOOTER.encode()]))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s is not a complete staged file and is left out: %s", batch / path, error)
        return None
    if metadata.num_rows != part.events or part.events < 1:
        log.warning(
            "%s holds %d rows where its footer says %d; it is left out.",
            batch / path,
            metadata.num_rows,
            part.events,
        )
        return None
    return replace(part, path=path)


def verify(batch: UPath, part: Part) -> None:
    """Read a file through and compare it with what is said of it.

    :raises StagingError: it is missing, unreadable, or holds something else.
    """
    said, found = asdict(part), asdict(_recompute(batch / part.path, part))
    wrong = [
        f"{name} {found[name]!r} instead of {said[name]!r}"
        for name in said
        if found[name] != said[name]
    ]
    if wrong:
        raise StagingError(
            f"Staged file {batch / part.path} does not hold what its batch says: {', '.join(wrong)}. It was changed or damaged "
            "after it was written. Restore it; or, while the bus still has the events (72 hours), remove the batch's folder: "
            "the next run fetches them again."
        )


def _recompute(path: UPath, part: Part) -> Part:
    checksum = Checksum(SCHEMA)
    ordinals: list[int] = []
    end = b""
    size = 0
    schemas: set[str] = set()
    with durable.reading(path) as file:
        for rows in pq.ParquetFile(file).iter_batches(_READ_ROWS):
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
