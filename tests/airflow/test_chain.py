"""A chain of fetch, Spark task and commit, partly cleared or marked as success."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


def test_an_old_chain_cleared_in_part_and_whole(here: Deployment) -> None:
    """A cleared Spark task or chain lands its batch again; position and table stay as they are.

    A cleared commit lands nothing: it finds the batch committed already. Live events stay on the
    bus.
    """
    topic = here.topic("ClearedChain")
    topic.publish(3)
    old = here.land("chain", topic)
    topic.publish(2)
    here.land("chain", topic)
    topic.publish(2)
    before, landings = _what_stands(topic), topic.landings()
    for tasks, landed_again in ((["commit"], 0), (["spark"], 1), ([], 2)):
        old.clear(*tasks)
        old.wait("success")
        assert _what_stands(topic) == before
        assert topic.landings() == [*landings, *landings[:1] * landed_again]


def test_a_spark_task_marked_success_moves_nothing(here: Deployment) -> None:
    """A Spark task marked as success leaves no receipt, so the commit refuses.

    The next run lands the batch.
    """
    topic = here.topic("Marked")
    topic.publish(3)
    topic.order("hang")
    run = here.run("chain", topic)
    wait_until(topic.jobs, "the Spark task runs")
    run.mark("spark", "success")
    run.wait("failed")
    assert run.tasks() == {"fetch": "success", "spark": "success", "commit": "failed"}
    assert "left no receipt" in run.log()
    assert (topic.batch_number("chain"), topic.landed("chain")) == (0, [])
    topic.publish(2)
    here.land("chain", topic)
    assert topic.landed("chain") == topic.published[:3]
    here.land("chain", topic)
    assert topic.landed("chain") == topic.published
    assert topic.deliveries() == len(topic.published)


def _what_stands(topic: Topic) -> tuple[object, ...]:
    return topic.position("chain"), topic.deliveries(), topic.landed("chain")
