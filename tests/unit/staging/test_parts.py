from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import durable
from airflow_provider_sfevents.staging.parts import footer_of, read_part, verify
from airflow_provider_sfevents.staging.writer import PartWriter
from tests.unit.staging.building import Delivered, append

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.manifest import Part


def staged(place: UPath, count: int = 50) -> Part:
    async def attempt() -> list[Part]:
        writer = PartWriter(place, claim=1, start="earliest", first_ordinal=0)
        await append(writer, Delivered(0, count))
        return await writer.close()

    (part,) = asyncio.run(attempt())
    return part


def content(place: UPath, part: Part) -> bytes:
    return durable.read(place / part.path) or b""


@pytest.mark.parametrize("kept", [0, 3, 4, 100, -1, -5, -9], ids=lambda kept: f"{kept} bytes")
def test_a_torn_file_is_no_part(place: UPath, kept: int, caplog: pytest.LogCaptureFixture) -> None:
    """However much of a file is missing at its end, it is left out and the log says so."""
    part = staged(place)
    durable.replace(place / part.path, content(place, part)[:kept])
    assert read_part(place, part.path) is None
    assert "is not a complete staged file" in caplog.text


def test_every_torn_length_is_noticed() -> None:
    """There is no length at which a torn file passes for a whole one."""
    place = UPath(f"memory://{uuid.uuid4().hex}")
    part = staged(place, 2)
    whole = content(place, part)
    for kept in range(len(whole)):
        durable.replace(place / "torn", whole[:kept])
        assert read_part(place, "torn") is None


def test_somebody_elses_parquet_file_is_no_part(local_place: UPath) -> None:
    """A file without our footer is not ours."""
    folder = durable.local_path(local_place)
    folder.mkdir()
    pq.write_table(pa.Table.from_arrays([pa.nulls(1)], ["a"]), folder / "x.parquet")
    assert read_part(local_place, "x.parquet") is None


def test_a_footer_that_counts_differently_is_no_part(
    local_place: UPath, caplog: pytest.LogCaptureFixture
) -> None:
    """A footer must agree with the file's own count of rows."""
    part = staged(local_place)
    file = durable.local_path(local_place / part.path)
    table = pq.ParquetFile(file).read()
    lying = {
        key.encode(): value.encode() for key, value in footer_of(replace(part, events=51)).items()
    }
    pq.write_table(table.replace_schema_metadata(lying), file)
    assert read_part(local_place, part.path) is None
    assert "holds 50 rows where its footer says 51" in caplog.text


def test_a_moved_file_is_known_by_where_it_is(place: UPath) -> None:
    """The path is that of the file, not the one it was written at."""
    part = staged(place)
    durable.replace(place / "elsewhere.parquet", content(place, part))
    assert read_part(place, "elsewhere.parquet") == replace(part, path="elsewhere.parquet")


def test_a_changed_byte_is_noticed(place: UPath) -> None:
    """A payload that was changed on the disk does not reach Spark."""
    part = staged(place)
    other = staged(place / "other", 49)
    durable.replace(place / part.path, content(place / "other", other))
    with pytest.raises(
        StagingError,
        match=r"part-0000000000\.parquet does not hold what its batch says: .*events 49 instead of 50",
    ):
        verify(place, part)


def test_swapped_rows_are_noticed(local_place: UPath) -> None:
    """The checksum is over the rows in their order."""
    part = staged(local_place)
    file = durable.local_path(local_place / part.path)
    table = pq.ParquetFile(file).read()
    payloads = table["payload"]
    turned = pa.chunked_array([*payloads.slice(1).chunks, *payloads.slice(0, 1).chunks])
    swapped = table.set_column(5, table.schema.field(5), turned)
    pq.write_table(swapped, file)
    with pytest.raises(StagingError, match="sha256"):
        verify(local_place, part)


def test_a_missing_file_is_noticed(place: UPath) -> None:
    """Files that were swept under a manifest are named."""
    part = staged(place)
    durable.remove(place / part.path)
    with pytest.raises(StagingError, match=r"part-0000000000\.parquet cannot be read"):
        verify(place, part)


def test_an_unreadable_store_is_not_a_torn_file(local_place: UPath) -> None:
    """Where the store does not answer, nothing is said about its files."""
    part = staged(local_place)
    file = durable.local_path(local_place / part.path)
    file.unlink()
    file.mkdir()
    with pytest.raises(StagingError, match="cannot be read"):
        read_part(local_place, part.path)
