"""Checksum of a staged file: over its rows, whatever the row groups, pages and compression.

For each column, in the order of `layout.STAGED_COLUMNS`, a SHA-256 over its values. A fixed-width
column has one stream: the values as little-endian bytes. A column of varying width has two streams:
the lengths (int32, little-endian) and the concatenated values. The checksum is the SHA-256 over the
digests of all these streams, one after the other.

It is computed on whole Arrow buffers, so that an event costs a few nanoseconds more than its bytes
do.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator


class Checksum:
    """Running checksum over record batches of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._streams = [
            [hashlib.sha256() for _ in range(_stream_count(column.type))] for column in schema
        ]

    def update(self, rows: pa.RecordBatch) -> None:
        for hashes, column in zip(self._streams, rows.columns, strict=True):
            for stream, buffer in zip(hashes, _buffers(column), strict=True):
                stream.update(buffer)

    def hexdigest(self) -> str:
        """Return the checksum of all rows so far, in hex."""
        return hashlib.sha256(
            b"".join(one.digest() for hashes in self._streams for one in hashes)
        ).hexdigest()


def _stream_count(kind: pa.DataType) -> int:
    return 2 if pa.types.is_binary(kind) or pa.types.is_string(kind) else 1


def _buffers(column: pa.Array) -> Iterator[pa.Buffer]:
    if _stream_count(column.type) == 1:
        width = column.type.bit_width // 8
        yield column.buffers()[1].slice(column.offset * width, len(column) * width)
        return
    yield pc.binary_length(column).buffers()[1].slice(0, len(column) * 4)
    _, offsets, values = column.buffers()
    bounds = memoryview(offsets).cast("i")
    begin, end = bounds[column.offset], bounds[column.offset + len(column)]
    yield (values or pa.py_buffer(b"")).slice(begin, end - begin)
