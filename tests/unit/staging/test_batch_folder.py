from __future__ import annotations

import asyncio
import errno
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import layout, leases
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.parts.part_chain import chain
from airflow_provider_sfevents.staging.sidecar_files import Announced
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.staging.bucket import Budget, Effect, new_bucket
from tests.unit.staging.building import Delivered, here, manifest, receipt

if TYPE_CHECKING:
    from upath import UPath

    from airflow_provider_sfevents.staging.leases import Lease
    from airflow_provider_sfevents.staging.manifest import Manifest


@pytest.fixture
def batch(place: UPath) -> BatchFolder:
    return BatchFolder(place / "e1" / "0000000001", "e1-1")


def attempt(batch: BatchFolder, lease: Lease, start: str, *deliveries: Delivered) -> None:
    async def write() -> None:
        async with batch.writer(lease, start, deliveries[0].first) as writer:
            for delivered in deliveries:
                await writer.append(delivered)

    asyncio.run(write())


def staged_batch(batch: BatchFolder) -> Manifest:
    """Stage three events in one file, without a manifest."""
    with batch.take_lease(here()) as lease:
        attempt(batch, lease, "earliest", Delivered(0, 3))
    return manifest(parts=tuple(batch.parts()))


def test_a_new_batch_is_empty(batch: BatchFolder) -> None:
    """Reading a batch that was never written returns nothing and raises nothing."""
    assert batch.parts() == []
    assert batch.schemas() == set()
    assert batch.read_manifest() is None
    assert batch.read_receipt() is None


def test_files_of_all_attempts_are_found(batch: BatchFolder) -> None:
    """A new attempt finds the files that a killed attempt had closed."""
    with batch.take_lease(here()) as first:
        attempt(batch, first, "earliest", Delivered(0, 3))
    (kept,) = batch.parts()
    with batch.take_lease(here()) as second:
        attempt(batch, second, kept.end, Delivered(3, 2))
    assert [part.path for part in chain("earliest", batch.parts())] == [
        "attempts/0001/part-0000000000.parquet",
        "attempts/0002/part-0000000003.parquet",
    ]


def test_half_written_files_of_the_dead_are_cleared_away(batch: BatchFolder) -> None:
    """Taking over a batch removes unfinished files and no others."""
    batch.take_lease(here()).release()
    for name in (
        "attempts/0001/.part-0.parquet.ab.tmp",
        ".manifest.json.ab.tmp",
        "schemas/.x.ab.tmp",
        "attempts/0001/note",
    ):
        durable_files.replace(batch.folder / name, b"")
    batch.take_lease(here()).release()
    assert durable_files.names(batch.folder) == ["attempts", "leases"] + (
        ["schemas"] if durable_files.is_local(batch.folder) else []
    )
    assert durable_files.names(batch.folder / "attempts" / "0001") == ["note"]


def test_the_first_manifest_counts(batch: BatchFolder) -> None:
    """Of two manifests the first stays, and the second writer receives it."""
    first, second = manifest(created_at="first"), manifest(created_at="second")
    assert batch.create_manifest(first) == first
    assert batch.create_manifest(second) == first
    assert batch.read_manifest() == first


def test_an_edited_file_names_the_value(batch: BatchFolder) -> None:
    """A number that became a text, in a manifest or in a receipt's counts, is an error."""
    text = manifest().to_json().replace('"batch_number": 1,', '"batch_number": "1",')
    durable_files.replace(batch.folder / "manifest.json", text.encode())
    with pytest.raises(StagingError, match=r"manifest\.json .*`batch_number` is '1', not of type"):
        batch.read_manifest()
    text = receipt().to_json().replace('"tables": {}', '"tables": {"/lake/t": "3"}')
    durable_files.replace(batch.folder / "receipt.json", text.encode())
    with pytest.raises(StagingError, match=r"receipt\.json .*`tables` is .*not of type dict"):
        batch.read_receipt()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 1}', b'{"version": 9}', b"\xff"]
)
def test_a_damaged_manifest_is_named(batch: BatchFolder, content: bytes) -> None:
    """A manifest that cannot be parsed stops the batch; it is never taken for a missing one."""
    durable_files.replace(batch.folder / "manifest.json", content)
    with pytest.raises(StagingError, match=r"manifest\.json"):
        batch.read_manifest()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version": 1, "rows": 3}'])
def test_a_damaged_receipt_is_named(batch: BatchFolder, content: bytes) -> None:
    """A receipt that cannot be parsed is an error, neither a proof nor a missing receipt."""
    durable_files.replace(batch.folder / "receipt.json", content)
    with pytest.raises(StagingError, match=r"receipt\.json"):
        batch.read_receipt()


def test_a_receipt_is_read(batch: BatchFolder) -> None:
    """A receipt reads back as it was written."""
    durable_files.replace(batch.folder / "receipt.json", receipt().to_json().encode())
    assert batch.read_receipt() == receipt()


def test_schemas_are_kept_by_id(batch: BatchFolder) -> None:
    """Any schema id makes a file name and reads back; the first schema of an id stays."""
    for schema_id in ("pXeyY_-AbC", "a/b", "..", "ü"):
        batch.write_schema(schema_id, "{}")
    batch.write_schema("a/b", "other")
    assert batch.schemas() == {"pXeyY_-AbC", "a/b", "..", "ü"}
    assert durable_files.read(batch.folder / "schemas" / "a%2Fb.avsc") == b"{}"


