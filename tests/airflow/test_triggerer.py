"""Triggerers that die, and two that hold the same triggers: every event lands once."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.airflow.watches import burst, listening, run_of, subscriptions
from tests.harness.airflow_runs import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.airflow.conftest import Deployment, Topic

pytestmark = [pytest.mark.airflow, pytest.mark.full, pytest.mark.timeout(900)]


def test_killed_while_it_waits(here: Deployment) -> None:
    """After a triggerer's death the next one receives the events and repeats no announcement.

    A wait whose password was changed meanwhile ends with the message.
    """
    awaited, watched = here.topic("Awaited_by_the_dead"), here.watched("killed")
    locked_out = here.topic("Locked_out")
    _connect(here, "changing")
    with here.switched_on("watched_killed"):
        listening(watched)
        watched.publish(2)
        run_of(here, "watched_killed", 1).wait("success")
        run, failing = here.run("deferring", awaited), here.run("deferring_on", locked_out)
        for topic in (awaited, locked_out):
            listening(topic)
        _kill(here, awaited, watched, locked_out)
        for topic in (awaited, watched):
            topic.publish(3)
        _connect(here, "changing", password="not-the-secret")
        here.airflow.start("triggerer")
        run.wait("success")
        run_of(here, "watched_killed", 2).wait("success")
    assert awaited.landed("deferring") == awaited.published
    assert watched.landed("watched_killed") == watched.published
    assert (awaited.deliveries(), watched.deliveries()) == (3, 5)
    assert len(here.airflow.all_runs("watched_killed")) == 2
    assert failing.wait("failed") == {"wait": "failed", "land": "upstream_failed"}
    assert (failing.tries("wait"), locked_out.deliveries()) == (1, 0)
    assert "The consumer secret is wrong" in failing.log()


@pytest.mark.soak
def test_killed_right_after_a_file_was_closed(here: Deployment) -> None:
    """After a triggerer's death no event of a closed file is delivered again, and all land once.

    That holds for a deferred task and for a watcher. The proof kills triggerers at the other steps.
    """
    name = "dead_part_closed"
    awaited, watched = here.topic(name), here.watched(name)
    with here.switched_on(f"watched_{name}"):
        run = here.run("deferring", awaited)
        for topic in (awaited, watched):
            listening(topic)
        with here.holding("part-closed") as held:
            for topic in (awaited, watched):
                topic.publish(3)
            wait_until(held, "the triggerer is at part-closed")
            wait_until(lambda: _files(awaited) and _files(watched), "both have a file")
            here.airflow.kill("triggerer")
        here.airflow.start("triggerer")
        run.wait("success")
        run_of(here, f"watched_{name}", 1).wait("success")
    assert awaited.landed("deferring") == awaited.published
    assert watched.landed(f"watched_{name}") == watched.published
    assert (awaited.deliveries(), watched.deliveries()) == (3, 3)


@pytest.mark.parametrize(
    "place", ["elsewhere", pytest.param("not_writable", marks=pytest.mark.soak)]
)
def test_a_staging_area_that_is_not_the_workers(
    here: Deployment, tmp_path: Path, place: str
) -> None:
    """Events that a triggerer stages out of the worker's reach are delivered once more.

    They land once.
    """
    awaited, watched = here.topic(f"Awaited_{place}"), here.watched(place)
    consumer = f"watched_{place}"
    if place == "not_writable":
        (tmp_path / "sfevents").write_text("no folder")
    with here.switched_on(consumer):
        listening(watched)
        burst(here, consumer, watched, 1)
        _kill(here, watched)
        here.airflow.start("triggerer", AIRFLOW_HOME=str(tmp_path))
        run = here.run("deferring", awaited)
        for topic in (awaited, watched):
            listening(topic)
            topic.publish(2)
        run.wait("success")
        run_of(here, consumer, 2).wait("success")
    here.airflow.kill("triggerer")
    here.airflow.start("triggerer")
    assert awaited.landed("deferring") == awaited.published
    assert awaited.deliveries() == 2 + 1
    assert watched.landed(consumer) == watched.published
    assert watched.deliveries() == 3 + 2


def test_two_hold_the_same_triggers(here: Deployment) -> None:
    """A triggerer without heartbeats still listens beside its successor, and events land once."""
    awaited, watched = here.topic("Awaited_by_two"), here.watched("twice")
    with here.switched_on("watched_twice"):
        run = here.run("deferring", awaited)
        for topic in (awaited, watched):
            listening(topic)
        with _lifeless(here, "triggerer"):
            here.airflow.start("triggerer", "another")
            for topic in (awaited, watched):
                subscriptions(topic, 2)
                topic.publish(3)
            run.wait("success")
            run_of(here, "watched_twice", 1).wait("success")
        here.airflow.kill("another")
        # When the first triggerer has ended and no run is left that both announced, only the
        # successor listens: it alone pays for the rest.
        subscriptions(watched, 0)
        for one in here.airflow.all_runs("watched_twice"):
            one.wait("success")
        watched.publish(2)
        run_of(here, "watched_twice", 2)
        wait_until(
            lambda: watched.landed("watched_twice") == watched.published, "the rest has landed"
        )
    assert awaited.landed("deferring") == awaited.published
    assert awaited.deliveries() <= 6
    assert watched.deliveries() <= 8


@contextmanager
def _lifeless(here: Deployment, name: str) -> Iterator[None]:
    """Suspend the process with the triggerer's heartbeat for a block; the triggers continue."""
    pid = here.airflow.processes[name].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _files(topic: Topic) -> list[Path]:
    """Staged files of a topic."""
    staging = topic.here.airflow.home.folder / "sfevents"
    return [*staging.glob(f"*/*/*{topic.short}/**/*.parquet")]


def _connect(here: Deployment, conn_id: str, **changed: str) -> None:
    """Put a connection to the org into Airflow's database, in place of one that is there."""
    org = here.bus.get("connection") | changed
    with suppress(AssertionError):  # there is none
        here.airflow.request("DELETE", f"connections/{conn_id}")
    asked = {**org, "connection_id": conn_id, "extra": json.dumps(org["extra"])}
    here.airflow.request("POST", "connections", asked)


def _kill(here: Deployment, *topics: Topic) -> None:
    here.airflow.kill("triggerer")
    for topic in topics:
        subscriptions(topic, 0)
