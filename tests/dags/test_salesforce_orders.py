from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from tests.dags.conftest import ORDERS, rows
from tests.harness.openlineage_schemas import errors_of, facets_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dags.conftest import Deploy, Deployment
    from tests.harness.airflow_home import DagTest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

DAG = "salesforce_orders"


@dataclass
class Story:
    """State after each run."""

    here: Deployment
    published: list[str] = field(default_factory=list)
    runs: list[DagTest] = field(default_factory=list)
    positions: list[dict[str, Any]] = field(default_factory=list)
    deliveries: list[int] = field(default_factory=list)

    def run(self, *published: str) -> None:
        self.published += published
        self.runs.append(self.here.run(DAG))
        self.positions.append(self.here.position(DAG) or {})
        self.deliveries.append(self.here.bus.deliveries(ORDERS))

    def result(self, run: int) -> dict[str, Any]:
        found = self.here.airflow.xcom(DAG, self.runs[run].run_id, "land_orders")
        assert isinstance(found, dict), self.runs[run].log
        return found


@pytest.fixture(scope="module")
def story(deploy: Deploy) -> Iterator[Story]:
    """Two runs with events before each, and a third with none."""
    with deploy("salesforce_orders.py") as here:
        story = Story(here)
        here.keep_lineage()
        story.run(*here.publish(1, 25))
        story.run(*here.publish(26, 7))
        story.run()
        yield story


def test_every_event_lands_once_and_whole(story: Story) -> None:
    """The rows are the events in the order of the bus, with their values and origin."""
    landed = rows(story.here, "Order__e")
    assert [run.state for run in story.runs[:2]] == ["success", "success"], story.runs[0].log
    assert [row["replay_id"] for row in landed] == story.published
    assert [(row["Order_Number__c"], row["Amount__c"]) for row in landed] == [
        (f"A-{number}", float(number)) for number in range(1, 33)
    ]
    assert {row["event_topic"] for row in landed} == {ORDERS}
    assert {row["org_id"] for row in landed} == {story.here.bus.org.org_id}


def test_no_event_is_delivered_twice(story: Story) -> None:
    """Each run gets the events since the previous one, and no other."""
    assert story.deliveries == [25, 32, 32]
    assert story.here.bus.open_streams == 0


def test_the_position_moves_with_what_landed(story: Story) -> None:
    """The position is at the last landed event after each run, also after one without events."""
    assert [
        (position["batch_number"], position["events_total"], position["replay_id"])
        for position in story.positions[:2]
    ] == [(1, 25, story.published[24]), (2, 32, story.published[31])]
    assert story.positions[2] == story.positions[1]


def test_the_result_says_what_the_run_did(story: Story) -> None:
    """The task's XCom has the documented keys, no more and no fewer."""
    for run, (batch_number, events) in enumerate(((1, 25), (2, 7))):
        result = story.result(run)
        assert set(result) == {
            "batch_id", "batch_number", "manifest", "events", "bytes", "ended_by", "quarantined",
            "duplicates", "tables", "drift", "losses", "extra_deliveries", "reused", "rerun",
            "topic", "consumer",
            "org_id",
        }  # fmt: skip
        assert result["batch_id"] == f"{story.positions[0]['epoch']}-{batch_number}"
        assert (result["batch_number"], result["events"]) == (batch_number, events)
        assert (result["ended_by"], result["quarantined"], result["reused"]) == (
            "idle_seconds",
            0,
            False,
        )
        assert sum(result["tables"].values()) == events
        assert [change["what"] for change in result["drift"]] == ["new_table"][: 2 - batch_number]
        assert result["bytes"] > 0
        assert result["extra_deliveries"] == {}  # one delivery for each event
        assert result["manifest"].startswith(f"file://{story.here.airflow.folder}/sfevents/")


def test_a_run_without_events_is_skipped(story: Story) -> None:
    """The task shows as skipped, so that what comes after it does not run for nothing."""
    assert story.runs[2].tasks == {"land_orders": "skipped"}
    assert f"no event on {ORDERS}" in story.runs[2].log


def test_no_log_and_no_record_holds_a_secret(story: Story) -> None:
    """Neither logs nor records name the consumer secret or a token."""
    org = story.here.bus.org
    token = f"{org.org_id[:15]}!"  # how every access token begins
    written = [path.read_bytes() for path in story.here.folder.rglob("*") if path.is_file()]
    text = b"".join(written) + "".join(run.log for run in story.runs).encode()
    assert org.org_id.encode() in text
    assert [one for one in (org.consumer_secret, token) if one.encode() in text] == []


def test_tables_with_new_rows_are_assets(story: Story) -> None:
    """Each table that got rows is an asset with the rows of each batch."""
    told = story.here.airflow.asset_extras(f"file://{story.here.lake}/Order__e")
    assert [(one["rows"], one["batch_id"]) for one in told] == [
        (25, story.result(0)["batch_id"]),
        (7, story.result(1)["batch_id"]),
    ]


def test_a_task_links_to_its_position(story: Story) -> None:
    """The links lead to the batch, its tables and the org, also from a run that was skipped."""
    for run in story.runs:
        batch, tables, org = (
            story.here.airflow.xcom(DAG, run.run_id, "land_orders", key=f"_link_SfEvents{name}Link")
            for name in ("Position", "Tables", "Setup")
        )
        path = "/plugin/salesforce_events?consumer=salesforce_orders&topic=%2Fevent%2FOrder__e"
        assert batch.endswith(f"{path}&{urlencode({'run': run.run_id})}")
        assert tables == f"{batch}#tables"
        assert org == f"{story.here.bus.org.instance_url}/lightning/setup/EventObjects/home"


def test_openlineage_knows_topic_and_table(story: Story) -> None:
    """OpenLineage's listener reports the topic as input, and the table with rows and columns."""
    ended = [
        one for one in story.here.lineage() if one["eventType"] == "COMPLETE" and one["outputs"]
    ]
    assert [one["job"]["name"] for one in ended] == [f"{DAG}.land_orders"] * 2
    for event, rows_landed in zip(ended, (25, 7), strict=True):
        [source], [table] = event["inputs"], event["outputs"]
        org = f"salesforce://{story.here.bus.org.org_id}"
        assert (source["namespace"], source["name"]) == (org, "event/Order__e")
        assert (table["namespace"], table["name"]) == ("file", f"{story.here.lake}/Order__e")
        assert table["outputFacets"]["outputStatistics"]["rowCount"] == rows_landed
        fields = {one["name"] for one in table["facets"]["schema"]["fields"]}
        assert "Order_Number__c" in fields
        lines = table["facets"]["columnLineage"]["fields"]
        assert lines["Amount__c"]["inputFields"][0]["field"] == "Amount__c"
        batch = event["run"]["facets"]["sfevents_batch"]
        assert (batch["consumer"], batch["events"]) == (DAG, rows_landed)
        checks = source["inputFacets"]["dataQualityAssertions"]["assertions"]
        assert [one["success"] for one in checks] == [True, True]
        assert source["inputFacets"]["inputStatistics"]["rowCount"] == rows_landed


def test_openlineages_events_hold_to_its_schemas(story: Story) -> None:
    """Each event of each run, and each facet in it, is valid by the schema that it names."""
    events = story.here.lineage()
    assert [problem for event in events for problem in errors_of(event)] == []
    facets = {name for event in events for _, name, _ in facets_of(event)}
    assert facets >= {
        *("sfevents_batch", "schema", "columnLineage"),
        *("dataQualityAssertions", "inputStatistics", "outputStatistics"),
    }
