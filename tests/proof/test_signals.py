"""Tasks under Airflow's real supervisor, ended at random moments by timeout or SIGTERM."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.staging import layout
from tests.harness import stops
from tests.proof import invariants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from tests.harness.supervised import Attempt
    from tests.proof.world import Stage, World

pytestmark = pytest.mark.airflow

TIMEOUT, TERMINATE = "timeout", "terminate"
BUSY = 60
"""Events that are published before each attempt: fifteen responses."""

MOMENTS = (
    # step, the most times that it is reached, the longest time after it
    (steps.AUTHENTICATED, 1, 0.05),
    (steps.LEASED, 1, 0.05),
    *[(steps.DELIVERED, 12, 0.05)] * 4,
    (steps.PART_CLOSED, 1, 0.02),
    (steps.MANIFEST_NEXT, 1, 0.02),
    (steps.MANIFEST_WRITTEN, 1, 0.02),
    (steps.SPARK_NEXT, 1, 0.5),
    (steps.SPARK_ENDED, 1, 0.02),
    # the Variable is written between this step and the next
    *[(steps.COMMIT_NEXT, 1, 0.02)] * 3,
)
KINDS = tuple(dict.fromkeys(MOMENTS))
ENDED = {
    TIMEOUT: ("AirflowTaskTimeout",),
    # before the start of Spark, and while it runs
    TERMINATE: ("The task was ended", "Cannot execute: "),
}


@dataclass(slots=True, kw_only=True)
class Signals:
    """Attempts of one task in one world, most of them ended by a signal.

    :ivar sent: signals by how and step.
    :ivar released: seconds from a signal to the release of the lease, as the process counted them.
    :ivar wrong: what does not hold, in words.
    """

    world: World
    chance: random.Random
    sent: Counter[str] = field(default_factory=Counter)
    released: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def send(self, how: str, moment: tuple[str, int, float]) -> None:
        """Run attempts until one of them got a signal at this kind of moment."""
        step, most, seconds = moment
        while True:
            order = f"{step}:{self.chance.randint(1, most)}:{how}:{self.chance.uniform(0, seconds)}"
            self.world.publish(BUSY)
            options = {stops.SIGNAL: order, "PROOF_EXECUTION_TIMEOUT": "600"}
            attempt = self.world.start(again=self._tries_again(), options=options)
            attempt.wait_all_gone()
            if attempt.told("signalled"):
                break
        self.sent[f"{how} {step}"] += 1
        self.released += attempt.told("released")
        self._look(attempt, order, how)

    def _tries_again(self) -> bool:
        """True if the next attempt is another try of the failed run, False if it is a new run."""
        attempts = self.world.attempts
        return bool(attempts and attempts[-1].state == "failed" and self.chance.random() < 0.7)

    def end(self) -> None:
        """Run attempts without a signal until nothing is left, and check every rule."""
        for _ in range(3):
            if not self.world.is_quiet():
                self.world.start(again=self._tries_again()).wait_all_gone()
        self.wrong += [
            *invariants.doubled(self.world),
            *invariants.lost(self.world),
            *invariants.misplaced(self.world),
            *invariants.orphans(self.world),
        ]

    def _look(self, attempt: Attempt, order: str, how: str) -> None:
        log = attempt.log.read_text(errors="replace")
        wrong = list(self._left_behind())
        ends = any(words in log for words in ENDED[how])
        reached = {one.step for one in attempt.steps()}
        # A signal that comes after Spark may let the commit end. One that comes after the end of a
        # retry whose batch had been committed before finds nothing to end.
        whole = steps.COMMITTED in reached or not reached & {steps.DELIVERED, steps.SPARK_NEXT}
        if not (attempt.state == "failed" and ends) and not (attempt.state == "success" and whole):
            wrong.append(f"ended as {attempt.state!r}:\n{log[-3000:]}")
        self.wrong += [f"{order}: {one}" for one in wrong]

    def _left_behind(self) -> Iterator[str]:
        for batch in self.world.batches:
            for lease in (batch / layout.LEASES).glob("*.json"):
                if not lease.with_suffix(".released").exists():
                    yield f"lease {lease} is not released"
        for part in self.world.staging.rglob(".part-*"):
            yield f"file {part} is not closed"
        if doubled := invariants.doubled(self.world):
            yield doubled[0]


@pytest.fixture(scope="module")
def stage(new_stage: Callable[[str], AbstractContextManager[Stage]]) -> Iterator[Stage]:
    with new_stage("signals") as stage:
        yield stage


def _go_through(
    stage: Stage, seed: int, count: int, among: Sequence[tuple[str, int, float]] = MOMENTS
) -> Signals:
    signals = Signals(world=stage.world(f"seed-{seed}"), chance=random.Random(seed))  # noqa: S311
    moments = signals.chance.sample(among, len(among))
    for number in range(count):
        how = TIMEOUT if number % 2 else TERMINATE
        signals.send(how, moments[number // 2 % len(moments)])
        stage.bus.wait_no_subscriber(signals.world.topic)
    signals.end()
    return signals


@pytest.mark.timeout(600)
def test_a_task_that_is_ended_at_a_random_moment_holds_nothing(stage: Stage) -> None:
    """After a timeout or SIGTERM the lease is released, files are closed, and no event is lost."""
    signals = _go_through(stage, 7, 12)
    assert signals.wrong == [], "\n".join(signals.wrong)


@pytest.mark.full
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("seed", "count", "among"),
    [
        (1, 2 * len(KINDS), KINDS),
        *((seed, 58, MOMENTS) for seed in (2, 3, 4)),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_tasks_that_are_ended_at_random_moments_hold_nothing(
    stage: Stage, seed: int, count: int, among: Sequence[tuple[str, int, float]]
) -> None:
    """After so many signals no lease is held, no file is open, and no event is lost."""
    signals = _go_through(stage, seed, count, among)
    assert signals.wrong == [], "\n".join(signals.wrong)
    assert {name.partition(" ")[2] for name in signals.sent} == {step for step, _, _ in MOMENTS}
