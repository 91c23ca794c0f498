from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from tests.foreign.conftest import logged_in
from tests.foreign.test_npm_managed import wait_committed
from tests.foreign.test_npm_publish import payload as for_npm
from tests.foreign.test_npm_streams import number
from tests.foreign.test_python_clients import payload as for_pysf

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from tests.foreign.conftest import Start
    from tests.harness.airflow_home import AirflowHome
    from tests.harness.foreign_clients import ForeignClient

ORDERS = "/event/Order__e"

pytestmark = pytest.mark.full


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_what_they_publish_lands(
    bus: Emulator,
    npm: Start,
    pysf: ForeignClient,
    airflow_with_spark: AirflowHome,
    repository: Path,
    tmp_path: Path,
) -> None:
    """Events of three clients land once each by the example DAG, with their values."""
    bus.define_event("Order__e", {"Number__c": "Text", "Amount__c": "Double"})
    node = npm()
    single = node.order("publish", topic=ORDERS, payload=for_npm("one", 12.5), key="key-1")
    events = [{"id": f"key-{n}", "payload": for_npm(f"batch {n}")} for n in (2, 3, 4)]
    node.order("publishBatch", topic=ORDERS, events=events)
    [answer] = node.wait("publishResponse")
    results = pysf.order("publish", topic=ORDERS, payloads=[for_pysf("py 1"), for_pysf("py 2")])

    airflow_with_spark.environment["SFEVENTS_LAKE"] = str(tmp_path / "lake")
    airflow_with_spark.connect("sfevents_default", bus.connection())
    (airflow_with_spark.dags / "orders.py").write_text(
        (repository / "dags/salesforce_orders.py").read_text()
    )
    run = airflow_with_spark.test_dag("salesforce_orders", "2026-02-01")

    assert run.state == "success", run.log
    columns = ["event_id", "replay_id", "Number__c", "Amount__c"]
    landed = ds.dataset(tmp_path / "lake/Order__e", partitioning="hive").to_table()
    rows = [tuple(row.values()) for row in landed.select(columns).to_pylist()]
    keys = ["key-1", "key-2", "key-3", "key-4", *(one["key"] for one in results)]
    told = [single, *answer["data"]["results"]]
    replay_ids = [f"{one['replayId']:016x}0000" for one in told]
    replay_ids += [one["replay_id"] for one in results]
    names = ["one", "batch 2", "batch 3", "batch 4", "py 1", "py 2"]
    amounts = [12.5, None, None, None, 0.5, 0.5]
    assert sorted(rows) == sorted(zip(keys, replay_ids, names, amounts, strict=True))
    assert bus.deliveries(ORDERS) == 6


def test_what_we_publish_they_read(
    bus: Emulator, topic: str, npm: Start, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three clients with their own Avro libraries decode the hook's events alike."""
    monkeypatch.setenv("AIRFLOW_CONN_SF_TEST", json.dumps(bus.connection("jwt_bearer")))
    records: list[dict[str, Any]] = [
        {"Number__c": "Bäckerei", "Amount__c": 12.5},
        {"Number__c": None},
    ]
    results = SfEventsHook("sf_test").publish(topic, records)
    wanted = [
        (one.event_id, one.replay_id.hex(), record["Number__c"], record.get("Amount__c"))
        for one, record in zip(results, records, strict=True)
    ]

    node = npm()
    node.order("subscribeFromEarliest", topic=topic, count=2)
    read = [event["data"] for event in node.wait("event", 2)]
    assert [
        (one["id"], f"{one['replayId']:016x}0000", *values(one["payload"])) for one in read
    ] == wanted
    for driver in ("pysf_client.py", "aiosf_client.py"):
        client = logged_in(bus, start, driver)
        client.order("subscribe", topic=topic, replay_type="EARLIEST", count=2)
        read = client.wait("event", 2)
        assert [(one["id"], one["replay_id"], *values(one["payload"])) for one in read] == wanted


def values(payload: dict[str, Any]) -> tuple[str | None, float | None]:
    return (payload["Number__c"], payload["Amount__c"])


def test_a_managed_subscription_changes_hands(
    bus: Emulator, topic: str, npm: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook and the Node client each continue after the other's commit."""
    monkeypatch.setenv("AIRFLOW_CONN_SF_TEST", json.dumps(bus.connection("jwt_bearer")))
    earliest = {"default_replay": "EARLIEST", "error_recovery_replay": "EARLIEST"}
    managed = bus.define_managed_subscription("Shared", topic, **earliest)
    published = bus.publish(topic, [{"Amount__c": float(n)} for n in range(5)])
    first = npm()
    first.order("subscribeManaged", subscription="Shared", count=3)
    first.wait("lastEvent")
    first.order("commit", subscription=managed.id, replayId=number(published[1]))
    wait_committed(bus, "Shared", number(published[1]))
    first.stop()
    bus.wait_open_streams(0)

    assert asyncio.run(read_and_commit("Shared", topic, 2)) == [one.hex() for one in published[2:4]]

    second = npm()
    second.order("subscribeManaged", subscription="Shared", count=1)
    [event] = second.wait("event")
    assert event["data"]["replayId"] == number(published[4])


async def read_and_commit(subscription: str, topic: str, count: int) -> list[str]:
    """Read events of a managed subscription by the hook, commit some, return their ids."""
    read: list[str] = []
    async with SfEventsHook("sf_test").managed_subscribe(subscription, topic) as managed:
        async with aclosing(managed.deliveries()) as deliveries:
            async for delivery in deliveries:
                read += [replay_id.hex() for replay_id in delivery.replay_ids]
                if len(read) >= count:
                    break
        assert not await managed.commit(read[count - 1])
    return read[:count]
