"""Two runs on one batch under Airflow's real supervisor: the second gives way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.hooks.reschedule import MOST_RESCHEDULES
from tests.proof import invariants

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.proof.world import Stage

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(300)]


def test_a_run_whose_batch_is_held_is_rescheduled_and_then_names_the_holder(
    new_stage: Callable[[str], AbstractContextManager[Stage]],
) -> None:
    """A run whose batch is leased is rescheduled up to the limit, then fails and names the holder.

    The next try of the run has a new limit, and lands what is left.
    """
    with new_stage("giving-way") as stage:
        world = stage.world("held")
        world.publish(12)
        holder = world.start(stop_at=f"{steps.DELIVERED}:1")
        held = holder.wait_stopped()
        assert held is not None, holder.said()
        second = []
        for number in range(MOST_RESCHEDULES + 1):
            second.append(world.start(again=number > 0))
            second[-1].wait()
        assert [one.state for one in second] == [
            *["up_for_reschedule"] * MOST_RESCHEDULES,
            "failed",
        ]
        assert "of run run-00001" in second[-1].said()
        assert "gives way; it has fetched nothing" in second[-1].said()
        again = world.start(again=True)
        again.wait()
        assert again.state == "up_for_reschedule"
        holder.go_on(held.pid)
        holder.wait()
        world.publish(3)
        last = world.start(again=True)
        assert last.wait() == 0, last.said()
        assert world.is_quiet()
        assert invariants.lost(world) + invariants.doubled(world) + invariants.orphans(world) == []
        assert world.bus.deliveries(world.topic) == 15
