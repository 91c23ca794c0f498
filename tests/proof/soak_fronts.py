"""Waits before the attempts of a round: a sensor, a trigger, or a watcher.

A watcher continues beside the attempts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.proof.fronts import MODES
from tests.proof.points import Front
from tests.proof.world import WAIT

if TYPE_CHECKING:
    from tests.harness.supervised import Attempt
    from tests.proof.schedule import Round
    from tests.proof.world import World

RUNS_OF_THEIR_OWN = frozenset({Front.POKE, Front.TRIGGER})
"""Waits to whose run the task that fetches belongs."""

PATIENCE_SECONDS = 1.5
"""A sensor's `timeout`; many rounds have fewer events than the sensor waits for."""

POLL_SECONDS = 0.02


@dataclass(slots=True)
class SoakFront:
    """One wait of one round.

    :ivar kills: number of kills so far.
    """

    plan: Round
    world: World
    kills: int = 0
    _one: Attempt | None = None

    def wait(self) -> None:
        """Wait until there are enough events, the time is over, or the wait is killed.

        A watcher that was not killed stays at work.
        """
        match self.plan.front:
            case Front.POKE:
                self._one = self._sensor(self.plan.front_stop_at)
            case Front.TRIGGER:
                sensor = self._sensor()
                sensor.wait_all_gone()
                if sensor.state == "deferred":
                    self._one = self._triggers()
            case Front.WATCH:
                self._one = self._triggers()
        if self._one is not None:
            self._until_enough(self._one)

    @property
    def is_calm(self) -> bool:
        """False if a watcher subscribed while the task was fetching.

        Both are then delivered the same events.
        """
        return self.plan.front is not Front.WATCH or bool(self._one and self._has_fired(self._one))

    def end(self) -> None:
        """End a wait that is still running by SIGTERM."""
        if self._one is not None:
            self._one.terminate()
            self._one.wait_all_gone()

    def _until_enough(self, one: Attempt) -> None:
        if self.plan.front_killed:
            self._kill(one)
        elif self.plan.front is Front.POKE:
            one.wait_all_gone()
        else:
            until = time.monotonic() + self.plan.front_seconds
            while not self._has_fired(one) and time.monotonic() < until:
                time.sleep(POLL_SECONDS)
            if self.plan.front is Front.TRIGGER:
                self.end()

    def _kill(self, one: Attempt) -> None:
        """Kill the wait at its step, or at the end of its time if it has not reached the step."""
        self.kills += 1
        until = time.monotonic() + self.plan.front_seconds
        while time.monotonic() < until and not any(step.stopped for step in one.steps()):
            time.sleep(POLL_SECONDS)
        if not self.plan.front_terminated:
            one.kill(*one.processes())
        elif self.plan.front is Front.POKE:
            one.terminate_task(*one.task_now())
        else:
            one.terminate()
        one.wait_all_gone()

    def _has_fired(self, one: Attempt) -> bool:
        return bool(one.told("fired") or one.told("announced"))

    def _sensor(self, stop_at: str = "") -> Attempt:
        return self.world.start(task=WAIT, stop_at=stop_at, options=self._options)

    def _triggers(self) -> Attempt:
        return self.world.start_triggers(stop_at=self.plan.front_stop_at, options=self._options)

    @property
    def _options(self) -> dict[str, str]:
        return {
            **MODES.get(self.plan.front, {}),
            "PROOF_MIN_EVENTS": str(self.plan.enough),
            "PROOF_WAIT_SECONDS": str(PATIENCE_SECONDS),
        }
