from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_sfevents.operators.chain import SfEventsCommitOperator, SfEventsFetchOperator
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder, LeaseState
from airflow_provider_sfevents.staging.manifest import Run
from tests.integration.commands.registered import register, run_once, states
from tests.unit.positions.building import TOPIC

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position
    from tests.integration.commands.conftest import Hands

pytestmark = pytest.mark.airflow


def test_batches_are_listed_with_their_states(hands: Hands, begun_here: Position) -> None:
    """Batches are listed with their states, and the next run is described."""
    hands.stage(hands.commit(begun_here))
    listed = hands.do("batches", "list")
    assert (
        "The next run lands batch e1-2 (3 events), which is staged, and commits it" in listed.words
    )
    rows = json.loads(hands.do("batches", "list", "-o", "json").said)
    assert [(row["batch_id"], row["state"], row["events"]) for row in rows] == [
        ("e1-1", "committed", 3),
        ("e1-2", "staged", 3),
    ]


def test_a_batch_whose_holder_is_gone_is_released(hands: Hands, begun_here: Position) -> None:
    """The lease of a dead process on this machine is released without watching."""
    folder = hands.folder.batch(begun_here.epoch, 1).folder
    gone = LeaseHolder(
        host="here",
        pid=1,
        pid_space=LeaseHolder.here(Run(), "").pid_space,
        process_start="long ago",
        leased_at="2026-01-01T00:00:00+00:00",
        run=Run(dag="load", run="run-7", task="fetch"),
    )
    leases.take(folder, gone).release()
    (folder / "leases" / "0001.released").unlink()
    released = hands.do("batches", "release", "e1-1")
    assert "is held by task load.fetch of run run-7" in released.words
    assert "Batch e1-1 is released. The next run fetches batch e1-1" in released.words
    seen = leases.observe(folder)
    assert seen is not None
    assert seen.state is LeaseState.FREE
    assert "Batch e1-1 is not held." in hands.do("batches", "release", "e1-1").words
    assert "There is no batch e1-11." in hands.do("batches", "release", "e1-11").refused


def test_a_batch_at_work_is_released_only_by_force(hands: Hands, begun_here: Position) -> None:
    """A held batch is released only with `--force`, and its holder gives way at its next check."""
    folder = hands.folder.batch(begun_here.epoch, 1).folder
    with leases.take(folder, LeaseHolder.here(Run(dag="load", task="fetch"), "")):
        refused = hands.do("batches", "release", "e1-1")
        assert "The holder is at work. Nothing was changed." in refused.refused
        assert f"release {hands.consumer} {TOPIC} e1-1 --force" in refused.refused
        assert not hands.do("batches", "release", "e1-1", "--force", "-y").refused
        seen = leases.observe(folder)
        assert seen is not None
        assert seen.state is LeaseState.FREE


def test_a_batch_is_landed_again_by_its_own_task(hands: Hands, begun_here: Position) -> None:
    """Relanding clears only the task that staged the batch; a dry run clears nothing."""
    dag_id = hands.consumer
    with DAG(dag_id, schedule=None) as dag:
        EmptyOperator(task_id="land") >> EmptyOperator(task_id="report")
    register(dag)
    run_once(dag_id, "run-1")
    at = hands.commit(begun_here, run=Run(dag=dag_id, run="run-1", task="land"))
    would = hands.do("batches", "reland", "e1-1", "--dry-run")
    assert f"Of run run-1 of DAG {dag_id}, these are cleared: land." in would.words
    before = {"land": "success", "report": "success", "run-1": "success"}
    assert states(dag_id, "run-1") == before
    done = hands.do("batches", "reland", "e1-1", "-y")
    assert "1 task instance cleared." in done.words
    assert states(dag_id, "run-1") == {**before, "land": "None", "run-1": "queued"}
    assert hands.kept() == at


def test_a_chain_is_cleared_to_its_end(hands: Hands, begun_here: Position) -> None:
    """In a chain, the Spark and commit tasks after the fetch are cleared, too."""
    dag_id = hands.consumer
    with DAG(dag_id, schedule=None) as dag:
        fetch = SfEventsFetchOperator(task_id="fetch", topic=TOPIC)
        spark = EmptyOperator(task_id="spark")
        commit = SfEventsCommitOperator(task_id="commit", batch=fetch.output)
        fetch >> spark >> commit
        EmptyOperator(task_id="aside") >> fetch
    register(dag)
    run_once(dag_id, "run-1")
    hands.commit(begun_here, run=Run(dag=dag_id, run="run-1", task="fetch"))
    assert not hands.do("batches", "reland", "e1-1", "-y").refused
    assert states(dag_id, "run-1") == {
        "aside": "success",
        "fetch": "None",
        "spark": "None",
        "commit": "None",
        "run-1": "queued",
    }


def test_without_its_run_a_batch_is_landed_by_hand(hands: Hands, begun_here: Position) -> None:
    """If Airflow no longer has the run, the error has the spark-submit command, quoted."""
    hands.staging /= "my area"
    hands.commit(begun_here, run=Run(dag=hands.consumer, run="run-1", task="land"))
    refused = hands.do("batches", "reland", "e1-1", "-y").refused
    assert "is not in Airflow's database any more" in refused
    manifest = hands.folder.batch("e1", 1).manifest_url
    words = shlex.split(refused.partition("Spark settings: ")[2])
    assert words[:2] == ["spark-submit", "--py-files"]
    assert words[4:] == ["--manifest", str(manifest), "--table", "<table>", "--format", "<format>"]


def test_what_is_not_committed_is_left_to_the_next_run(hands: Hands, begun_here: Position) -> None:
    """A batch that is not committed is not landed again: the next run lands it."""
    hands.stage(begun_here)
    assert (
        "not committed yet: the next run lands it" in hands.do("batches", "reland", "e1-1").refused
    )
    assert "Batch e1-9 is not staged" in hands.do("batches", "reland", "e1-9").refused
    assert "'nine' is no batch id" in hands.do("batches", "reland", "nine").refused
