"""Topics of the Streaming API through the operators: staged, landed and committed as others are."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt
from tests.integration.emulator.resting import Rest
from tests.integration.operators.conftest import ORDERS, Task
from tests.integration.operators.test_chain import file_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNTS, NOTICES = "/topic/Accounts", "/u/Notices"
CHANGES = "/data/AccountChangeEvent"


@pytest.fixture
def bus() -> Iterator[Emulator]:
    """An org with a PushTopic."""
    with Emulator(sample=True, knobs=Knobs(half_close_seconds=0.01)) as bus:
        query = "SELECT Id, Name, NumberOfEmployees, CreatedDate FROM Account"
        given = {"Name": "Accounts", "Query": query, "ApiVersion": 64.0}
        assert Rest(bus).ask("POST", "/sobjects/PushTopic", given).status == 201
        yield bus
        bus.check()


def fetch(task: Task, topic: str, **arguments: Any) -> Manifest:
    found = task.execute(SfEventsFetchOperator, task_id="fetch", topic=topic, **arguments)
    manifest = file_of(found["manifest"])
    return Manifest.from_json(manifest.read_text(), str(manifest))


def land(task: Task, **arguments: Any) -> dict[str, Any]:
    """Fetch, leave the receipt of a job that has landed all events, and commit."""
    fetched = task.execute(SfEventsFetchOperator, task_id="fetch", **arguments)
    receipt = Receipt(
        batch_id=fetched["batch_id"],
        events=fetched["events"],
        tables={"T": fetched["events"]},
        quarantined=0,
        written_at=datetime.now(UTC).isoformat(),
    )
    file_of(fetched["manifest"]).with_name(layout.RECEIPT).write_text(receipt.to_json())
    done = task.commit(SfEventsCommitOperator, fetched)
    return dict(done)


def messages(task: Task, manifest: Manifest) -> list[dict[str, Any]]:
    """Staged messages of a batch, in order."""
    [folder] = task.staging.rglob(f"{manifest.epoch}/{manifest.batch_number:010d}")
    rows = [row for part in manifest.parts for row in pq.read_table(folder / part.path).to_pylist()]
    return [json.loads(row[layout.PAYLOAD]) for row in rows]


def position(task: Task, topic: str) -> dict[str, Any]:
    key = f"sfevents.orders.{topic.lstrip('/').replace('/', '.')}"
    return dict(json.loads(task.positions[key]))


def test_a_push_topic_is_staged_and_committed(task: Task, bus: Emulator) -> None:
    """Messages of a PushTopic are staged as received, with a schema of its query's fields."""
    record = bus.create("Account", {"Name": "Acme", "NumberOfEmployees": 5})
    bus.delete(record)

    manifest = fetch(task, ACCOUNTS)

    assert (manifest.payload_format, manifest.events) == ("json", 2)
    first, second = messages(task, manifest)
    assert first["data"]["sobject"]["Name"] == "Acme"
    assert second["data"]["sobject"] == {"Id": record}
    [schema] = task.staging.rglob("schemas/*.avsc")
    fields = {one["name"]: one["type"][1] for one in json.loads(schema.read_text())["fields"]}
    assert fields == {
        "change_type": "string",
        "Id": "string",
        "Name": "string",
        "NumberOfEmployees": "int",
        "CreatedDate": "long",
    }


def test_the_next_batch_continues_after_the_last_event(task: Task, bus: Emulator) -> None:
    """Batches of at most 10 events are exact, and what came beyond starts the next one."""
    names = [f"A{at}" for at in range(25)]
    for name in names:
        bus.create("Account", {"Name": name})

    done = [land(task, topic=ACCOUNTS, max_events=10) for _ in range(3)]

    assert [one["events"] for one in done] == [10, 10, 5]
    assert all(not one["extra_deliveries"] for one in done)
    assert bus.deliveries(ACCOUNTS) == 25
    assert position(task, ACCOUNTS)["transport"] == "streaming"
    with pytest.raises(AirflowSkipException):
        fetch(task, ACCOUNTS)
    bus.create("Account", {"Name": "Late"})
    last = fetch(task, ACCOUNTS)
    assert [one["data"]["sobject"]["Name"] for one in messages(task, last)] == ["Late"]


