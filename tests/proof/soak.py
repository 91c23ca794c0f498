"""Soak: random rounds over a set of worlds, with checks after each round and at the end.

`make soak` runs hundreds of rounds.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tests.harness import skew
from tests.proof import invariants, schedule
from tests.proof.schedule import Round, plan_round
from tests.proof.soak_fronts import RUNS_OF_THEIR_OWN, SoakFront
from tests.proof.world import SPARK, STAND_IN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.harness.supervised import Attempt, Reached
    from tests.proof.world import Stage, World

MOST_ATTEMPTS_TO_DRAIN = 8
LINE_EVERY = 10


class BrokenPromiseError(AssertionError):
    """A rule does not hold; the message names the round and the command that repeats it."""


@dataclass(slots=True, kw_only=True)
class Soak:
    """One soak.

    :param say: receives lines of progress.
    :ivar causes: extra deliveries by cause.
    :ivar fronts: rounds, deliveries and extra deliveries by the kind of wait before the attempts.
    :ivar published, deliveries: totals of the latest summary.
    """

    stage: Stage
    seed: int
    rounds: int
    spark_every: int
    say: Callable[[str], None]
    worlds: dict[str, World] = field(default_factory=dict)
    causes: Counter[str] = field(default_factory=Counter)
    fronts: dict[str, Counter[str]] = field(default_factory=dict)
    kills: int = 0
    seconds: float = 0.0
    published: int = 0
    deliveries: int = 0
    _sleepers: dict[str, list[tuple[Attempt, int]]] = field(default_factory=dict)
    _hours: float = 0.0

    def run(self) -> None:
        """Run all rounds, then land what is left and check everything.

        :raises BrokenPromiseError: at the first rule that does not hold.
        """
        began = time.monotonic()
        for number in range(1, self.rounds + 1):
            plan = plan_round(self.seed, number, self.spark_every)
            try:
                self._play(plan)
            except Exception as wrong:
                raise BrokenPromiseError(self._how_to_repeat(plan, wrong)) from wrong
            if number % LINE_EVERY == 0 or number == self.rounds:
                self.say(
                    f"round {number} of {self.rounds}: {self.summary()}; "
                    f"{time.monotonic() - began:.0f} s"
                )
        try:
            for world in self.worlds.values():
                self._drain(world)
        except Exception as wrong:
            raise BrokenPromiseError(self._how_to_repeat(None, wrong)) from wrong
        self.seconds = time.monotonic() - began
        self.say(f"drained: {self.summary()}; {self.seconds:.0f} s")

    def summary(self) -> str:
        """Sum up the figures so far."""
        self.published = sum(len(world.replay_ids) for world in self.worlds.values())
        self.deliveries = sum(world.bus.deliveries(world.topic) for world in self.worlds.values())
        distinct = sum(len(world.published) for world in self.worlds.values())
        landed = sum(len(world.landed()) for world in self.worlds.values())
        return (
            f"{self.published} published ({distinct} distinct events), {landed} landed, "
            f"{self.kills} kills, {self.deliveries} deliveries "
            f"({self.causes.total()} more than once)"
        )

    def _world(self, name: str, staging: str) -> World:
        key = f"{name}-{staging.replace(' ', '-')}"
        if key not in self.worlds:
            real = name == SPARK
            options = {"PROOF_MAX_QUARANTINED": "1000000"}
            world = self.stage.world(
                f"{key}-{self.seed}",
                store="variable" if real else name,
                job=SPARK if real else STAND_IN,
                **options,
            )
            world.attempts_per_area = schedule.ATTEMPTS_PER_AREA[staging]
            self.worlds[key] = world
        return self.worlds[key]

    def _play(self, plan: Round) -> None:
        world = self._world(plan.world, plan.staging)
        if plan.hours and self._hours + plan.hours <= schedule.MOST_HOURS:
            self._hours += plan.hours
            world.bus.advance(plan.hours)
        if plan.compacts and not self._sleepers.get(world.name):  # no batch is landing
            world.compact()
        _publish(world, plan)
        if plan.wakes:
            self._wake(world)
        front = SoakFront(plan, world)
        front.wait()
        self.kills += front.kills
        again = plan.again or plan.front in RUNS_OF_THEIR_OWN
        first = world.start(again=again, stop_at=plan.stop_at, options=_options(plan))
        twins = self._let_happen(plan, world, first)
        if plan.stop_at and (held := first.wait_stopped()):
            self._kill(plan, world, first, held)
        asleep = {pid for _, pid in self._sleepers.get(world.name, [])}
        for attempt in (first, *twins):
            attempt.wait_all_gone(but=asleep)
        front.end()
        world.bus.order("clear_faults")
        self._reckon(plan, world, is_calm=plan.is_calm and front.is_calm)

    def _let_happen(self, plan: Round, world: World, first: Attempt) -> list[Attempt]:
        """Carry out the timed orders of a round; return the attempts started meanwhile."""
        twins: list[Attempt] = []
        happenings: list[tuple[float, Callable[[], object]]] = []
        if plan.twin_seconds is not None:
            happenings.append((plan.twin_seconds, lambda: twins.append(world.start())))
        if plan.victim != schedule.NO_VICTIM and not plan.stop_at:
            happenings.append((plan.kill_seconds, lambda: self._kill(plan, world, first, None)))
        happenings += _faults(plan, world)
        began = time.monotonic()
        for seconds, happen in sorted(happenings, key=lambda one: one[0]):
            time.sleep(max(0.0, began + seconds - time.monotonic()))  # as planned
            happen()
        return twins

    def _kill(self, plan: Round, world: World, attempt: Attempt, held: Reached | None) -> None:
        self.kills += 1
        task = attempt.task_now()
        dead = {
            schedule.TASK: task,
            schedule.SUPERVISOR: [attempt.supervisor],
            schedule.WORKER: [attempt.supervisor, *task],
            schedule.SLEEPER: [attempt.supervisor, *task],
            schedule.JOB: [held.pid] if held else [],
        }
        if plan.victim == schedule.TERMINATED:
            attempt.terminate_task(*task)
        elif plan.victim == schedule.EVERYTHING:
            attempt.kill(attempt.supervisor, *attempt.processes())
        else:
            attempt.kill(*dead[plan.victim])
        if held is None:
            return
        if plan.victim == schedule.SLEEPER:
            self._sleepers.setdefault(world.name, []).append((attempt, held.pid))
        else:
            attempt.go_on(held.pid)

    def _wake(self, world: World) -> list[tuple[Attempt, int]]:
        woken = self._sleepers.pop(world.name, [])
        for attempt, pid in woken:
            attempt.go_on(pid)
        return woken

    def _reckon(self, plan: Round, world: World, *, is_calm: bool) -> None:
        world.bus.wait_no_subscriber(world.topic)
        extra = self._count_extra(world, plan.cause)
        of_front = self.fronts.setdefault(plan.front.value, Counter())
        of_front.update(rounds=1, deliveries=world.deliveries_since(), more=extra)
        wrong = invariants.doubled(world)
        if extra and is_calm:
            wrong.append(f"{extra} deliveries more than once in a round in which nothing happened")
        assert not wrong, "\n".join(wrong)

    def _count_extra(self, world: World, cause: str) -> int:
        """Count deliveries since the last count that brought no event into a closed file."""
        extra = world.bus.deliveries(world.topic) - len(world.note_kept()) - world.extra_deliveries
        world.extra_deliveries += extra
        if extra:
            self.causes[cause] += extra
        return extra

    def _drain(self, world: World) -> None:
        """Run undisturbed attempts until nothing is left, and check every rule."""
        for attempt, _ in self._wake(world):
            attempt.wait_all_gone()
        said = _land_all(world)
        if world.replay_ids and world.age_leftovers():
            world.publish(1)  # the commit of this event's batch deletes the leftovers
            said = _land_all(world)
        world.note_kept()
        if not world.replay_ids:
            return
        if not world.has_one_area:
            self._count_extra(world, "staged in another staging area")
        wrong = [
            *invariants.doubled(world),
            *invariants.lost(world),
            *invariants.misplaced(world),
            *invariants.orphans(world),
            *invariants.delivered_again(world, world.extra_deliveries),
        ]
        assert not wrong, "\n".join([f"world {world.name}:", *wrong, said])

    def _how_to_repeat(self, plan: Round | None, wrong: Exception) -> str:
        where = f"round {plan.number} ({plan.describe()})" if plan else "the drain at the end"
        rounds = plan.number if plan else self.rounds
        return (
            f"seed {self.seed}, {where}: {str(wrong) or repr(wrong)}\n"
            f"To repeat it: make soak SEED={self.seed} ROUNDS={rounds} "
            f"SPARK_EVERY={self.spark_every}\n"
            f"The worlds are in {self.stage.folder}"
        )


def _land_all(world: World) -> str:
    """Run attempts until nothing is left; return the end of the last log."""
    said = ""
    for _ in range(MOST_ATTEMPTS_TO_DRAIN):
        if not world.replay_ids or world.is_quiet():
            break
        attempt = world.start()
        attempt.wait()
        said = attempt.said()
    return said


def _options(plan: Round) -> dict[str, str]:
    """Options of the first attempt."""
    options = {skew.SECONDS: str(plan.skew_seconds)}
    if plan.timeout_seconds:
        options["PROOF_EXECUTION_TIMEOUT"] = str(plan.timeout_seconds)
    if plan.fault == schedule.OUTAGE:
        options["PROOF_MAX_SECONDS"] = str(schedule.OUTLASTS_SECONDS)
    return options


def _faults(plan: Round, world: World) -> list[tuple[float, Callable[[], object]]]:
    match plan.fault:
        case schedule.NOTHING:
            return []
        case schedule.KILLED:
            return [(plan.fault_seconds, world.bus.restart)]
        case schedule.FROZEN:
            until = plan.fault_seconds + plan.frozen_seconds
            return [(plan.fault_seconds, world.bus.freeze), (until, world.bus.thaw)]
    verb, arguments = schedule.ORDERS[plan.fault]
    return [(plan.fault_seconds, partial(world.bus.order, verb, **arguments))]


def _publish(world: World, plan: Round) -> None:
    world.publish(plan.events)
    if plan.big:
        world.publish(1, size=schedule.BIG)
    if plan.poison:
        world.publish_undecodable()
    if plan.retried and world.published:
        world.repeat(world.published[-plan.retried :])
