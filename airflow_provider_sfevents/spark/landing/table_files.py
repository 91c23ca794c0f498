"""Parquet files of a split's rows, made by its task: one for each table and date.

The driver runs the task itself for a small batch, and writes the files; otherwise executors do.

One Spark job writes rows of one table only, so a job for each event type would be needed. Here a
task decodes the events of all types, and makes the Parquet files itself. Spark's text sink then
writes them through Spark's own file systems and commit protocol:

1. A row of the sink is a piece of a file. The sink writes its bytes as they are, and then a
   separator, for which a landing chooses the four bytes that end each Parquet file.
2. A file of much data has several pieces. A piece ends with a row group, so the separator is
   between two row groups, where readers skip it: they go by the offsets in the file's footer.
3. The landing reads the footer of each file before anything is published.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_sfevents.spark.avro.executor_tasks import by_value, judged
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.tables.file_moves import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from airflow_provider_sfevents.spark.avro.executor_tasks import Judged, Task

    _Key = tuple[str, date, int]
    Piece = tuple[str, date, int, int, bytes]
    """Table, date and split of a file; number and bytes of its piece."""

SEPARATOR = "PAR1"
"""The last four bytes of a Parquet file."""

PIECE, FILE = "piece", "file"
PARTITIONS = (envelope.TABLE, envelope.EVENT_DATE, envelope.SPLIT)
FILES_SQL = (
    f"{envelope.TABLE} string, {envelope.EVENT_DATE} date, {envelope.SPLIT} int, "
    f"{PIECE} int, {FILE} binary"
)

_MOST_HELD = 16 * 2**20  # a piece is one row of Spark, which takes several times its size

_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}
"""Names in Arrow of the codecs that Spark gives another name."""


def codec_of(compression: str) -> str:
    """Name in Arrow of a codec of `spark.sql.parquet.compression.codec`."""
    return _CODECS.get(compression.lower(), compression.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """Input of an executor's task that makes files or rows of tables.

    :param of_batch: envelope columns that are the same for all rows of the batch.
    :param tables: those that are wanted; None: all.
    :param codec: as of `codec_of`.
    :param most_held: bytes of decoded rows at which all of them are encoded and passed on.
    """

    decoding: Task
    of_batch: Mapping[str, str | int]
    tables: frozenset[str] | None
    codec: str
    most_held: int = _MOST_HELD


def table_rows(task: FileTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode staged rows, and make the rows of their tables, each with its date."""
    for batch in judged(task.decoding, batches):
        for _, rows in _by_table(task, batch):
            landed = _landed(task, rows)
            columns = dict(zip(landed.schema.names, landed.columns, strict=True))
            columns |= {name: columns[name].dictionary_decode() for name in task.of_batch}
            columns[envelope.EVENT_DATE] = rows.column(envelope.EVENT_DATE)
            yield pa.RecordBatch.from_pydict(columns)


def table_files(task: FileTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode staged rows, and make the files of their tables: rows of `FILES_SQL`."""
    files: dict[_Key, _File] = {}
    for batch in judged(task.decoding, batches):
        for key, rows in _by_file(task, batch):
            if key not in files:
                files[key] = _File(rows.schema, task.codec)
            for part, size in _parts(rows, task.most_held):
                files[key].add(part, size)
                if sum(file.held for file in files.values()) > task.most_held:
                    yield from (_row(*one, *file.cut()) for one, file in files.items() if file.held)
    yield from (_row(*key, *file.close()) for key, file in files.items())


def _parts(rows: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Divide rows into parts of about as many bytes at most, and tell the bytes of each.

    Not by `nbytes`, which ends the process for nested columns of Java's that are empty.
    """
    of_row = max(1, rows.get_total_buffer_size() // max(1, rows.num_rows))
    each = max(1, most // of_row)
    for first in range(0, rows.num_rows, each):
        part = rows.slice(first, each)
        yield part, part.num_rows * of_row


def _by_file(task: FileTask, batch: Judged) -> Iterator[tuple[_Key, pa.RecordBatch]]:
    """Divide rows by the file that they land in."""
    for table, rows in _by_table(task, batch):
        for split, of_split in by_value(rows, envelope.SPLIT):
            for day, of_day in by_value(of_split, envelope.EVENT_DATE):
                yield (table, day, split), _landed(task, of_day)


def _by_table(task: FileTask, batch: Judged) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Join the rows of each wanted table, which may be of several schemas, in the batch's order."""
    found: dict[str, list[pa.RecordBatch]] = {}
    for schema_id, (good, bad) in batch.items():
        for table, rows in ((task.decoding.names[schema_id], good), (QUARANTINE, bad)):
            if rows is not None and (task.tables is None or table in task.tables):
                found.setdefault(table, []).append(rows)
    for table, several in found.items():
        [first, *others] = several
        if others:
            [joined] = pa.Table.from_batches(several).combine_chunks().to_batches()
            first = joined.take(pc.sort_indices(joined.column(envelope.ORDINAL)))
        yield table, first


def _landed(task: FileTask, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of a table's file: those of the envelope, then the table's own ones."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    count = rows.num_rows
    ids = columns[envelope.REPLAY_ID].to_pylist()
    columns[envelope.REPLAY_ID] = pa.array([one.hex() for one in ids], pa.string())
    indexes = pa.repeat(pa.scalar(0, pa.int32()), count)
    for name, value in task.of_batch.items():
        columns[name] = pa.DictionaryArray.from_arrays(indexes, pa.array([value]))
    own = [name for name in columns if name not in {*envelope.ENVELOPE, *PARTITIONS}]
    names = [*envelope.ENVELOPE, *own]
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


class _File:
    """A Parquet file on its way.

    :ivar held: bytes of the rows that are not encoded yet.
    """

    def __init__(self, schema: pa.Schema, codec: str) -> None:
        self._encoded = io.BytesIO()
        # Arrow counts what goes through it; offsets in the footer are by this count.
        self._sink = pa.PythonFile(self._encoded, mode="w")
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression=codec, store_schema=False, write_page_index=True
        )
        self._rows: list[pa.RecordBatch] = []
        self._pieces = 0
        self.held = 0

    def add(self, rows: pa.RecordBatch, size: int) -> None:
        self._rows.append(rows)
        self.held += size

    def cut(self) -> tuple[int, bytes]:
        """Make a row group of the rows that are held; return the piece's number and bytes."""
        self._encode()
        self._sink.write(SEPARATOR.encode())
        return self._piece()

    def close(self) -> tuple[int, bytes]:
        """Return the number and bytes of the last piece."""
        self._encode()
        self._writer.close()
        return self._piece()

    def _encode(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._rows))
        self._rows, self.held = [], 0

    def _piece(self) -> tuple[int, bytes]:
        """Take what was encoded; Spark writes the separator behind it."""
        self._pieces += 1
        piece = self._encoded.getvalue().removesuffix(SEPARATOR.encode())
        self._encoded.seek(0)
        self._encoded.truncate()
        return self._pieces, piece


def _row(table: str, day: date, split: int, number: int, piece: bytes) -> pa.RecordBatch:
    arrays = [
        pa.array([table], pa.string()),
        pa.array([day], pa.date32()),
        pa.array([split], pa.int32()),
        pa.array([number], pa.int32()),
        pa.array([piece], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[*PARTITIONS, PIECE, FILE])
