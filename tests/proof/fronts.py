"""Run one crash point of a wait: a sensor, a trigger or a watcher is killed.

A second wait, or the task that fetches, then continues from the position that the first one left.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from tests.proof.points import FALLBACKS, CrashPoint, Front, Victim
from tests.proof.world import STREAMING, WAIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.harness.supervised import Attempt, Reached
    from tests.proof.world import World

EVENTS, MORE_EVENTS = 12, 3
MOST_TRIES = 5
MODES = {Front.TRIGGER: {"PROOF_DEFERRABLE": "yes"}, Front.WATCH: {"PROOF_WATCH": "yes"}}
"""Options of a wait of this kind."""

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.02


@dataclass(slots=True)
class Wait:
    """A wait in a world: started, killed, started again, followed by the task that fetches.

    :ivar one: the attempt that is waiting, or that waited last.
    """

    point: CrashPoint
    world: World
    options: dict[str, str] = field(default_factory=dict)
    one: Attempt | None = None

    def __post_init__(self) -> None:
        if self.point.step_name in FALLBACKS:
            initial = self.world.unknown_replay_id
            self.options |= {"PROOF_INITIAL": initial, "PROOF_FALLBACK": "earliest"}
        if self.point.latest:
            self.options |= {"PROOF_INITIAL": "latest"}
        self.options |= MODES.get(self.point.front, {})

    def begin(self) -> Reached | None:
        """Start the wait, publish events as soon as they count, and return at the step."""
        point, world = self.point, self.world
        early = point.front is Front.POKE and not point.latest
        if early:
            world.publish(EVENTS)
        if point.front is Front.TRIGGER:
            if point.transport == STREAMING and point.step == steps.KEEPALIVE_POINT_WRITTEN:
                world.publish(1)  # the Streaming API has no replay id before the first event
                self._land()
            self._defer()
        self.one = self._start(stop_at=point.step)
        if not early and point.step != steps.KEEPALIVE_POINT_WRITTEN and not point.latest:
            world.publish(EVENTS)
        held = self.one.wait_stopped()
        if held is not None and point.step == steps.KEEPALIVE_POINT_WRITTEN:
            world.publish(EVENTS)  # not received, but the position is before them
        return held

    def strike(self, held: Reached) -> None:
        """Kill the victim and wait for its end; a process that survives runs to its end."""
        one, victim = self.one, self.point.victim
        assert one is not None
        if victim is Victim.EMULATOR:
            self.world.bus.restart()
        elif victim is Victim.TWIN_BESIDE:
            beside = self._start()
            beside.wait()
        else:
            one.kill(*self._pids(held))
        if victim in {Victim.EMULATOR, Victim.TWIN_BESIDE, Victim.SUPERVISOR}:
            one.go_on(held.pid)
        if self.point.front is Front.WATCH and victim is Victim.EMULATOR:
            return
        one.wait()
        one.wait_gone(held.pid)

    def _pids(self, held: Reached) -> list[int]:
        assert self.one is not None
        if self.point.victim is Victim.WORKER:
            return [self.one.supervisor, held.pid]
        if self.point.victim is Victim.SUPERVISOR:
            return [self.one.supervisor]
        return [held.pid]

    def go_on(self) -> None:
        """Continue until nothing is left: first another wait if the point says so, then fetches."""
        if self.point.again:
            self._wait_again()
        for _ in range(MOST_TRIES):
            if self.world.is_quiet():
                return
            self._land()

    def end(self) -> None:
        """Check what a wait does after its batch has landed.

        A watcher announces the next batch. A trigger whose batch another task has landed still
        fires.
        """
        if self.point.front is Front.WATCH:
            self._hear_of_more()
        elif self.point.front is Front.TRIGGER and not self.point.again:
            self._wake_up_late()

    def _start(self, *, stop_at: str = "") -> Attempt:
        if self.point.front is Front.POKE:
            again = bool(self.world.runs)
            return self.world.start(task=WAIT, again=again, stop_at=stop_at, options=self.options)
        return self.world.start_triggers(stop_at=stop_at, options=self.options)

    def _defer(self, *, again: bool = False) -> None:
        """Run the sensor in a worker; no event is there, so it defers to a trigger."""
        sensor = self.world.start(task=WAIT, again=again, options=self.options)
        sensor.wait()
        assert sensor.state == "deferred", sensor.said()

    def _wait_again(self) -> None:
        one = self.one
        if one is None or not (one.state == "success" or one.told("fired")):
            one = self.one = self._start()
        if not self.world.replay_ids:  # events before the pinned `latest` do not count
            until(lambda: self.world.position() is not None, one)
            self.world.publish(EVENTS)
        if self.point.front is Front.WATCH:
            if self.point.step != steps.ANNOUNCED:  # at that step its run is already started
                until(lambda: bool(one.told("announced")), one)
            return
        one.wait()
        if self.point.front is Front.TRIGGER:
            self._resume()
        else:
            assert one.state == "success", one.said()

    def _resume(self) -> None:
        """Run the sensor again in a worker after its trigger has fired."""
        sensor = self.world.start(task=WAIT, again=True, options=self.options)
        sensor.wait()
        assert sensor.state == "success", sensor.said()

    def _land(self) -> None:
        land = self.world.start(
            again=self.point.again and self.point.front is not Front.WATCH, options=self._of_land
        )
        land.wait()

    @property
    def _of_land(self) -> dict[str, str]:
        return {name: value for name, value in self.options.items() if name != "PROOF_WATCH"}

    def _hear_of_more(self) -> None:
        """A watcher announces the events after the batch, and each batch once."""
        watcher = self.one
        assert watcher is not None
        if not watcher.processes():
            watcher = self.one = self._start()
        known = len(watcher.told("announced"))
        assert self.point.step != steps.ANNOUNCED or not known, "a batch was announced again"
        self.world.publish(MORE_EVENTS)
        until(lambda: len(watcher.told("announced")) > known, watcher)
        self._land()
        watcher.terminate()
        assert watcher.wait() == 0, watcher.said()
        said = Counter(one["batch_id"] for one in watcher.told("announced"))
        assert said.total() == len(said), f"announced more than once: {said}"

    def _wake_up_late(self) -> None:
        """A trigger whose batch has landed fires, and the sensor waits for the next batch."""
        trigger = self._start()
        assert trigger.wait() == 0, trigger.said()
        self._defer(again=True)
        self.world.publish(EVENTS)
        trigger = self._start()
        assert trigger.wait() == 0, trigger.said()
        self._resume()
        self._land()


def until(is_so: Callable[[], bool], attempt: Attempt) -> None:
    """Wait until the condition is true; fail with the attempt's log after a minute."""
    last = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < last, attempt.said()
        time.sleep(POLL_SECONDS)