def test_generic_events(task: Task, bus: Emulator) -> None:
    """A generic event is staged with its text."""
    channel = Rest(bus).ask("POST", "/sobjects/StreamingChannel", {"Name": NOTICES}).body["id"]
    pushed = {"pushEvents": [{"payload": "Hi", "userIds": []}]}
    Rest(bus).ask("POST", f"/sobjects/StreamingChannel/{channel}/push", pushed)

    manifest = fetch(task, NOTICES)

    assert [one["data"]["payload"] for one in messages(task, manifest)] == ["Hi"]


@pytest.mark.parametrize("topic", [ORDERS, CHANGES])
def test_a_topic_of_both_apis_by_the_chosen_one(task: Task, bus: Emulator, topic: str) -> None:
    """Platform and change events come over the Streaming API if the task says so."""
    bus.publish(ORDERS, [{"Order_Number__c": "A-1"}])
    bus.create("Account", {"Name": "Acme"})

    manifest = fetch(task, topic, transport="streaming")

    assert (manifest.payload_format, manifest.events) == ("json", 1)
    [message] = messages(task, manifest)
    assert (message["channel"], message["data"]["schema"]) == (topic, manifest.schemas[0])
    assert manifest.last_event_at


def test_the_connection_chooses(task: Task, bus: Emulator) -> None:
    """The connection's extra `transport` is the default of its tasks."""
    bus.publish(ORDERS, [{"Order_Number__c": "A-1"}])
    task.connect("sfevents_default", bus.connection(), transport="streaming")

    assert fetch(task, ORDERS).payload_format == "json"


def test_a_position_of_the_other_api_is_refused(task: Task, bus: Emulator) -> None:
    """Replay ids of one API mean nothing to the other, so the task says what to do."""
    bus.publish(ORDERS, [{"Order_Number__c": "A-1"}])
    land(task, topic=ORDERS)

    with pytest.raises(AirflowFailException, match=r"position set .* --transport streaming"):
        fetch(task, ORDERS, transport="streaming")


def test_latest_is_the_time_of_the_subscription(task: Task, bus: Emulator) -> None:
    """Events before the first run are passed over, and those between two runs are not."""
    bus.create("Account", {"Name": "Before"})
    bus.clock.advance(seconds=5)
    with pytest.raises(AirflowSkipException):
        fetch(task, ACCOUNTS, initial_replay="latest")
    assert position(task, ACCOUNTS)["replay_id"].startswith("since:")
    bus.create("Account", {"Name": "Between"})

    manifest = fetch(task, ACCOUNTS, initial_replay="latest")

    assert [one["data"]["sobject"]["Name"] for one in messages(task, manifest)] == ["Between"]
    assert manifest.extra_deliveries == {"before_start": 1}


def test_a_quiet_topic_loses_nothing(task: Task, bus: Emulator) -> None:
    """A replay id that expired while runs found no event is followed by all that is kept."""
    bus.create("Account", {"Name": "First"})
    land(task, topic=ACCOUNTS)
    bus.clock.advance(hours=48)
    bus.create("Account", {"Name": "Second"})

    manifest = fetch(task, ACCOUNTS)

    assert [one["data"]["sobject"]["Name"] for one in messages(task, manifest)] == ["Second"]
    assert not manifest.losses


@pytest.mark.parametrize(
    ("topic", "says"),
    [("/topic/Nothing", "does not exist"), ("/u/Nothing", "does not exist")],
)
def test_a_wrong_topic_begins_no_position(task: Task, topic: str, says: str) -> None:
    """A topic that the org has not is refused before anything is written."""
    with pytest.raises(AirflowException, match=says):
        fetch(task, topic)
    assert task.positions == {}
    assert task.left_behind == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"topic": ACCOUNTS, "transport": "pubsub"}, "does not have /topic/Accounts"),
        ({"topic": ORDERS, "transport": "smtp"}, "transport='smtp' is not known"),
        (
            {
                "topic": ORDERS,
                "transport": "streaming",
                "position_store": "managed",
                "managed_subscription": "Orders",
            },
            "contradict each other",
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    task: Task, arguments: dict[str, Any], says: str
) -> None:
    """Contradictions show when the DAG is parsed."""
    with pytest.raises(Exception, match=says):
        task.prepare(SfEventsFetchOperator, task_id="fetch", **arguments)
