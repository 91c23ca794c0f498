"""One crash point of a wait gone through: a sensor, a trigger or a watcher is killed, and whoever comes next goes on where it was."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from tests.proof.points import FALLBACKS, CrashPoint, Front, Victim
from tests.proof.world import WAIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.harness.supervised import Attempt, Reached
    from tests.proof.world import World

EVENTS, MORE_EVENTS = 12, 3
MOST_TRIES = 5
MODES = {Front.TRIGGER: {"PROOF_DEFERRABLE": "yes"}, Front.WATCH: {"PROOF_WATCH": "yes"}}
"""Options of whoever waits so."""

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.02


@dataclass(slots=True)
class Wait:
    """Whoever waits in a world: begun, killed, begun once more, and followed by the task that fetches.

    :ivar one: that is at work, or was last.
    """

    point: CrashPoint
    world: World
    options: dict[str, str] = field(default_factory=dict)
    one: Attempt | None = None

    def __post_init__(self) -> None:
        if self.point.step_name in FALLBACKS:
            self.options |= {"PROOF_INITIAL": "ff" * 10, "PROOF_FALLBACK": "earliest"}
        if self.point.latest:
            self.options |= {"PROOF_INITIAL": "latest"}
        self.options |= MODES.get(self.point.front, {})

    def begin(self) -> Reached | None:
        """Begin to wait, with events when they may come, until the step is reached."""
        point, world = self.point, self.world
        early = point.front is Front.POKE and not point.latest
        if early:
            world.publish(EVENTS)
        if point.front is Front.TRIGGER:
            self._defer()
        self.one = self._start(stop_at=point.step)
        if not early and point.step != steps.ANCHOR_WRITTEN and not point.latest:
            world.publish(EVENTS)
        held = self.one.wait_stopped()
        if held is not None and point.step == steps.ANCHOR_WRITTEN:
            world.publish(EVENTS)  # nobody hears them, but the place before them is kept
        return held

    def strike(self, held: Reached) -> None:
        """Kill, and see the dead off; who lives on comes to its end."""
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
        """What comes next: another wait and then the task that fetches, or at once that task; until nothing is left."""
        if self.point.again:
            self._wait_again()
        for _ in range(MOST_TRIES):
            if self.world.is_quiet():
                return
            self._land()

    def end(self) -> None:
        """A watcher goes on watching; and a trigger that was left behind while others fetched still has its task to wake."""
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
        """The sensor itself, in a worker: nothing is there, so it leaves a trigger behind."""
        sensor = self.world.start(task=WAIT, again=again, options=self.options)
        sensor.wait()
        assert sensor.state == "deferred", sensor.said()

    def _wait_again(self) -> None:
        one = self.one
        if one is None or not (one.state == "success" or one.told("fired")):
            one = self.one = self._start()
        if not self.world.replay_ids:  # at `latest` nothing counts before the position is pinned
            until(lambda: self.world.position() is not None, one)
            self.world.publish(EVENTS)
        if self.point.front is Front.WATCH:
            if self.point.step != steps.ANNOUNCED:  # else its run has been started
                until(lambda: bool(one.told("announced")), one)
            return
        one.wait()
        if self.point.front is Front.TRIGGER:
            self._resume()
        else:
            assert one.state == "success", one.said()

    def _resume(self) -> None:
        """The sensor goes on in a worker, once its trigger has fired."""
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
        """What comes after the batch is announced too; and no batch is announced twice by one watcher."""
        watcher = self.one
        assert watcher is not None
        if not watcher.processes():
            watcher = self.one = self._start()
        known = len(watcher.told("announced"))
        assert self.point.step != steps.ANNOUNCED or not known, "what was noted down is said again"
        self.world.publish(MORE_EVENTS)
        until(lambda: len(watcher.told("announced")) > known, watcher)
        self._land()
        watcher.terminate()
        assert watcher.wait() == 0, watcher.said()
        said = Counter(one["batch_id"] for one in watcher.told("announced"))
        assert said.total() == len(said), f"announced more than once: {said}"

    def _wake_up_late(self) -> None:
        """Its batch has been landed by others; the sensor sees that, and waits for the next one."""
        trigger = self._start()
        assert trigger.wait() == 0, trigger.said()
        self._defer(again=True)
        self.world.publish(EVENTS)
        trigger = self._start()
        assert trigger.wait() == 0, trigger.said()
        self._resume()
        self._land()


def until(is_so: Callable[[], bool], attempt: Attempt) -> None:
    """Wait for it."""
    last = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < last, attempt.said()
        time.sleep(POLL_SECONDS)