def test_a_staged_batch_is_verified(batch: BatchFolder) -> None:
    """Verification reads every file of the manifest and names a missing one."""
    staged = staged_batch(batch)
    batch.verify(staged)
    with pytest.raises(StagingError, match=r"attempts/0009/gone\.parquet is missing"):
        batch.verify(
            replace(staged, parts=(replace(staged.parts[0], path="attempts/0009/gone.parquet"),))
        )


@pytest.mark.parametrize(
    ("past", "landed", "way_out"),
    [
        (False, False, r"remove .*0000000001/manifest\.json .*next run keeps the undamaged files"),
        (False, True, r"remove .*0000000001/manifest\.json \(and receipt\.json"),
        (True, True, r"landed before.*mark the task as success"),
        (True, False, r"`airflow sfevents position set orders /event/Order__e earliest`"),
    ],
    ids=["next", "next, with a receipt that does not count", "landed long ago", "left behind"],
)
def test_a_damaged_batch_says_what_to_do(
    batch: BatchFolder, past: bool, landed: bool, way_out: str
) -> None:
    """The error for a damaged batch has the remedy that fits the position and the receipt."""
    staged = staged_batch(batch)
    durable_files.remove(batch.folder / staged.parts[0].path)
    if landed:
        durable_files.replace(batch.folder / "receipt.json", receipt().to_json().encode())
    with pytest.raises(StagingError, match=way_out):
        batch.verify(staged, past=past)


def test_kept_files_are_read_through(batch: BatchFolder, caplog: pytest.LogCaptureFixture) -> None:
    """A file with damaged rows is among `parts` and not among `sound_parts`."""
    first = staged_batch(batch).parts[0]
    with batch.take_lease(here()) as lease:
        attempt(batch, lease, first.end, Delivered(3, 2))
    whole = durable_files.read(batch.folder / first.path) or b""
    durable_files.replace(batch.folder / first.path, whole[:50] + b"\0" * 50 + whole[100:])
    assert [part.first_ordinal for part in batch.parts()] == [0, 3]
    assert [part.first_ordinal for part in batch.sound_parts()] == [3]
    assert first.path in caplog.text


def test_a_batch_that_is_half_removed_is_no_batch() -> None:
    """A task killed during sweeping leaves no manifest whose files are gone."""
    bucket, place = new_bucket()
    batch = BatchFolder(place / "e1" / "0000000001", "e1-1")
    batch.create_manifest(manifest(parts=staged_batch(batch).parts))
    bucket.before = Budget(1, errno.EIO)
    with pytest.raises(StagingError):
        batch.remove()
    assert batch.read_manifest() is None
    assert len(batch.parts()) == 1


def test_trouble_after_the_lease_lets_go_of_it() -> None:
    """A lease is released if leftovers of the dead holder cannot be removed."""
    bucket, place = new_bucket()
    batch = BatchFolder(place / "e1" / "0000000001", "e1-1")
    batch.take_lease(here()).release()
    durable_files.replace(batch.folder / "attempts" / "0001" / ".part-0.parquet.ab.tmp", b"")

    def no_removing(effect: Effect) -> None:
        if effect[0] == "rm":
            raise PermissionError

    bucket.before = no_removing
    with pytest.raises(StagingError, match="cannot be removed"):
        batch.take_lease(here())
    assert leases.lease_numbers(batch.folder) == [1, 2]
    assert not leases.may_be_held(batch.folder)


def test_a_lease_without_a_waiter_is_released() -> None:
    """A lease that is written after its task was cancelled is released."""
    bucket, place = new_bucket()
    batch = BatchFolder(place / "e1" / "0000000001", "e1-1")
    writing, go_on = threading.Event(), threading.Event()

    def slow(_effect: Effect) -> None:
        writing.set()
        go_on.wait()

    async def run() -> None:
        bucket.before = slow
        leasing = asyncio.create_task(batch.take_lease_in_thread(here()))
        await asyncio.to_thread(writing.wait)
        leasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leasing
        go_on.set()

    asyncio.run(run())
    assert leases.lease_numbers(batch.folder) == [1]
    assert not leases.may_be_held(batch.folder)
    batch.take_lease(here()).release()


def test_a_batch_knows_where_it_is(batch: BatchFolder) -> None:
    """A batch's URL is absolute, has a scheme and ends as the layout says."""
    assert "://" in batch.url
    assert batch.url.endswith("/e1/0000000001")
    assert batch.manifest_url == f"{batch.url}/manifest.json"


def test_an_announcement_is_remembered(batch: BatchFolder) -> None:
    """The last announcement counts, and one that cannot be parsed counts as none."""
    assert batch.read_announced() is None
    for times in (1, 2):
        mark = Announced(events=3, at="2026-01-01T00:00:00+00:00", times=times)
        batch.write_announced(mark)
        assert batch.read_announced() == mark
    durable_files.replace(batch.folder / layout.ANNOUNCED, b'{"times": ')
    assert batch.read_announced() is None
