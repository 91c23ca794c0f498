from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging.parts.part_reader import (
    damage,
    footer_of,
    read_part,
    read_sound_part,
)
from airflow_provider_sfevents.staging.parts.part_writer import PartWriter
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.staging.building import Delivered

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.manifest import Part


def staged(place: UPath, count: int = 50) -> Part:
    async def attempt() -> list[Part]:
        writer = PartWriter(place, lease=1, start="earliest", first_ordinal=0)
        await writer.append(Delivered(0, count))
        return await writer.close()

    (part,) = asyncio.run(attempt())
    return part


def content(place: UPath, part: Part) -> bytes:
    return durable_files.read(place / part.path) or b""


@pytest.mark.parametrize("kept", [0, 3, 4, 100, -1, -5, -9], ids=lambda kept: f"{kept} bytes")
def test_a_torn_file_is_no_part(place: UPath, kept: int, caplog: pytest.LogCaptureFixture) -> None:
    """A file with a missing end is left out with a warning."""
    part = staged(place)
    durable_files.replace(place / part.path, content(place, part)[:kept])
    assert read_part(place, part.path) is None
    assert "is not a complete staged file" in caplog.text


def test_every_torn_length_is_noticed() -> None:
    """A file cut at any length is noticed."""
    place = UPath(f"memory://{uuid.uuid4().hex}")
    part = staged(place, 2)
    whole = content(place, part)
    for kept in range(len(whole)):
        durable_files.replace(place / "torn", whole[:kept])
        assert read_part(place, "torn") is None


def test_a_foreign_parquet_file_is_no_part(local_place: UPath) -> None:
    """A Parquet file without this package's footer is left out."""
    folder = durable_files.local_path(local_place)
    folder.mkdir()
    pq.write_table(pa.Table.from_arrays([pa.nulls(1)], ["a"]), folder / "x.parquet")
    assert read_part(local_place, "x.parquet") is None


def test_a_footer_that_counts_differently_is_no_part(
    local_place: UPath, caplog: pytest.LogCaptureFixture
) -> None:
    """A file whose footer has another number of rows is left out."""
    part = staged(local_place)
    file = durable_files.local_path(local_place / part.path)
    table = pq.ParquetFile(file).read()
    lying = {
        key.encode(): value.encode() for key, value in footer_of(replace(part, events=51)).items()
    }
    pq.write_table(table.replace_schema_metadata(lying), file)
    assert read_part(local_place, part.path) is None
    assert "holds 50 rows and its footer says 51" in caplog.text


def test_a_moved_file_is_known_by_where_it_is(place: UPath) -> None:
    """The path of a part is where the file is now, not where it was written."""
    part = staged(place)
    durable_files.replace(place / "elsewhere.parquet", content(place, part))
    assert read_part(place, "elsewhere.parquet") == replace(part, path="elsewhere.parquet")


def test_what_another_batch_holds_is_noticed(place: UPath) -> None:
    """A file that was exchanged for another batch's file is noticed before Spark reads it."""
    part = staged(place)
    other = staged(place / "other", 49)
    durable_files.replace(place / part.path, content(place / "other", other))
    assert "does not hold what its record says: " in damage(place, part)
    assert "events 49 instead of 50" in damage(place, part)


def test_swapped_rows_are_noticed(local_place: UPath) -> None:
    """A file with its rows in another order has another checksum."""
    part = staged(local_place)
    file = durable_files.local_path(local_place / part.path)
    table = pq.ParquetFile(file).read()
    payloads = table["payload"]
    turned = pa.chunked_array([*payloads.slice(1).chunks, *payloads.slice(0, 1).chunks])
    swapped = table.set_column(5, table.schema.field(5), turned)
    pq.write_table(swapped, file)
    assert "sha256" in damage(local_place, part)


def test_a_missing_file_is_noticed(place: UPath) -> None:
    """A missing file is reported as missing, not as damaged."""
    part = staged(place)
    assert damage(place, part) == ""
    durable_files.remove(place / part.path)
    assert damage(place, part) == "is missing"


@pytest.mark.parametrize(
    ("field", "value"),
    [("events", 51), ("bytes", 1), ("end", "0b"), ("sha256", "0" * 64), ("schemas", ("x",))],
)
def test_whatever_is_said_wrongly_is_noticed(place: UPath, field: str, value: object) -> None:
    """A difference in any value of the manifest's record of a file is noticed."""
    part = staged(place)
    said: dict[str, Any] = {field: value}
    assert f"{field} " in damage(place, replace(part, **said))


def test_no_flipped_byte_changes_an_event(caplog: pytest.LogCaptureFixture) -> None:
    """A file with a flipped byte is left out, or all of its events are unchanged."""
    place = UPath(f"memory://{uuid.uuid4().hex}")
    part = staged(place, 3)
    whole = content(place, part)
    rows = pq.read_table(pa.BufferReader(whole)).to_pylist()
    caplog.set_level("CRITICAL")
    left_out = 0
    for at in range(len(whole)):
        torn = bytearray(whole)
        torn[at] ^= 0xFF
        durable_files.replace(place / part.path, bytes(torn))
        found = read_sound_part(place, part.path)
        if found is None:
            left_out += 1
        else:
            kept = pq.ParquetFile(pa.BufferReader(bytes(torn))).read().to_pylist()
            assert kept == rows, at
            assert replace(found, start=part.start) == part, at
    assert left_out > 100


def test_a_damaged_file_whose_footer_reads_is_left_out(
    place: UPath, caplog: pytest.LogCaptureFixture
) -> None:
    """A file with an intact footer and damaged rows is left out; the log names its cost."""
    part = staged(place)
    torn = bytearray(content(place, part))
    torn[100] ^= 0xFF
    durable_files.replace(place / part.path, bytes(torn))
    assert read_part(place, part.path) == part
    assert read_sound_part(place, part.path) is None
    assert str(place / part.path) in caplog.text
    assert "the same (50 events), they are fetched and paid for again" in caplog.text


def test_an_unreadable_store_is_not_a_torn_file(local_place: UPath) -> None:
    """An error of the store is not taken for a damaged file."""
    part = staged(local_place)
    file = durable_files.local_path(local_place / part.path)
    file.unlink()
    file.mkdir()
    for look in (read_part, read_sound_part):
        with pytest.raises(StagingError, match="cannot be read"):
            look(local_place, part.path)
