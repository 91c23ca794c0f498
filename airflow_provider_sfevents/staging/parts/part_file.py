"""One staged file while it is written: takes chunks of events, makes a closed Parquet file.

Runs in the writer's thread.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.parts.part_checksum import Checksum
from airflow_provider_sfevents.staging.parts.part_reader import SCHEMA, footer_of
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upath import UPath

    from airflow_provider_sfevents.staging.manifest import Part


COMPRESSION = "lz4"
"""Half of zstd's time at its lowest level; files are a quarter larger, and kept only briefly."""


class Received(Protocol):
    """Events of one delivery, as columns of equal length.

    `received_at` is in microseconds since the Unix epoch.
    """

    @property
    def ids(self) -> Sequence[str]: ...

    @property
    def replay_ids(self) -> Sequence[bytes]: ...

    @property
    def schema_ids(self) -> Sequence[str]: ...

    @property
    def payloads(self) -> Sequence[bytes]: ...

    @property
    def received_at(self) -> int: ...


@dataclass(slots=True, kw_only=True)
class Chunk:
    """Events in columns, waiting to become one row group.

    :param ordinal: of the first event.
    :param size: sum of the payloads' sizes, in bytes.
    :param received: per delivery: its time (microseconds since the epoch) and its number of events.
    """

    ordinal: int
    size: int = 0
    ids: list[str] = field(default_factory=list)
    replay_ids: list[bytes] = field(default_factory=list)
    schema_ids: list[str] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    received: list[tuple[int, int]] = field(default_factory=list)

    def add(self, delivery: Received) -> int:
        """Add a delivery; returns the sum of its payloads' sizes in bytes."""
        size = sum(map(len, delivery.payloads))
        self.size += size
        self.ids += delivery.ids
        self.replay_ids += delivery.replay_ids
        self.schema_ids += delivery.schema_ids
        self.payloads += delivery.payloads
        self.received.append((delivery.received_at, len(delivery.ids)))
        return size

    def rows(self) -> pa.RecordBatch:
        received_at = array("q")
        for at, count in self.received:
            received_at.extend(array("q", [at]) * count)
        columns = [
            _fixed(layout.ORDINAL, array("q", range(self.ordinal, self.ordinal + len(self.ids)))),
            _text(layout.EVENT_ID, self.ids),
            _varying(layout.REPLAY_ID, self.replay_ids),
            _text(layout.SCHEMA_ID, self.schema_ids),
            _fixed(layout.RECEIVED_AT, received_at),
            _varying(layout.PAYLOAD, self.payloads),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


# Arrow arrays are made from buffers, not by `pa.array(values)`: that would import pandas first, to
# see whether a list may be a pandas object, which costs a task most of a second and 40 MB.


def _fixed(name: str, values: array[int]) -> pa.Array:
    return pa.Array.from_buffers(SCHEMA.field(name).type, len(values), [None, pa.py_buffer(values)])


def _text(name: str, values: list[str]) -> pa.Array:
    """Make a string array; ids are ASCII (one byte per character), so all are encoded at once."""
    joined = "".join(values)
    if not joined.isascii():
        return _varying(name, [one.encode() for one in values])
    return _joined(name, values, joined.encode())


def _varying(name: str, values: list[bytes]) -> pa.Array:
    return _joined(name, values, b"".join(values))


def _joined(name: str, values: Sequence[str] | Sequence[bytes], joined: bytes) -> pa.Array:
    offsets = array("i", accumulate(map(len, values), initial=0))
    return pa.Array.from_buffers(
        SCHEMA.field(name).type, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
    )


class PartFile:
    """A staged file that no reader sees before `close` gives it its name.

    On a local disk it grows under a hidden name in the same folder. For an object store it is kept
    in memory, which a part's limits bound, so that a killed task leaves no file in a temporary
    folder.

    :param folder: the attempt's folder.
    :raises StagingError: it cannot be created.
    """

    def __init__(self, folder: UPath, first_ordinal: int) -> None:
        self._target = folder / layout.part_name(first_ordinal)
        self._hidden = (
            durable_files.hidden_beside(self._target) if durable_files.is_local(folder) else None
        )
        with durable_files.told(self._target, "be created"):
            self._sink: Any = (
                durable_files.open_new(self._hidden) if self._hidden else pa.BufferOutputStream()
            )
        self._checksum = Checksum(SCHEMA)
        self._parquet = pq.ParquetWriter(
            self._sink,
            SCHEMA,
            # Replay ids, event ids and payloads hardly ever repeat, so a dictionary of them saves
            # nothing.
            use_dictionary=[layout.SCHEMA_ID],
            compression=COMPRESSION,
            write_statistics=False,
        )

    def write(self, chunk: Chunk) -> None:
        """Write a chunk as a row group.

        :raises StagingError: it cannot be written.
        """
        rows = chunk.rows()
        self._checksum.update(rows)
        with durable_files.told(self._target, "be written"):
            self._parquet.write_batch(rows)

    def close(self, said: Part) -> Part:
        """Finish the file and give it its name; from here on it outlives this process.

        :param said: the part without its checksum.
        :return: the part with its checksum.
        :raises StagingError: it cannot be written.
        """
        part = replace(said, sha256=self._checksum.hexdigest())
        with durable_files.told(self._target, "be written"):
            self._parquet.add_key_value_metadata(footer_of(part))
            self._parquet.close()
        if self._hidden is None:
            durable_files.replace(self._target, self._sink.getvalue().to_pybytes())
            return part
        with durable_files.told(self._target, "be written"):
            self._sink.close()
        durable_files.reveal(self._hidden, self._target)
        return part

    def discard(self) -> None:
        """Remove the unfinished file."""
        # It is discarded because it could not be written; closing it may fail for the same reason.
        for close in (self._parquet.close, self._sink.close):
            with suppress(Exception):
                close()
        if self._hidden is not None:
            with suppress(OSError):
                self._hidden.unlink(missing_ok=True)
