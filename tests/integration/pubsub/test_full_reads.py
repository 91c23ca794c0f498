"""Full records of the emulated org into a folder, over REST and by the Bulk API."""

from __future__ import annotations

import asyncio
import csv
import gc
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from upath import UPath

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    StagingError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.rest import bulk_query
from airflow_provider_sfevents.pubsub.rest.entity_snapshot import SnapshotRequest, read_records
from airflow_provider_sfevents.pubsub.rest.field_selection import change_topic
from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
from airflow_provider_sfevents.staging.snapshot_files import ReadFolder, ReadManifest
from tests.cluster import store as s3
from tests.integration.pubsub.emulated import settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = 'Two\nlines, "quoted"'


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(query_batch=200, bulk_polls=1, half_close_seconds=0.01)) as bus:
        with bus.transaction() as changes:
            for number in range(450):
                changes.create("Account", {"Name": f"A{number}", "BillingCity": "Porto"})
        bus.create("Contact", {"LastName": "Silva", "Description": TEXT})
        bus.define_object("Opportunity")
        yield bus
        bus.check()


def read(
    bus: Emulator, folder: Path, entity: str, **wanted: Any
) -> tuple[ReadFolder, ReadManifest]:
    """Read, with a login of its own."""

    async def run() -> tuple[ReadFolder, ReadManifest]:
        settings, sessions = settings_of(bus), SessionCache()
        async with (
            PubSubClient(settings, sessions=sessions) as client,
            RestCalls(settings, sessions=sessions, pause_seconds=0.0) as rest,
        ):
            topic = await client.get_topic(change_topic(entity))
            schema = await client.get_schema(topic.schema_id)
            return await read_records(
                rest, schema, SnapshotRequest(entity=entity, **wanted), UPath(folder)
            )

    return asyncio.run(run())


def rows(folder: ReadFolder) -> list[dict[str, Any]]:
    """Rows of all files of a read."""
    found: list[dict[str, Any]] = []
    for path in sorted((folder.folder / "records").iterdir()):
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file) if path.suffix == ".csv" else map(json.loads, file)
            found += lines
    return found


@pytest.mark.parametrize("way", ["bulk", "rest"])
def test_every_record_of_an_object_is_read(bus: Emulator, tmp_path: Path, way: str) -> None:
    """REST pages and Bulk parts give the same records with the same fields."""
    folder, manifest = read(bus, tmp_path, "Account", read_by=way)
    found = rows(folder)
    assert len(found) == manifest.records == 450
    assert {one["Id"] for one in found} == {one["Id"] for one in bus.records("Account")}
    assert {one["BillingCity"] for one in found} == {"Porto"}
    assert (
        {"Id", "Name", "BillingCity", "LastModifiedDate"} <= set(found[0]) == set(manifest.fields)
    )
    assert (manifest.whole, manifest.read_by, manifest.unseen) == (True, way, ())


@pytest.mark.parametrize("way", ["bulk", "rest"])
def test_texts_come_as_they_are(bus: Emulator, tmp_path: Path, way: str) -> None:
    """Line ends, commas and quotes survive, and a person's name is read by its parts."""
    folder, _ = read(bus, tmp_path, "Contact", read_by=way)
    [found] = rows(folder)
    assert (found["LastName"], found["Description"]) == ("Silva", TEXT)
    assert "Name" not in found


@pytest.mark.parametrize("way", ["bulk", "rest"])
def test_an_object_without_records(bus: Emulator, tmp_path: Path, way: str) -> None:
    """A read without records is complete, with a count of 0."""
    folder, manifest = read(bus, tmp_path, "Opportunity", read_by=way)
    assert (rows(folder), manifest.records) == ([], 0)
    assert (folder.folder / "read.json").exists()


def test_the_read_begins_when_the_org_says(bus: Emulator, tmp_path: Path) -> None:
    """The read's time is of an answer before the first record, in whole seconds."""
    before = datetime.now(UTC) - timedelta(minutes=1)
    _, manifest = read(bus, tmp_path, "Account")
    read_at = datetime.fromisoformat(manifest.read_at)
    assert before < read_at <= datetime.now(UTC)
    assert (read_at.microsecond, manifest.read_by) == (0, "bulk")


def test_single_records_are_read_and_missing_ones_are_told(bus: Emulator, tmp_path: Path) -> None:
    """Single records are read by ids of both lengths, and missing ones listed as deleted."""
    gone = bus.create("Account", {"Name": "Gone"})
    bus.delete(gone)
    kept = [one["Id"] for one in bus.records("Account")][:3]
    folder, manifest = read(
        bus, tmp_path, "Account", ids=(kept[0][:15], kept[1], kept[2], gone[:15])
    )
    assert sorted(one["Id"] for one in rows(folder)) == sorted(kept)
    assert (folder.folder / "deleted.txt").read_text() == f"{gone}\n"
    assert (manifest.records, manifest.deleted, manifest.whole) == (3, 1, False)
    assert manifest.read_by == "rest"


def test_single_records_of_a_wide_object(bus: Emulator, tmp_path: Path) -> None:
    """Queries for records by id keep within Salesforce's limit on a URI, whatever the fields."""
    fields = {f"Twenty_characters{number:03}__c": "Double" for number in range(400)}
    bus.define_object("Wide__c", fields)
    with bus.transaction() as changes:
        ids = [
            changes.create("Wide__c", {"Twenty_characters399__c": number}) for number in range(250)
        ]
    folder, manifest = read(bus, tmp_path, "Wide__c", ids=tuple(ids))
    assert (manifest.records, manifest.deleted) == (250, 0)
    assert {one["Twenty_characters399__c"] for one in rows(folder)} == set(range(250))


