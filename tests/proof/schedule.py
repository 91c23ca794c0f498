"""Plan of each round of a soak, decided by the seed and the round's number alone.

Any round can be planned again. Durations are not part of the plan, so a repeated round has the same
orders at the same offsets, and not the same interleaving.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_sfevents import steps
from tests.proof.points import FALLBACKS, LISTENING, REWRITES, Front
from tests.proof.world import OWN, SPARK, STAND_IN, STORES

STEPS = tuple(
    step for step in (*steps.WORKER_STEPS, *steps.LANDING_STEPS) if step not in FALLBACKS | REWRITES
)
IN_MEMORY = tuple(f"{steps.DELIVERED}:{nth}" for nth in (1, 2, 3))
"""Steps at which a kill costs deliveries: the first, the second, the third one."""

JOB_STEPS = tuple(step for step in steps.LANDING_STEPS if step not in REWRITES)

NO_VICTIM, TASK, SUPERVISOR, WORKER, JOB, EVERYTHING = (
    "none",
    "task",
    "supervisor",
    "worker",
    "job",
    "everything",
)
TERMINATED = "terminated"  # the task, by SIGTERM
SLEEPER = "sleeper"  # the worker; its job sleeps on, and wakes up in a later round
NOTHING, KILLED, FROZEN = "", "emulator killed", "emulator frozen"
OUTAGE = "unreachable for two minutes"
OUTLASTS_SECONDS = 200.0
"""`max_seconds` of a task that waits until such an outage is over."""
ORDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "connections reset": ("drop_connections", {"how": "reset"}),
    "connections told to go away": ("drop_connections", {"how": "goaway"}),
    "streams reset": ("drop_connections", {"how": "rst_stream"}),
    "streams ended politely": ("drop_connections", {"how": "end"}),
    "tokens expired": ("expire_tokens", {"in_stream": True}),
    "unreachable for a second": ("away", {"seconds": 1.0}),
    "unreachable for five seconds": ("away", {"seconds": 5.0}),
    "unreachable for longer than max_seconds": ("away", {"seconds": 40.0}),
    OUTAGE: ("away", {"seconds": 120.0}),
    "a trickle": ("trickle", {"bytes_per_second": 2_000}),
    "unavailable in mid-stream": (
        "fail_next",
        {"rpc": "Subscribe", "status": "UNAVAILABLE", "after": 2},
    ),
    "no schema": ("fail_next", {"rpc": "GetSchema", "status": "UNAVAILABLE"}),
    "no login": ("fail_next", {"rpc": "token", "status": "UNAVAILABLE"}),
    "events repeated": ("repeat_next", {"events": 2}),
    "events re-ordered": ("reorder_next", {"events": 3}),
    "events sent again": ("resend_on_reconnect", {"events": 3}),
}
"""Faults of the emulator by name: the verb and its arguments."""

SHARED, WORKER_DISKS, POD_DISKS = "shared", "worker disks", "pod disks"
STAGINGS = (SHARED, WORKER_DISKS, POD_DISKS)
"""One staging area for all attempts, one for every other attempt, or one for each attempt."""

ATTEMPTS_PER_AREA = {SHARED: 0, WORKER_DISKS: 2, POD_DISKS: 1}
"""Value of `World.attempts_per_area` for each of them."""

FAULTS = (NOTHING, KILLED, FROZEN, *ORDERS)
MOST_HOURS = 60.0
"""Hours that the clock moves at most in one soak.

