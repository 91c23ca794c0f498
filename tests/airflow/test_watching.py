"""Event-driven scheduling: an asset whose trigger watches a topic starts the runs of a DAG."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.positions.watch_error import WatchError, watch_error_key
from tests.airflow.watches import (
    announced,
    landed_once,
    listening,
    place_kept,
    run_of,
    subscriptions,
)
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic
    from tests.harness.airflow_runs import Run

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


STAGES = re.compile(
    r"task begun \d+\.\d s after the announcement, "
    r"staged in \d+\.\d s, landed in \d+\.\d s, committed in \d+\.\d s"
)
MEND = "The consumer secret is wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """DAGs that were watched side by side, and their topics, by name."""

    here: Deployment
    topics: dict[str, Topic]

    def runs(self, name: str) -> list[Run]:
        return self.here.airflow.all_runs(f"watched_{name}")

    def results(self, name: str, key: str) -> list[Any]:
        """Results of a DAG's successful runs, in order."""
        results = (run.result("land") for run in self.runs(name))
        return [result[key] for result in results if result]

    def landed_once(self, name: str) -> None:
        landed_once(self.topics[name], f"watched_{name}")


@pytest.fixture(scope="module")
def story(here: Deployment) -> Story:
    """Publish two bursts on each topic, the second after the first has landed.

    The first job of one DAG fails, and one watcher cannot log in.
    """
    names = ("burst", "own", "asset", "queue", "failing", "latest")
    topics = {name: here.watched(name) for name in names}
    topics["latest"].publish(2)
    topics["failing"].order("fail")
    dags = [f"watched_{name}" for name in names]
    with here.switched_on("watched_mistaken", *dags):
        for topic in topics.values():
            listening(topic)
        _burst(here, topics, 5)
        _burst(here, topics, 3)
    for topic in topics.values():
        subscriptions(topic, 0)  # DAGs that are switched off are not watched
    return Story(here=here, topics=topics)


def _burst(here: Deployment, topics: dict[str, Topic], count: int) -> None:
    """Publish so many to each, and wait until each has landed them."""
    known = {name: here.airflow.all_runs(f"watched_{name}") for name in topics}
    for topic in topics.values():
        topic.publish(count)
    for name, topic in topics.items():
        run = run_of(here, f"watched_{name}", len(known[name]) + 1)
        if run.wait() == {"land": "failed"}:
            run_of(here, f"watched_{name}", len(known[name]) + 2).wait("success")
        assert topic.landed(f"watched_{name}")[-count:] == topic.published[-count:], run.log()


def test_one_run_for_a_burst(story: Story) -> None:
    """Each burst starts one run, which lands all its events, each delivered once."""
    assert story.results("burst", "events") == [5, 3]
    epoch = story.topics["burst"].position("watched_burst")["epoch"]
    said = announced(story.here, "watched_burst")
    first, second = (one.pop("events") for one in said)  # as many as had come at once
    assert 1 <= first <= 5
    assert 1 <= second <= 3
    assert said == [
        {
            "topic": "/event/Watched_burst__e",
            "consumer": "watched_burst",
            "batch_id": f"{epoch}-{batch_number}",
            "batch_number": batch_number,
            "staged": True,
        }
        for batch_number in (1, 2)
    ]
    for run in story.runs("burst"):
        log = run.log()
        assert STAGES.search(log), log
    story.landed_once("burst")


@pytest.mark.parametrize("name", ["own", "asset", "queue"])
def test_other_ways_to_say_it(story: Story, name: str) -> None:
    """A watcher works with a custom store, the asset's state, and a message queue trigger."""
    assert story.results(name, "batch_number") == [1, 2]
    assert len(story.runs(name)) == 2
    story.landed_once(name)


def test_events_whose_run_failed_get_another(story: Story) -> None:
    """A batch whose run failed is announced again, and the second run lands it from its files."""
    assert [run.state() for run in story.runs("failing")] == ["failed", "success", "success"]
    story.landed_once("failing")


def test_latest_begins_when_the_watcher_does(story: Story) -> None:
    """From `latest`, events after the watcher's subscription land, and earlier ones do not."""
    topic = story.topics["latest"]
    assert topic.landed("watched_latest") == topic.published[2:]
    assert topic.deliveries() == len(topic.published) - 2


def test_an_error_for_a_user_starts_one_run_that_reports_it(story: Story) -> None:
    """With a wrong password, one run fails with the message, and the trigger is not restarted."""
    [run] = story.runs("mistaken")
    run.wait("failed")
    assert MEND in run.log()
    [said] = announced(story.here, "watched_mistaken")
    assert (said["events"], MEND in said["trouble"]) == (0, True)
    log = story.here.airflow.log("triggerer").read_text()
    assert log.count("/event/Watched_mistaken__e is not watched for now: ") == 1
    assert "not-the-secret" not in log + run.log()
    key = watch_error_key("watched_mistaken", "/event/Watched_mistaken__e")
    kept = WatchError.from_json(story.here.airflow.home.variable(key) or "")
    assert kept is not None
    assert (MEND in kept.message, kept.ended_at) == (True, "")


def test_no_new_run_while_one_is_at_work(here: Deployment) -> None:
    """Events during a run get a run of their own after it.

    Another DAG that watches the topic is not delayed by it.
    """
    topic = here.watched("shared")
    one, other = "watched_first", "watched_second"
    with here.switched_on(one, other):
        for dag_id in (one, other):
            place_kept(topic, dag_id)
        topic.order("hang")
        topic.publish(4)
        for dag_id in (one, other):
            run_of(here, dag_id, 1)
        assert topic.deliveries() == 4  # for both, over one subscription
        wait_until(lambda: topic.landed(one) or topic.landed(other), "one lands, one hangs")
        if topic.landed(one):
            one, other = other, one
        topic.publish(2)
        run_of(here, other, 2).wait("success")
        assert [run.state() for run in here.airflow.all_runs(one)] == ["running"]
        topic.let_go()
        run_of(here, one, 2).wait("success")
    for dag_id in (one, other):
        assert topic.landed(dag_id) == topic.published
        first, second = here.airflow.all_runs(dag_id)
        assert [run.result("land")["events"] for run in (first, second)] == [4, 2]
        assert _times(first)[1] <= _times(second)[0]


def _times(run: Run) -> tuple[str, str]:
    """Start and end of a run."""
    [times] = run.services.home._query(
        "SELECT start_date, end_date FROM dag_run WHERE run_id = ?", run.run_id
    )
    return times