@pytest.mark.parametrize("ids", [("001000000000001",), None], ids=["by id", "as a whole"])
def test_an_object_whose_fields_do_not_fit_into_a_query(
    bus: Emulator, tmp_path: Path, ids: tuple[str, ...] | None
) -> None:
    """The error of fields that are too many for REST says that the Bulk API reads them."""
    fields = {f"Name_of_thirty_characters_{number:03}__c": "Double" for number in range(450)}
    bus.define_object("Wider__c", fields)
    with pytest.raises(ConfigurationError, match=r"fields of Wider__c .* read_by='bulk'"):
        read(bus, tmp_path, "Wider__c", ids=ids, read_by="rest")
    assert not list(tmp_path.rglob("read.json"))


def test_a_large_object_comes_in_parts(bus: Emulator, tmp_path: Path) -> None:
    """Each part of a large object is a file, so that a broken connection costs one part."""

    async def run(folder: ReadFolder) -> int:
        async with RestCalls(settings_of(bus), sessions=SessionCache()) as rest:
            return await bulk_query.read_job(rest, "Account", "SELECT Id FROM Account", folder, 200)

    folder = ReadFolder(UPath(tmp_path / "read"))
    assert asyncio.run(run(folder)) == 450
    assert len(list((tmp_path / "read/records").iterdir())) == 3
    assert len({one["Id"] for one in rows(folder)}) == 450


def test_a_part_that_breaks_off_leaves_no_upload() -> None:
    """In an object store, a file of records that breaks off is neither there nor billed."""
    broken = TransportError("the connection broke")

    def break_off(root: UPath) -> None:
        with ReadFolder(root).part(1, "csv") as file:
            file.write(b"a" * 6 * 2**20)
            assert "Uploads" in store.client().list_multipart_uploads(Bucket=s3.BUCKET)
            raise broken

    with s3.running() as store:
        root = UPath(
            f"s3://{s3.BUCKET}/read",
            key=s3.KEY,
            secret=s3.SECRET,
            client_kwargs={"endpoint_url": store.endpoint, "region_name": s3.REGION},
            default_block_size=5 * 2**20,
            skip_instance_cache=True,
        )
        with pytest.raises(TransportError):
            break_off(root)
        assert "Uploads" not in store.client().list_multipart_uploads(Bucket=s3.BUCKET)
        broken.__traceback__ = None  # which has held the file
        gc.collect()
        assert store.keys("read") == []


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("", 0),
        ("Id\n", 0),
        ("Id\n1\n2\n", 2),
        ("Id\n1\n2", 2),
        ('"Id","Name"\n"1","a ""b""\nc"\n', 1),
        ('"Id","Name"\n"1","a"\n"2","b', 1),
        ("<html>\n<body>\n\n</body>", 3),
    ],
)
def test_records_of_a_part_are_counted_as_they_come(text: str, records: int) -> None:
    """Line breaks within quotes end no record, and a record that ends within quotes is none."""
    for size in (1, 2, 99):
        count = bulk_query.CsvCount()
        for at in range(0, len(text), size):
            count.add(text[at : at + size].encode())
        assert count.records == records


@pytest.mark.parametrize("way", ["bulk", "rest"])
@pytest.mark.parametrize("status", ["UNAVAILABLE", "ABORTED"], ids=["away", "concurrency"])
def test_what_passes_is_tried_again(bus: Emulator, tmp_path: Path, way: str, status: str) -> None:
    """A read survives a moment without the server, too many requests, and an expired session."""
    bus.fail_next("rest", status=status)
    _, manifest = read(bus, tmp_path, "Account", read_by=way)
    bus.fail_next("rest", status="UNAUTHENTICATED")
    assert read(bus, tmp_path, "Account", read_by=way)[1].records == manifest.records


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (
            {"status": "UNAVAILABLE", "times": 3},
            TransportError,
            "Describing Account: HTTP 503 SERVER_UNAVAILABLE",
        ),
        (
            {"status": "UNAUTHENTICATED", "times": 2},
            AuthenticationError,
            "does not take the session",
        ),
        ({"status": "RESOURCE_EXHAUSTED"}, QuotaExceededError, "requests of 24 hours are used up"),
    ],
)
def test_a_read_that_cannot_be(
    bus: Emulator, tmp_path: Path, fault: dict[str, Any], kind: type[Exception], said: str
) -> None:
    """A failed read raises one line with the request and the remedy, and does not count."""
    bus.fail_next("rest", **fault)
    with pytest.raises(kind, match=said) as raised:
        read(bus, tmp_path, "Account")
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.rglob("read.json"))


def test_an_object_that_is_not_there(bus: Emulator, tmp_path: Path) -> None:
    """A mistyped object raises an error that names its topic."""
    with pytest.raises(ConfigurationError, match="AcountChangeEvent"):
        read(bus, tmp_path, "Acount")


def test_a_full_disk_is_told_as_such(bus: Emulator, tmp_path: Path) -> None:
    """A folder that cannot be written is a staging error, and half of a read does not count."""
    (tmp_path / "_reads").write_text("in the way")
    with pytest.raises(StagingError, match="cannot be created"):
        read(bus, tmp_path, "Account")


@pytest.mark.parametrize("ids", [("001",), ("' OR Name != '",)])
def test_what_is_no_record_id_is_not_asked_for(ids: tuple[str, ...]) -> None:
    """A malformed record id is refused, because it would become part of a query."""
    with pytest.raises(ConfigurationError, match="is no record id of Account"):
        SnapshotRequest(entity="Account", ids=ids)
