"""Run one crash point: publish, kill, recover until all is quiet, and check the rules."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from airflow_provider_sfevents import steps
from tests.harness.supervised import parent_of
from tests.proof import invariants
from tests.proof.fronts import Wait
from tests.proof.points import FALLBACKS, REWRITES, CrashPoint, Front, Victim

if TYPE_CHECKING:
    from tests.harness.supervised import Attempt, Reached
    from tests.proof.world import World

EVENTS, MORE_EVENTS = 12, 3
MOST_ATTEMPTS, MOST_ATTEMPTS_BEYOND = 5, 10
"""Attempts in which all is landed. A batch that ends with its first event leaves the rest of a
response to the next one, so that 15 events in responses of 4 take 8 batches."""

LONG_AGO = "2020-01-01T00:00:00+00:00"
"""Value of `until` that ends a batch with the first delivered event."""

GO_ON = {Victim.SUPERVISOR, Victim.TWIN_BESIDE, Victim.EMULATOR, Victim.TERMINATED}
"""Victims after whose kill the held process still lives, and continues at once."""

NOTICED = {Victim.TASK, Victim.JOB, Victim.JVM, Victim.EMULATOR, Victim.TERMINATED}
"""Victims after whose kill a supervisor still runs the attempt to its end."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """Result of one trial.

    :ivar wrong: violations in words; empty if every rule holds.
    :ivar causes: extra deliveries by cause.
    :ivar recovery_seconds: time from the kill until all published events were landed and committed.
    """

    point: CrashPoint
    wrong: list[str] = field(default_factory=list)
    causes: dict[str, int] = field(default_factory=dict)
    events: int = 0
    deliveries: int = 0
    recovery_seconds: float = 0.0
    attempts: int = 0


def go_through(point: CrashPoint, world: World) -> Trial:
    """Kill at the crash point, recover, and check the rules.

    More events are published before a next run; a next try finds those of the first one.
    """
    trial = Trial(point=point)
    if point.front is not Front.NONE:
        _go_through_wait(Wait(point, world), trial)
        return trial
    options = _prepare(point, world, trial)
    if not point.latest:
        world.publish(EVENTS)
    attempt = world.start(stop_at=point.step, options=options)
    held = attempt.wait_stopped()
    if held is None:
        trial.wrong.append(f"{point.step} was never reached:\n{attempt.said()}")
        return trial
    killed_at = time.time()
    _strike(point, world, attempt, held, trial)
    if point.latest:
        world.publish(EVENTS)  # the position is pinned, so all of them count
    if not point.again:
        world.publish(MORE_EVENTS)
    _recover(point, world, options, trial)
    if point.victim is Victim.TWIN_AFTER:
        attempt.go_on(held.pid)
    if point.victim in {Victim.TWIN_AFTER, Victim.TWIN_BESIDE}:
        attempt.wait_gone(held.pid)
        _recover(point, world, options, trial)
    trial.recovery_seconds = max((at - killed_at for at in world.commits()), default=0.0)
    _reckon(world, trial)
    return trial


def _go_through_wait(wait: Wait, trial: Trial) -> None:
    """Kill a wait at the crash point, recover, and check the rules.

    Either another wait follows, or at once the task that fetches.
    """
    point, world = wait.point, wait.world
    held = wait.begin()
    if held is None:
        trial.wrong.append(f"{point.step} was never reached:\n{world.attempts[-1].said()}")
        return
    killed_at = time.time()
    wait.strike(held)
    world.bus.wait_no_subscriber(world.topic)
    _explain(point, world, trial)
    if not point.again:
        world.publish(MORE_EVENTS)
    wait.go_on()
    trial.recovery_seconds = max((at - killed_at for at in world.commits()), default=0.0)
    wait.end()
    _reckon(world, trial)


def _prepare(point: CrashPoint, world: World, trial: Trial) -> dict[str, str]:
    """Bring the world to where the step is reached; return options for all attempts."""
    if point.step_name in FALLBACKS:
        return {"PROOF_INITIAL": world.unknown_replay_id, "PROOF_FALLBACK": "earliest"}
    if point.latest:
        return {"PROOF_INITIAL": "latest"}
    if point.beyond:
        return {"PROOF_UNTIL": LONG_AGO}
    if point.step_name in REWRITES:
        _land_in_another_form(world, trial)
    return {}


def _land_in_another_form(world: World, trial: Trial) -> None:
    """Land a batch as two files, and release it so that it is landed again as one.

    An earlier release with smaller splits would have landed the two files.
    """
    for stop_at, count in ((steps.MANIFEST_NEXT, 4), (steps.LANDING_LANDED, 4)):
        world.publish(count)
        attempt = world.start(stop_at=stop_at)
        held = attempt.wait_stopped()
        assert held is not None, attempt.said()
        attempt.kill(attempt.supervisor, attempt.task, held.pid)
        attempt.wait_gone(held.pid)
    _into_two_files(world)
    [batch] = world.batches
    shutil.rmtree(batch)
    trial.causes["the batch was released by hand"] = 8


def _into_two_files(world: World) -> None:
    for file in [*world.lake.rglob("*-00000.parquet")]:
        rows = pq.read_table(file, partitioning=None)
        half = rows.num_rows // 2
        pq.write_table(rows.slice(half), file.with_name(file.name.replace("-00000.", "-00001.")))
        pq.write_table(rows.slice(0, half), file)


def _strike(point: CrashPoint, world: World, attempt: Attempt, held: Reached, trial: Trial) -> None:
    task, victim = attempt.task, point.victim
    if victim is Victim.EMULATOR:
        world.bus.restart()
    elif victim is Victim.TERMINATED:
        attempt.terminate_task(task)
    else:
        attempt.kill(*_pids(victim, attempt, held))
    if victim in GO_ON:
        attempt.go_on(held.pid)
    if victim in NOTICED:
        attempt.wait()
    else:
        attempt.wait_gone(task)
    world.bus.wait_no_subscriber(world.topic)
    _explain(point, world, trial)


def _pids(victim: Victim, attempt: Attempt, held: Reached) -> list[int]:
    match victim:
        case Victim.TASK:
            return [attempt.task]
        case Victim.SUPERVISOR:
            return [attempt.supervisor]
        case Victim.JOB:
            return [held.pid]
        case Victim.JVM:
            return [parent_of(held.pid), held.pid]
    return [attempt.supervisor, attempt.task]


def _explain(point: CrashPoint, world: World, trial: Trial) -> None:
    """Explain the extra deliveries: events that only the killed process had in memory.

    No other event may be delivered again.
    """
    released = sum(trial.causes.values())
    extra_deliveries = world.bus.deliveries(world.topic) - released - len(world.note_kept())
    if extra_deliveries > 0:
        trial.causes[_cause(point)] = extra_deliveries


def _cause(point: CrashPoint) -> str:
    if point.front is not Front.NONE and point.victim is Victim.TWIN_BESIDE:
        return "two triggerers have run one trigger at once"
    who = f"{point.front.value}, " * bool(point.front.value)
    return f"in memory at {point.step} ({who}{point.victim.value} killed)"


def _recover(point: CrashPoint, world: World, options: dict[str, str], trial: Trial) -> None:
    """Run tries or new runs until one of them has nothing left to do."""
    most = MOST_ATTEMPTS_BEYOND if point.beyond else MOST_ATTEMPTS
    for number in range(most):
        if world.is_quiet():
            return
        attempt = world.start(again=point.again and number == 0, options=options)
        status = attempt.wait()
        trial.wrong += invariants.doubled(world)
        if status and number == most - 1:
            trial.wrong.append(f"attempt {number + 1} still fails:\n{attempt.said()}")


def _reckon(world: World, trial: Trial) -> None:
    trial.events = len(world.published)
    trial.deliveries = world.bus.deliveries(world.topic)
    trial.attempts = len(world.attempts)
    explained = sum(trial.causes.values())
    again = trial.deliveries - len(world.replay_ids) - explained
    if 0 < again <= world.may_come_again:
        trial.causes["kept here, and not yet by Salesforce"] = again
        explained += again
    trial.wrong += [
        *invariants.doubled(world),
        *invariants.lost(world),
        *invariants.misplaced(world),
        *invariants.orphans(world),
        *invariants.delivered_again(world, explained),
        *invariants.overcounted(world, trial.deliveries),
    ]
    if trial.wrong:
        trial.wrong.append(f"the last attempt said:\n{world.attempts[-1].said()}")
