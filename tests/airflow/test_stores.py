"""Each position store under the real scheduler, also while Airflow's API is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic
    from tests.harness.airflow_runs import Run

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]

STORES = ("variable", "asset", "xcom", "own")
BY_API = ("variable", "asset", "xcom")


@pytest.fixture(scope="module")
def topic(here: Deployment) -> Topic:
    """The topic that all of them read; in order, each test finds what the one before left."""
    return here.topic("Kept")


@pytest.mark.soak
def test_every_store_through_runs_retries_and_a_clear(here: Deployment, topic: Topic) -> None:
    """In every store, the position is at the last batch's end after a run, a retry and a clear.

    No event is delivered twice. A result is the `extra` of the task's outlet, and a Variable is
    written by its own store alone.
    """
    topic.publish(3)
    first = _run(here, topic)
    topic.publish(2)
    topic.order(*["fail"] * len(STORES))
    second = _run(here, topic)
    assert {store: second.tries(store) for store in STORES} == dict.fromkeys(STORES, 2)
    first.clear()
    first.wait("success")
    topic.publish(2)
    third = _run(here, topic)
    told = {store: [_told(run, store) for run in (first, second, third)] for store in STORES}
    assert told == {store: [(3, 1), (2, 2), (2, 3)] for store in STORES}
    for store in STORES:
        assert topic.landed(f"by_{store}") == topic.published
        assert here.airflow.home.asset_extras(f"kept_by_{store}")[-1] == third.result(store)
    kept = [bool(topic.position(f"by_{store}")) for store in STORES]
    assert kept == [store == "variable" for store in STORES]
    assert topic.deliveries() == len(STORES) * len(topic.published)


@pytest.mark.soak
def test_the_api_gone_before_the_position_is_read(here: Deployment, topic: Topic) -> None:
    """A try that cannot read the position ends without a delivery, and the next one continues.

    The missing answer is not taken for a first run.
    """
    topic.publish(2)
    before = topic.deliveries()
    run = here.airflow.trigger("stores", {})
    with here.holding("authenticated") as held:
        wait_until(lambda: held() == len(STORES), "all are about to read")
        here.airflow.kill("api-server")
    try:
        wait_until(lambda: _all_say(run, "could not be read"), "each store says so")
        assert topic.deliveries() <= before + 2  # to the user's own store, which needs no API
    finally:
        here.airflow.restart_api()
    run.wait("success")
    for store in STORES:
        assert topic.landed(f"by_{store}") == topic.published
        assert "First run of" not in run.log(store)
    assert topic.deliveries() == len(STORES) * len(topic.published)


def test_the_api_gone_before_the_position_is_written(here: Deployment, topic: Topic) -> None:
    """A position that cannot be written is written by the same try or the next.

    Nothing is delivered or landed again.
    """
    topic.publish(2)
    landed = len(topic.landings())
    run = here.airflow.trigger("stores", {})
    with here.holding("commit-next") as held:
        wait_until(lambda: held() == len(STORES), "all are about to write")
        here.airflow.kill("api-server")
    try:
        wait_until(lambda: _all_say(run, "could not be written"), "each store says so")
    finally:
        here.airflow.restart_api()
    run.wait("success")
    assert len(topic.landings()) == landed + len(STORES)
    for store in BY_API:
        assert topic.landed(f"by_{store}") == topic.published
    assert topic.deliveries() == len(STORES) * len(topic.published)


def _run(here: Deployment, topic: Topic) -> Run:
    run = here.airflow.trigger("stores", {})
    run.wait("success")
    return run


def _told(run: Run, store: str) -> tuple[Any, Any]:
    result = run.result(store)
    return result["events"], result["batch_number"]


def _all_say(run: Run, words: str) -> bool:
    return all(words in run.log(store) for store in BY_API)
