"""Waiting for watchers, in tests of watched topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from tests.airflow.conftest import Deployment, Topic
    from tests.harness.airflow_runs import Run


def listening(topic: Topic) -> None:
    """Wait until a stream subscribes to the topic."""
    wait_until(topic.open_streams, f"{topic.name} is subscribed to")


def subscriptions(topic: Topic, count: int) -> None:
    """Wait until there are so many of a topic."""
    wait_until(lambda: topic.open_streams() == count, f"{topic.name} has {count} subscriptions")


def wait_unwatched(here: Deployment, dag_id: str) -> None:
    """Wait until no triggerer has the watch of a paused DAG.

    The subscription is no sign of it, because there is none between two looks.
    """
    wait_until(lambda: not here.airflow.is_watching(dag_id), f"{dag_id} has no watch any more")
    here.airflow.kill("triggerer")
    here.airflow.start("triggerer")


def begun(topic: Topic, consumer: str) -> None:
    """Wait until the consumer has a position, and no batch yet."""
    wait_until(lambda: topic.batch_number(consumer) == 0, f"{consumer} has begun a position")


def place_kept(topic: Topic, consumer: str) -> None:
    """Wait until a wait of the consumer has been told a place, and has kept it."""
    staging = topic.here.airflow.home.folder / "sfevents"
    wait_until(
        lambda: [*staging.glob(f"*/{consumer}/*{topic.short}/keepalive_point.json")],
        f"{consumer} has heard a keepalive of {topic.name}",
    )


def run_of(here: Deployment, dag_id: str, number: int) -> Run:
    """The DAG's run of this number, the first being 1, once it is there."""

    def there() -> Run | None:
        runs = here.airflow.all_runs(dag_id)
        return runs[number - 1] if len(runs) >= number else None

    found: Run = wait_until(there, f"run {number} of {dag_id}")
    return found


def burst(here: Deployment, dag_id: str, topic: Topic, count: int) -> None:
    """Publish so many, and wait for the one run that lands them."""
    number = len(here.airflow.all_runs(dag_id)) + 1
    topic.publish(count)
    run_of(here, dag_id, number).wait("success")


def announced(here: Deployment, dag_id: str) -> list[dict[str, Any]]:
    """Events of the DAG's asset, oldest first."""
    return [extra["payload"] for extra in here.airflow.home.asset_extras(dag_id)]


def landed_once(topic: Topic, consumer: str) -> None:
    """All that was published is in the table, and was delivered once."""
    assert topic.landed(consumer) == topic.published
    assert topic.deliveries() == len(topic.published)
