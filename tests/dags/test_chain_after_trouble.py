from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.dags.conftest import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dags.conftest import Deploy, Deployment
    from tests.harness.airflow_home import DagTest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

DAG = "small_chain"


@dataclass
class Seen:
    """One run and what stood after it."""

    run: DagTest
    position: dict[str, Any]
    deliveries: int
    fetched: dict[str, Any] | None


@dataclass
class Story:
    here: Deployment
    published: list[str] = field(default_factory=list)
    seen: dict[str, Seen] = field(default_factory=dict)

    def run(self, name: str, **environment: str) -> None:
        self.here.set(**environment)
        self._see(name, self.here.run(DAG))

    def run_and_kill(self, name: str, **environment: str) -> None:
        """End the run once its fetch has been delivered something."""
        self.here.set(**environment)
        before = self.here.bus.deliveries(ORDERS)
        once = lambda: self.here.bus.deliveries(ORDERS) > before + 3  # noqa: E731 - short
        self._see(name, self.here.run_and_end(DAG, once=once))

    def _see(self, name: str, run: DagTest) -> None:
        self.seen[name] = Seen(
            run=run,
            position=self.here.position(DAG) or {},
            deliveries=self.here.bus.deliveries(ORDERS),
            fetched=self.here.airflow.xcom(DAG, run.run_id, "fetch"),
        )


@pytest.fixture(scope="module")
def story(deploy: Deploy) -> Iterator[Story]:
    """Run a job without a receipt, a failing one, one that lands, and a fetch that is ended."""
    with deploy("small_chain.py") as here:
        story = Story(here)
        story.published += here.publish(1, 6)
        story.run("no receipt", STAND_IN="forget")
        story.published += here.publish(7, 2)
        story.run("failing job", STAND_IN="fail")
        story.run("landed", STAND_IN="")
        story.published += here.publish(9, 2)
        story.run_and_kill("ended", TEST_IDLE_SECONDS="120")
        here.bus.wait_open_streams(0)
        story.published += here.publish(11, 3)
        story.run("after the end", TEST_IDLE_SECONDS="0.5")
        yield story


def test_success_without_a_receipt_is_no_landing(story: Story) -> None:
    """A Spark task that succeeds without a receipt is refused by the commit.

    The position stays.
    """
    seen = story.seen["no receipt"]
    assert seen.run.tasks == {"fetch": "success", "land": "success", "commit": "failed"}, (
        seen.run.log
    )
    assert "left no receipt" in seen.run.log
    assert (seen.position["batch_number"], seen.position["replay_id"]) == (0, "earliest")


def test_a_failing_job_moves_nothing(story: Story) -> None:
    """The chain ends at the Spark task; the position stays where it was."""
    seen = story.seen["failing job"]
    assert seen.run.tasks == {
        "fetch": "success",
        "land": "failed",
        "commit": "upstream_failed",
    }, seen.run.log
    assert "the stand-in was told to fail" in seen.run.log
    assert seen.position == story.seen["no receipt"].position


def test_a_staged_batch_is_reused_until_it_has_landed(story: Story) -> None:
    """Runs reuse a staged batch without a fetch until one of them has landed and committed it."""
    first, *later = (story.seen[name].fetched for name in ("no receipt", "failing job", "landed"))
    assert first is not None
    assert first["reused"] is False
    assert later == [{**first, "reused": True}] * 2
    assert [story.seen[name].deliveries for name in ("no receipt", "failing job", "landed")] == [
        6
    ] * 3
    landed = story.seen["landed"]
    assert set(landed.run.tasks.values()) == {"success"}, landed.run.log
    assert (landed.position["batch_number"], landed.position["events_total"]) == (1, 6)
    assert landed.position["replay_id"] == story.published[5]


def test_a_fetch_that_is_ended_keeps_what_came(story: Story) -> None:
    """A fetch that gets SIGTERM keeps the delivered events, and the position stays."""
    seen = story.seen["ended"]
    assert seen.run.tasks["fetch"] == "failed", seen.run.log
    assert "(4 events) stays staged for the next try" in seen.run.log
    assert seen.position == story.seen["landed"].position


def test_the_next_run_goes_on_after_what_was_kept(story: Story) -> None:
    """The next run pays for the new events only, and commits old and new as one batch."""
    seen = story.seen["after the end"]
    assert set(seen.run.tasks.values()) == {"success"}, seen.run.log
    assert seen.deliveries == len(story.published) == 13
    assert (seen.position["batch_number"], seen.position["events_total"]) == (2, 13)
    assert seen.position["replay_id"] == story.published[-1]
