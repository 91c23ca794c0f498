from __future__ import annotations

import asyncio
import threading
import tracemalloc
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.parts.part_chain import chain
from airflow_provider_sfevents.staging.parts.part_reader import damage, read_part
from airflow_provider_sfevents.staging.parts.part_writer import Limits, PartWriter
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.staging.building import Delivered, replay_id

if TYPE_CHECKING:
    from upath import UPath

    from airflow_provider_sfevents.staging.manifest import Part


def write(
    place: UPath,
    *deliveries: Delivered,
    start: str = "earliest",
    first: int = 0,
    limits: Limits | None = None,
) -> list[Part]:
    """Write deliveries as one attempt."""

    async def attempt() -> list[Part]:
        writer = PartWriter(place, lease=1, start=start, first_ordinal=first, limits=limits)
        for delivered in deliveries:
            await writer.append(delivered)
        return await writer.close()

    return asyncio.run(attempt())


def rows(place: UPath, part: Part) -> list[dict[str, object]]:
    data = durable_files.read(place / part.path) or b""
    return list(pq.ParquetFile(pa.BufferReader(data)).read().to_pylist())


def closed(place: UPath) -> list[str]:
    """Names of the first attempt's closed files."""
    return [
        name
        for name in durable_files.names(place / "attempts" / "0001")
        if not durable_files.is_leftover(name)
    ]


def test_every_event_is_staged_as_it_came(place: UPath) -> None:
    """Each event's ordinal, ids, time of receipt and payload are in the file, in order."""
    (part,) = write(
        place, Delivered(3, 2, received_at=1_000_001), Delivered(5, 1, received_at=2_000_002)
    )
    found = rows(place, part)
    assert list(found[0]) == list(layout.STAGED_COLUMNS)
    assert [one[layout.ORDINAL] for one in found] == [0, 1, 2]
    assert [one[layout.EVENT_ID] for one in found] == ["event-3", "event-4", "event-5"]
    assert [one[layout.REPLAY_ID] for one in found] == [replay_id(3), replay_id(4), replay_id(5)]
    assert [one[layout.SCHEMA_ID] for one in found] == ["schema-1", "schema-0", "schema-1"]
    assert [one[layout.PAYLOAD] for one in found] == [bytes(3), bytes(4), bytes(5)]
    times = [one[layout.RECEIVED_AT].isoformat() for one in found]  # type: ignore[attr-defined]
    assert times == ["1970-01-01T00:00:01.000001+00:00"] * 2 + ["1970-01-01T00:00:02.000002+00:00"]


def test_a_part_says_what_it_holds(place: UPath) -> None:
    """A part's record is the same in the returned value and in the file's footer."""
    (part,) = write(place, Delivered(3, 2), start="0a", first=7)
    assert (part.start, part.end, part.first_ordinal) == ("0a", replay_id(4).hex(), 7)
    assert (part.events, part.bytes, part.schemas) == (2, 7, ("schema-0", "schema-1"))
    assert part.path == "attempts/0001/part-0000000007.parquet"
    assert read_part(place, part.path) == part
    assert damage(place, part) == ""


def test_no_event_no_file(place: UPath) -> None:
    """An attempt without events, or with an empty delivery, leaves no file."""
    assert write(place, Delivered(0, 0)) == []
    assert durable_files.names(place) == []


@pytest.mark.parametrize(
    "limits",
    [Limits(part_events=10), Limits(part_bytes=100)],
    ids=["by events", "by bytes"],
)
def test_full_files_are_closed_and_chained(place: UPath, limits: Limits) -> None:
    """A full file is closed, and the next one starts at its end."""
    parts = write(place, *(Delivered(10 * n, 10, size=10) for n in range(4)), limits=limits)
    assert [part.events for part in parts] == [10, 10, 10, 10]
    assert chain("earliest", parts) == tuple(parts)


def test_an_old_file_is_closed_though_the_stream_is_silent(place: UPath) -> None:
    """A file is closed after `part_seconds`, even if no further event comes."""

    async def attempt() -> list[str]:
        writer = PartWriter(
            place, lease=1, start="earliest", first_ordinal=0, limits=Limits(part_seconds=0.01)
        )
        await writer.append(Delivered(0, 3))
        async with asyncio.timeout(100):
            while not closed(place):  # noqa: ASYNC110 - a closed file sends no signal
                await asyncio.sleep(0)
        await writer.append(Delivered(3, 3))
        await writer.close()
        return durable_files.names(place / "attempts" / "0001")

    assert asyncio.run(attempt()) == ["part-0000000000.parquet", "part-0000000003.parquet"]


def test_no_reader_sees_an_unfinished_file(local_place: UPath) -> None:
    """An unfinished file has a hidden name until it is closed."""

    async def attempt() -> None:
        async with PartWriter(
            local_place, lease=1, start="earliest", first_ordinal=0, limits=Limits(chunk_events=1)
        ) as writer:
            for n in range(4):
                await writer.append(Delivered(n, 1))
            found = durable_files.names(local_place / "attempts" / "0001")
            assert found
            assert all(durable_files.is_leftover(name) for name in found)

    asyncio.run(attempt())
    assert durable_files.names(local_place / "attempts" / "0001") == ["part-0000000000.parquet"]


def test_row_groups_are_bounded_by_events_and_bytes(local_place: UPath) -> None:
    """A row group is bounded by its number of events and by its bytes."""
    limits = Limits(chunk_events=4, chunk_bytes=1000)
    small, large = (
        write(local_place / name, *(Delivered(n, 1, size=size) for n in range(12)), limits=limits)[
            0
        ]
        for name, size in (("small", 1), ("large", 600))
    )
    groups = [
        pq.read_metadata(durable_files.local_path(local_place / name / part.path)).num_row_groups
        for name, part in (("small", small), ("large", large))
    ]
    assert groups == [3, 6]
    assert small.sha256 != large.sha256


