from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.dags.conftest import rows
from tests.harness.openlineage_schemas import errors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dags.conftest import Deploy, Deployment
    from tests.harness.airflow_home import DagTest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

DAG = "salesforce_changes_chain"
CHANGES = "/data/ChangeEvents"
ACME, BERG, ANN = "001000000000001AAA", "001000000000002AAA", "003000000000001AAA"


@dataclass
class Story:
    here: Deployment
    quiet: DagTest
    quiet_position: dict[str, Any] | None
    busy: DagTest
    last: str

    def result(self, task: str) -> dict[str, Any]:
        found = self.here.airflow.xcom(DAG, self.busy.run_id, task)
        assert isinstance(found, dict), self.busy.log
        return found


@pytest.fixture(scope="module")
def story(deploy: Deploy) -> Iterator[Story]:
    """A run with nothing to fetch, changes of two record types, a run."""
    with deploy("salesforce_changes_chain.py") as here:
        here.keep_lineage()
        quiet = here.run(DAG)
        quiet_position = here.position(DAG, CHANGES)
        here.bus.change("Account", "CREATE", ACME, {"Name": "Acme", "AnnualRevenue": 1.5e6})
        here.bus.change("Account", "CREATE", BERG, {"Name": "Berg"})
        here.bus.change("Contact", "CREATE", ANN, {"Email": "ann@acme.example"})
        here.bus.change("Account", "UPDATE", [ACME, BERG], {"Phone": "+00 555 1"})
        last = here.bus.change("Account", "DELETE", BERG)
        busy = here.run(DAG)
        yield Story(here, quiet, quiet_position, busy, last.hex())


def test_a_run_without_changes_skips_the_chain(story: Story) -> None:
    """With nothing fetched no Spark is started; the position was begun and has not moved."""
    assert set(story.quiet.tasks.values()) == {"skipped"}, story.quiet.log
    assert story.quiet_position is not None
    assert (story.quiet_position["batch_number"], story.quiet_position["replay_id"]) == (
        0,
        "earliest",
    )


def test_each_record_type_lands_in_its_table(story: Story) -> None:
    """All change events of the run, by type, with the header's words for what happened."""
    assert set(story.busy.tasks.values()) == {"success"}, story.busy.log
    accounts = rows(story.here, "AccountChangeEvent")
    contacts = rows(story.here, "ContactChangeEvent")
    headers = [row["ChangeEventHeader"] for row in accounts]
    assert [header["changeType"] for header in headers] == ["CREATE", "CREATE", "UPDATE", "DELETE"]
    assert headers[2]["recordIds"] == [ACME, BERG]
    assert "Phone" in headers[2]["changedFields"]
    assert [row["Email"] for row in contacts] == ["ann@acme.example"]


def test_the_commit_tells_what_the_chain_did(story: Story) -> None:
    """The chain's last task has the result; rows by table add up to the events fetched."""
    fetched, committed = story.result("fetch"), story.result("commit")
    assert sum(committed["tables"].values()) == committed["events"] == fetched["events"] == 5
    assert committed["batch_id"] == fetched["batch_id"]
    position = story.here.position(DAG, CHANGES)
    assert position is not None
    assert (position["batch_number"], position["replay_id"]) == (1, story.last)
    assert position["committed_by"]["task"] == "commit"
    assert position["owner"] == f"{DAG}.fetch"
    assert story.here.bus.deliveries(CHANGES) == 5


def test_the_commit_is_what_openlineage_knows_the_tables_by(story: Story) -> None:
    """The chain's last task has topic and tables; every event is valid by OpenLineage's schemas."""
    events = story.here.lineage()
    assert [problem for event in events for problem in errors_of(event)] == []
    [done] = [one for one in events if one["eventType"] == "COMPLETE" and one["outputs"]]
    assert done["job"]["name"] == f"{DAG}.commit"
    assert [one["name"] for one in done["inputs"]] == ["data/ChangeEvents"]
    written = {
        one["name"]: one["outputFacets"]["outputStatistics"]["rowCount"] for one in done["outputs"]
    }
    assert written == {
        f"{story.here.lake}/AccountChangeEvent": 4,
        f"{story.here.lake}/ContactChangeEvent": 1,
    }


def test_what_tasks_hand_on_holds_no_secret(story: Story) -> None:
    """The XCom of the fetch for the Spark task holds no secret."""
    text = json.dumps([story.result("fetch"), story.result("commit")])
    assert story.here.bus.org.consumer_secret not in text
    assert "!" not in text