Events of its first round are then still on the bus at its end.
"""

BIG = 900_000
"""Bytes of a large event's field; the whole event is below the service's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Plan of one round.

    :param world: position store of the world in which the round runs, or the world of the real job.
    :param events: events published before the attempts; `retried` older events are published once
        more under their ids.
    :param big: one of the events is as large as the service accepts.
    :param poison: one of the events does not decode.
    :param victim: process that is killed.
    :param stop_at: step of the kill; empty: `kill_seconds` after the start.
    :param twin_seconds: offset at which a second run is started beside the first; None: no second
        run.
    :param fault: fault of the emulator at `fault_seconds`.
    :param hours: hours that Salesforce's clock is moved by, first of all.
    :param wakes: sleeping jobs of earlier rounds continue.
    :param front: kind of wait before the first attempt; a watcher runs beside it, too.
    :param enough: `min_events` of the wait.
    :param front_seconds: longest time of the wait.
    :param front_killed: the wait is killed, at `front_stop_at` or at the end of its time.
    :param front_terminated: the wait is ended by SIGTERM instead of SIGKILL.
    :param staging: which attempts share a staging area; each kind has its own worlds.
    :param timeout_seconds: `execution_timeout` of the first attempt; 0: none.
    :param skew_seconds: seconds that the first attempt's clock is ahead.
    :param compacts: another program compacts each date's files before the attempts.
    """

    number: int
    world: str
    events: int
    retried: int = 0
    big: bool = False
    poison: bool = False
    victim: str = NO_VICTIM
    stop_at: str = ""
    kill_seconds: float = 0.0
    twin_seconds: float | None = None
    fault: str = NOTHING
    fault_seconds: float = 0.0
    frozen_seconds: float = 0.0
    again: bool = False
    wakes: bool = False
    hours: float = 0.0
    front: Front = Front.NONE
    enough: int = 1
    front_seconds: float = 0.0
    front_killed: bool = False
    front_terminated: bool = False
    front_stop_at: str = ""
    staging: str = SHARED
    timeout_seconds: float = 0.0
    skew_seconds: float = 0.0
    compacts: bool = False

    @property
    def job(self) -> str:
        return SPARK if self.world == SPARK else STAND_IN

    @property
    def is_calm(self) -> bool:
        """True if no process is killed, nothing fails and nothing runs twice.

        Every event of such a round is delivered once.
        """
        undisturbed = self.victim == NO_VICTIM and not self.fault and not self.front_killed
        whole = self.staging == SHARED and not self.timeout_seconds
        return undisturbed and whole and self.twin_seconds is None

    @property
    def cause(self) -> str:
        """Short reason for extra deliveries in this round."""
        killed = f"{self.victim} killed" if self.victim != NO_VICTIM else ""
        twin = "" if self.twin_seconds is None else "a twin"
        timeout = "execution_timeout" * bool(self.timeout_seconds)
        staging = self.staging * (self.staging != SHARED)
        ended = "terminated" if self.front_terminated else "killed"
        front = f"{self.front.value} {ended}" if self.front_killed else ""
        watcher = "a watcher" if self.front is Front.WATCH else ""
        told = filter(None, (front or watcher, killed, self.fault, twin, timeout, staging))
        return " and ".join(told) or "nothing"

    def describe(self) -> str:
        """Describe the round in a few words."""
        where = self.stop_at or f"{self.kill_seconds:.2f} s"
        said = [f"{self.world}: {self.events} events"]
        said += [f"{self.retried} published again"] * bool(self.retried)
        said += ["one of 1 MB"] * self.big + ["one undecodable"] * self.poison
        if self.front is not Front.NONE:
            said += [f"{self.front.value} for {self.enough} before it"]
            ended = "terminated" if self.front_terminated else "killed"
            said += [f"{ended} at {self.front_stop_at or 'its end'}"] * self.front_killed
        said += [f"{self.victim} killed at {where}"] * (self.victim != NO_VICTIM)
        said += [] if self.twin_seconds is None else [f"a twin after {self.twin_seconds:.2f} s"]
        said += [f"{self.fault} at {self.fault_seconds:.2f} s"] * bool(self.fault)
        said += [f"execution_timeout {self.timeout_seconds:.2f} s"] * bool(self.timeout_seconds)
        said += [f"clock {self.skew_seconds:+.0f} s"] * bool(self.skew_seconds)
        said += ["files compacted"] * self.compacts
        said += [self.staging] * (self.staging != SHARED)
        said += ["sleepers wake up"] * self.wakes
        said += [f"{self.hours:.0f} hours later"] * bool(self.hours)
        return ", ".join(said)


def plan_round(seed: int, number: int, spark_every: int) -> Round:
    """Plan the round of this number.

    :param spark_every: the real job runs in every round with a number that this divides; 0: never.
    """
    dice = random.Random(f"{seed}/{number}")  # noqa: S311 - must be repeatable
    real = bool(spark_every) and number % spark_every == 0
    victim = dice.choices(
        (TASK, SUPERVISOR, WORKER, JOB, EVERYTHING, SLEEPER, TERMINATED, NO_VICTIM),
        (6, 3, 4, 3, 3, 3, 4, 4),
    )[0]
    steps_of = JOB_STEPS if victim in {JOB, SLEEPER} else (*STEPS, *IN_MEMORY)
    at_a_step = victim in {JOB, SLEEPER} or dice.random() < 0.6
    fault = dice.choices(FAULTS, (12, 4, 4, *(0.5 if one == OUTAGE else 1 for one in ORDERS)))[0]
    found = Round(
        number=number,
        world=SPARK if real else dice.choice(list(STORES)),
        events=dice.randint(0, 12),
        retried=dice.choice((0, 0, 0, 1, 3)),
        big=dice.random() < 0.05,
        poison=dice.random() < 0.1,
        victim=victim,
        stop_at=dice.choice(steps_of) if at_a_step and victim != NO_VICTIM else "",
        kill_seconds=dice.uniform(0, 12 if real else 2),
        twin_seconds=dice.uniform(0, 1.5) if dice.random() < 0.25 else None,
        fault=fault,
        fault_seconds=dice.uniform(0, 1.0),
        frozen_seconds=dice.uniform(0.2, 2),
        again=dice.random() < 0.4,
        wakes=dice.random() < 0.4,
        hours=dice.choice((0.0,) * 9 + (5.0,)),
        skew_seconds=dice.uniform(-3600, 3600) if dice.random() < 0.3 else 0.0,
        compacts=real and dice.random() < 0.7,
    )
    return _with_staging(_with_front(found, dice), dice)


def _with_staging(found: Round, dice: random.Random) -> Round:
    """Draw a staging area and a timeout.

    The stand-in for the job cannot separate two forms of a batch that land at once, as the real job
    does. With several staging areas, no job is therefore left running beside another attempt.
    """
    staging = dice.choices(STAGINGS, (3, 1, 1))[0] if found.job == STAND_IN else SHARED
    timeout = dice.uniform(0.3, 4) if dice.random() < 0.15 else 0.0
    found = replace(found, staging=staging, timeout_seconds=timeout)
    if staging == SHARED:
        return found
    victim = WORKER if found.victim == SLEEPER else found.victim
    return replace(found, victim=victim, twin_seconds=None, wakes=False)


def _with_front(found: Round, dice: random.Random) -> Round:
    """Draw a wait before the attempts of every other round.

    A watcher is drawn only where it can read the position without an Airflow.
    """
    front = dice.choices((Front.NONE, Front.POKE, Front.TRIGGER, Front.WATCH), (6, 2, 2, 2))[0]
    if front is Front.WATCH and found.world != OWN:
        front = Front.POKE
    killed = front is not Front.NONE and dice.random() < 0.4
    terminated = killed and dice.random() < 0.4
    stops = ("",) if terminated else ("", *LISTENING, f"{steps.DELIVERED}:2")
    return replace(
        found,
        front=front,
        enough=dice.choice((1, 1, 3, 6)),
        front_seconds=dice.uniform(0.5, 2),
        front_killed=killed,
        front_terminated=terminated,
        front_stop_at=dice.choice(stops) if killed else "",
    )