deliveries = st.lists(st.integers(0, 7), min_size=1, max_size=12)


@given(deliveries, st.integers(1, 9), st.integers(1, 60), st.integers(1, 20))
@settings(
    max_examples=25,
    suppress_health_check=[
        *settings().suppress_health_check,
        HealthCheck.function_scoped_fixture,
    ],
)
def test_however_it_is_cut_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    chunk_events: int,
    chunk_bytes: int,
    part_events: int,
) -> None:
    """With any deliveries and bounds the files hold every event once, in order, and verify."""
    from upath import UPath

    place = UPath(tmp_path_factory.mktemp("cut"))
    firsts = [sum(counts[:n]) for n in range(len(counts))]
    limits = Limits(chunk_events=chunk_events, chunk_bytes=chunk_bytes, part_events=part_events)
    parts = write(
        place,
        *(Delivered(first, count) for first, count in zip(firsts, counts, strict=True)),
        limits=limits,
    )
    assert chain("earliest", parts) == tuple(parts)
    found = [row[layout.REPLAY_ID] for part in parts for row in rows(place, part)]
    assert found == [replay_id(n) for n in range(sum(counts))]
    for part in parts:
        assert damage(place, part) == ""


def test_the_checksum_knows_nothing_of_row_groups(place: UPath) -> None:
    """The same events have the same checksum in any division into row groups."""
    sums = {
        write(place / str(n), Delivered(0, 30), Delivered(30, 5), limits=Limits(chunk_events=n))[
            0
        ].sha256
        for n in (1, 20, 1000)
    }
    assert len(sums) == 1


def test_a_failing_task_keeps_what_it_received(place: UPath) -> None:
    """An exception in the block still closes the file, because its events are paid for."""

    async def attempt() -> None:
        async with PartWriter(place, lease=1, start="earliest", first_ordinal=0) as writer:
            await writer.append(Delivered(0, 3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(attempt())
    part = read_part(place, "attempts/0001/part-0000000000.parquet")
    assert part is not None
    assert part.events == 3


def test_a_cancelled_append_loses_no_chunk(place: UPath) -> None:
    """A task that is cancelled while it waits for the disk closes a file without a hole."""

    async def attempt() -> None:
        limits = Limits(chunk_events=1)
        async with PartWriter(
            place, lease=1, start="earliest", first_ordinal=0, limits=limits
        ) as writer:
            for n in range(50):
                appending = asyncio.ensure_future(writer.append(Delivered(n, 1)))
                await asyncio.sleep(0)
                appending.cancel()
                await asyncio.wait([appending])

    asyncio.run(attempt())
    part = read_part(place, "attempts/0001/part-0000000000.parquet")
    assert part is not None
    assert part.events == 50
    assert damage(place, part) == ""


def test_appending_after_the_end_is_a_mistake(place: UPath) -> None:
    """Appending to a closed writer raises an error."""

    async def attempt() -> None:
        writer = PartWriter(place, lease=1, start="earliest", first_ordinal=0)
        await writer.close()
        assert await writer.close() == []
        await writer.append(Delivered(0, 1))

    with pytest.raises(RuntimeError, match="after close"):
        asyncio.run(attempt())


@pytest.mark.parametrize(
    ("obstacle", "message"),
    [
        ("attempts/0001/part-0000000002.parquet/x", "cannot be written: Is a directory"),
        ("attempts", "cannot be created: .*A file is where a folder must be"),
    ],
    ids=["when it gets its name", "when it is begun"],
)
def test_a_file_that_cannot_be_written_ends_the_attempt(
    local_place: UPath, obstacle: str, message: str
) -> None:
    """A failed write raises an error with the path and leaves no half file and no thread."""
    durable_files.replace(local_place / obstacle, b"in the way")

    async def attempt() -> None:
        limits = Limits(part_events=2)
        async with PartWriter(
            local_place, lease=1, start="earliest", first_ordinal=0, limits=limits
        ) as writer:
            for n in range(0, 12, 2):
                await writer.append(Delivered(n, 2))

    with pytest.raises(StagingError, match=rf"attempts/0001/part-.*\.parquet {message}"):
        asyncio.run(attempt())
    found = durable_files.names(local_place / "attempts" / "0001")
    assert found in ([], ["part-0000000000.parquet", "part-0000000002.parquet"])
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith("sfevents-staging")
    ]


def test_memory_does_not_grow_with_the_batch(local_place: UPath) -> None:
    """Ten times the events need no more memory, because payloads are written as they come."""
    peaks = []
    for name, count in (("few", 20), ("many", 200)):
        tracemalloc.start()
        limits = Limits(chunk_bytes=200_000, part_bytes=2_000_000)
        write(
            local_place / name,
            *(Delivered(n, 1, size=100_000) for n in range(count)),
            limits=limits,
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 1_500_000


def test_sealing_closes_the_current_file(place: UPath) -> None:
    """`sealed` closes the current file and returns its end; the next event begins a new file."""

    async def attempt() -> tuple[str, str, list[Part]]:
        writer = PartWriter(place, lease=1, start="earliest", first_ordinal=0)
        before = await writer.sealed()
        await writer.append(Delivered(1, 3))
        sealed = await writer.sealed()
        await writer.append(Delivered(4, 2))
        return before, sealed, await writer.close()

    before, sealed, parts = asyncio.run(attempt())
    assert (before, sealed) == ("", replay_id(3).hex())
    assert [(part.start, part.events) for part in parts] == [("earliest", 3), (sealed, 2)]
