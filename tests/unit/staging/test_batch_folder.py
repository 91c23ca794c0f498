from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import BatchClaimed, StagingError
from airflow_provider_sfevents.staging import durable
from airflow_provider_sfevents.staging.batch_folder import BatchFolder
from airflow_provider_sfevents.staging.chain import chain
from tests.unit.staging.building import Delivered, append, here, manifest, receipt

if TYPE_CHECKING:
    from upath import UPath

    from airflow_provider_sfevents.staging.claims import Claim


@pytest.fixture
def batch(place: UPath) -> BatchFolder:
    return BatchFolder(place / "e1" / "0000000001", "e1-1")


def attempt(batch: BatchFolder, claim: Claim, start: str, *deliveries: Delivered) -> None:
    async def write() -> None:
        async with batch.writer(claim, start, deliveries[0].first) as writer:
            for delivered in deliveries:
                await append(writer, delivered)

    asyncio.run(write())


def test_a_new_batch_is_empty(batch: BatchFolder) -> None:
    """Of what was never written everything is absent, and nothing is an error."""
    assert batch.parts() == []
    assert batch.schemas() == set()
    assert batch.read_manifest() is None
    assert batch.read_receipt() is None


def test_files_of_all_attempts_are_found(batch: BatchFolder) -> None:
    """What a killed attempt had closed is there for the next, which goes on after it."""
    with batch.claim(here()) as first:
        attempt(batch, first, "earliest", Delivered(0, 3))
    (kept,) = batch.parts()
    with batch.claim(here()) as second:
        attempt(batch, second, kept.end, Delivered(3, 2))
    assert [part.path for part in chain("earliest", batch.parts())] == [
        "attempts/0001/part-0000000000.parquet",
        "attempts/0002/part-0000000003.parquet",
    ]


def test_a_claimed_batch_is_refused(batch: BatchFolder) -> None:
    """One task at a time."""
    with batch.claim(here()), pytest.raises(BatchClaimed):
        batch.claim(here())


def test_half_written_files_of_the_dead_are_cleared_away(batch: BatchFolder) -> None:
    """Who takes a batch over removes what was begun and not finished, and nothing else."""
    batch.claim(here()).release()
    for name in (
        "attempts/0001/.part-0.parquet.ab.tmp",
        ".manifest.json.ab.tmp",
        "schemas/.x.ab.tmp",
        "attempts/0001/note",
    ):
        durable.replace(batch.folder / name, b"")
    batch.claim(here()).release()
    assert durable.names(batch.folder) == ["attempts", "claims"] + (
        ["schemas"] if durable.is_local(batch.folder) else []
    )
    assert durable.names(batch.folder / "attempts" / "0001") == ["note"]


def test_the_first_manifest_counts(batch: BatchFolder) -> None:
    """Of two manifests the first stays, and the second writer is given it."""
    first, second = manifest(created_at="first"), manifest(created_at="second")
    assert batch.create_manifest(first) == first
    assert batch.create_manifest(second) == first
    assert batch.read_manifest() == first


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 1}', b'{"version": 9}', b"\xff"]
)
def test_a_damaged_manifest_is_named(batch: BatchFolder, content: bytes) -> None:
    """A manifest that cannot be understood stops the batch; it is never taken for none."""
    durable.replace(batch.folder / "manifest.json", content)
    with pytest.raises(StagingError, match=r"manifest\.json"):
        batch.read_manifest()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"version": 1, "rows": 3}'])
def test_a_damaged_receipt_is_named(batch: BatchFolder, content: bytes) -> None:
    """A receipt that cannot be understood is no proof and no absence."""
    durable.replace(batch.folder / "landed.json", content)
    with pytest.raises(StagingError, match=r"landed\.json"):
        batch.read_receipt()


def test_a_receipt_is_read(batch: BatchFolder) -> None:
    """What the Spark job wrote is what is read."""
    durable.replace(batch.folder / "landed.json", receipt().to_json().encode())
    assert batch.read_receipt() == receipt()


def test_schemas_are_kept_by_id(batch: BatchFolder) -> None:
    """Any id makes a file name, and comes back as it was; the first schema of an id stays."""
    for schema_id in ("pXeyY_-AbC", "a/b", "..", "ü"):
        batch.write_schema(schema_id, "{}")
    batch.write_schema("a/b", "other")
    assert batch.schemas() == {"pXeyY_-AbC", "a/b", "..", "ü"}
    assert durable.read(batch.folder / "schemas" / "a%2Fb.avsc") == b"{}"


def test_a_staged_batch_is_verified(batch: BatchFolder) -> None:
    """Every file of the manifest is read through; a missing one is named."""
    with batch.claim(here()) as claim:
        attempt(batch, claim, "earliest", Delivered(0, 3))
    staged = manifest(parts=tuple(batch.parts()))
    batch.verify(staged)
    with pytest.raises(StagingError, match=r"attempts/0009/gone\.parquet"):
        batch.verify(
            replace(staged, parts=(replace(staged.parts[0], path="attempts/0009/gone.parquet"),))
        )


def test_a_batch_knows_where_it_is(batch: BatchFolder) -> None:
    """Its address is absolute, with a scheme, and ends as the layout says."""
    assert "://" in batch.url
    assert batch.url.endswith("/e1/0000000001")
    assert batch.manifest_url == f"{batch.url}/manifest.json"
