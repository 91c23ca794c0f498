"""The same events over both of Salesforce's APIs give the same tables and the same records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.emulator.org.sample_org import publish_sample
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.spark import read_table
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.stores.local_files import local_path
from tests.harness.jars import or_skip
from tests.integration.batches.conftest import Consumer
from tests.integration.emulator.resting import Rest
from tests.spark.lakes import Tables, by_path
from tests.spark.orgs import CurrentState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.spark.conftest import Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

OF_TRANSPORT = frozenset(
    {
        envelope.EVENT_ID,  # only the Pub/Sub API has one of change events
        envelope.REPLAY_ID,
        envelope.RECEIVED_AT,
        envelope.BATCH_ID,
        envelope.ORDINAL,
    }
)


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator(sample=True, knobs=Knobs(half_close_seconds=0.01)) as bus:
        yield bus


def consumer(bus: Emulator, root: Path, topic: str, transport: str) -> Consumer:
    return Consumer(
        bus, root / transport, topic=topic, transport=transport, bounds=Bounds(idle_seconds=2.0)
    )


def staged(of: Consumer) -> str:
    """Stage all events; returns the manifest's path."""
    found = of.stage()
    assert isinstance(found, Staged)
    found.release()
    return str(local_path(found.folder.manifest_url))


def rows(tables: Tables, name: str) -> list[str]:
    """Rows of an event table, without what differs by transport."""
    found = read_table(tables.spark, tables.table, name).drop(*OF_TRANSPORT)
    return sorted(str(row) for row in found.collect())


@pytest.mark.parametrize(
    ("topic", "names"),
    [
        ("/event/Sales__chn", ["Order__e", "Shipment__e"]),
        ("/data/ChangeEvents", ["AccountChangeEvent", "ContactChangeEvent"]),
    ],
)
def test_both_transports_land_the_same_rows(
    spark: Any, bus: Emulator, tmp_path: Path, topic: str, names: list[str]
) -> None:
    """Event tables differ in replay ids and in the ids of change events alone."""
    publish_sample(bus.org, 300, seed=11)
    lakes = {}
    for transport in ("pubsub", "streaming"):
        lakes[transport] = by_path("parquet", spark, tmp_path / "lake" / transport)
        receipt = lakes[transport].land(staged(consumer(bus, tmp_path, topic, transport)))
        assert (receipt.quarantined, receipt.duplicates) == (0, 0)
        landed = sorted(url.rpartition("/")[2] for url in receipt.tables)
        assert landed == names
    for name in names:
        found = rows(lakes["streaming"], name)
        assert found == rows(lakes["pubsub"], name)
        assert found


def test_a_push_topic_in_a_table(spark: Any, bus: Emulator, tmp_path: Path) -> None:
    """A PushTopic's records are rows with the kind of change and typed fields."""
    query = "SELECT Id, Name, NumberOfEmployees, LastModifiedDate FROM Account"
    given = {"Name": "Accounts", "Query": query, "ApiVersion": 64.0}
    assert Rest(bus).ask("POST", "/sobjects/PushTopic", given).status == 201
    record = bus.create("Account", {"Name": "Acme", "NumberOfEmployees": 2**30})
    bus.delete(record)
    lake = by_path("parquet", spark, tmp_path / "lake")

    receipt = lake.land(staged(consumer(bus, tmp_path, "/topic/Accounts", "streaming")))

    assert receipt.tables == {f"{lake.table}/Accounts": 2}
    columns = ("batch_ordinal", "change_type", "Id", "Name", "NumberOfEmployees")
    assert lake.rows("Accounts", *columns) == [
        (0, "created", record, "Acme", 2**30),
        (1, "deleted", record, None, None),
    ]
    assert lake.rows("Accounts", "event_time is not null", "LastModifiedDate is not null") == [
        (True, False),
        (True, True),
    ]


def test_a_filtered_push_topic(spark: Any, bus: Emulator, tmp_path: Path) -> None:
    """A filter selects records; it is a topic of its own, whose batches Spark finds."""
    given = {"Name": "ByName", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 64.0}
    assert Rest(bus).ask("POST", "/sobjects/PushTopic", given).status == 201
    for name in ("Acme", "Other"):
        bus.create("Account", {"Name": name})
    lake = by_path("parquet", spark, tmp_path / "lake")
    of = consumer(bus, tmp_path, "/topic/ByName?Name=Acme", "streaming")
    path = staged(of)
    assert "/topic.ByName-3fName-3dAcme/" in path

    lake.land(path)

    assert lake.rows("ByName", "Name", "event_topic") == [("Acme", "/topic/ByName?Name=Acme")]


@pytest.mark.full
def test_both_transports_make_the_same_records(
    spark: Any, staging: Staging, bus: Emulator, tmp_path: Path, jars: Any
) -> None:
    """Current state is the same by both APIs, emptied fields and deletions included."""
    or_skip(lambda: jars.iceberg)
    publish_sample(bus.org, 300, seed=5)
    record = bus.create("Account", {"Name": "Acme", "Industry": "Retail"})
    bus.update(record, {"Industry": None})
    bus.delete(bus.create("Account", {"Name": "Gone"}))
    found = {}
    for transport in ("pubsub", "streaming"):
        state = CurrentState(spark, str(tmp_path / f"state {transport}"), "iceberg", staging)
        counts = state.apply(staged(consumer(bus, tmp_path, "/data/ChangeEvents", transport)))
        assert counts["unapplied"] == 0
        found[transport] = {
            entity: [
                {name: value for name, value in row.items() if not name.startswith("_")}
                for row in state.rows(entity)
            ]
            for entity in ("Account", "Contact")
        }
    assert found["streaming"] == found["pubsub"]
    assert found["pubsub"]["Contact"]
