"""The named crash points: the step, the victim, and the stores.

A step that is added without a crash point fails a test.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from tests.proof.world import MANAGED, OWN, PUBSUB, SPARK, STAND_IN, STORES, STREAMING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Victim(enum.Enum):
    """Process that is killed while the step is held, or another disturbance there."""

    TASK = "task"  # the task's process; its supervisor notices that
    SUPERVISOR = "supervisor"  # the supervisor only; the task continues without it
    TERMINATED = "terminated"  # the task's process, by SIGTERM: it ends by itself
    WORKER = "worker"  # task and supervisor, as after the loss of the machine
    JOB = "job"  # Spark's driver
    JVM = "jvm"  # spark-submit's Java, the driver's parent
    TWIN_AFTER = "twin-after"  # the worker; the job continues after the next attempt has landed
    TWIN_BESIDE = "twin-beside"  # the worker; the job continues beside the next attempt
    EMULATOR = "emulator"  # Salesforce; it restarts on the same ports, and the task continues
    TRIGGERER = "triggerer"  # the process that runs the trigger


class Front(enum.Enum):
    """Kind of wait before the task that fetches; the wait is the victim."""

    NONE = ""
    POKE = "poke"  # a sensor, in the worker
    TRIGGER = "trigger"  # a deferred sensor's trigger
    WATCH = "watch"  # a watcher, which starts the runs


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """One kill.

    :param step: step at which the victim is killed, as `name` or `name:2`; all its processes are
        stopped.
    :param again: another try of the same run follows instead of the next run; after a killed wait,
        another wait follows instead of the task that fetches.
    :param front: kind of wait that is killed, before the task that fetches.
    :param latest: the first run starts at `latest`.
    :param beyond: events are delivered beyond the batch's bounds and begin the next batch.
    :param transport: API of Salesforce by which the events come.
    """

    step: str
    victim: Victim = Victim.TASK
    store: str = "variable"
    job: str = STAND_IN
    again: bool = False
    front: Front = Front.NONE
    latest: bool = False
    beyond: bool = False
    transport: str = PUBSUB

    @property
    def id(self) -> str:
        job = "" if self.job == STAND_IN else self.job
        how = "latest" * self.latest + "beyond" * self.beyond
        transport = self.transport * (self.transport != PUBSUB)
        said = (self.store, transport, job, self.front.value, how, self.step, self.victim.value)
        return "-".join(filter(None, said))

    @property
    def step_name(self) -> str:
        return self.step.partition(":")[0]


FALLBACKS = frozenset({steps.FALLBACK_NEXT, steps.FALLBACK_WRITTEN})
"""Steps of a task whose replay id is refused."""

BEGINNINGS = (steps.POSITION_BEGUN, steps.ORIGIN_WRITTEN)
BEYOND = (steps.MANIFEST_NEXT, steps.MANIFEST_WRITTEN, *steps.CARRY_OVER_STEPS)
"""Steps at which events beyond the batch are in memory only."""

LISTENING = (steps.LEASED, steps.DELIVERED, steps.PART_CLOSED, steps.WAITED)
"""Steps of a wait that receives an event."""

REWRITES = frozenset({steps.LANDING_CLEAR, steps.LANDING_REMOVE})
"""Steps of a landing that replaces an older form of its batch; only the real job takes them."""

MANAGED_WORKER_STEPS = (
    *(step for step in steps.WORKER_STEPS if step not in FALLBACKS),
    *steps.MANAGED_STEPS,
)
"""Steps of the worker with a managed subscription: no replay id is requested or refused."""

_IN_MID_STREAM = (
    steps.AUTHENTICATED,
    steps.LEASED,
    steps.DELIVERED,
    steps.PART_CLOSED,
    steps.SCHEMA_KEPT,
    steps.MANIFEST_NEXT,
)
_STORES_IN_TURN = (
    steps.POSITION_BEGUN,
    steps.ORIGIN_WRITTEN,
    steps.POSITION_SET,
    steps.FALLBACK_NEXT,
    steps.FALLBACK_WRITTEN,
    steps.COMMITTED,
    steps.COMMIT_NEXT,
)
"""Steps of the worker around its reads and writes of the position."""

_MANAGED_DAILY: dict[Victim, set[str]] = {
    Victim.TASK: {
        *(steps.POSITION_BEGUN, steps.DELIVERED, steps.MANIFEST_WRITTEN, steps.COMMIT_NEXT),
        *(steps.POSITION_SET, *steps.MANAGED_STEPS),
    },
    Victim.WORKER: set(),
}
_MANAGED_WAITS_DAILY = {
    Front.POKE: {steps.DELIVERED, steps.WAITED},
    Front.TRIGGER: {steps.LEASED, steps.PART_CLOSED},
}
_DAILY = {
    Victim.TERMINATED: {
        *(steps.DELIVERED, steps.MANIFEST_NEXT, steps.SPARK_NEXT, steps.POSITION_SET),
    },
    Victim.SUPERVISOR: {steps.DELIVERED, steps.COMMIT_NEXT},
    Victim.WORKER: {steps.LEASED, steps.MANIFEST_WRITTEN, steps.CARRY_OVER_LEASED},
    Victim.EMULATOR: {steps.LEASED, steps.DELIVERED, steps.PART_CLOSED, steps.MANIFEST_WRITTEN},
    Victim.TWIN_AFTER: {steps.LANDING_MOVE, steps.RECEIPT_NEXT},
    Victim.TWIN_BESIDE: {steps.LANDING_MOVE},
}
"""Steps of a task at which `make test-full` has these victims; others die at each step."""

_SUBMITTED_DAILY = {Victim.JOB, Victim.JVM, Victim.TWIN_BESIDE}
_OVER_STREAMING_DAILY = frozenset(
    {
        "variable-streaming-delivered:2-task",
        "variable-streaming-manifest-next-emulator",
        "variable-streaming-trigger-part-closed-triggerer",
    }
)
_JOB_STEPS = tuple(step for step in steps.LANDING_STEPS if step not in REWRITES)


def crash_points() -> list[CrashPoint]:
    """Return all crash points: over the Pub/Sub API, then over the Streaming API.

    Only the Pub/Sub API has managed subscriptions.
    """
    of_both = [
        *_worker_points(),
        *_beyond_points(),
        *_latest_points(),
        *_wait_points(),
        *_stand_in_points(),
        *_spark_points(),
    ]
    over_streaming = [replace(point, transport=STREAMING) for point in of_both]
    return [*of_both, *_managed_points(), *over_streaming]


def quick_points() -> list[CrashPoint]:
    """Return a few crash points that differ most, for the daily tests."""
    wanted = {
        "variable-delivered:2-task",
        "xcom-position-set-task",
        "variable-landing-move-twin-after",
        "variable-manifest-written-emulator",
        "variable-trigger-part-closed-triggerer",
        "variable-beyond-carry-over-leased-task",
    }
    return [point for point in crash_points() if point.id in wanted]


def is_repeated(point: CrashPoint) -> bool:
    """Tell whether `make proof` alone has this crash point: others meet all that it combines.

    1. The job knows no store, and neither does the worker except around the position. One store
       meets these steps; the other stores meet those around the position in turn, and each store
       the write itself.
    2. A victim dies at a few steps that differ most, the task's process at each.
    3. The kinds of wait share the code that listens. Each step is met, and each kind of wait.
    4. `test_signals` sends SIGTERM at random moments, beside the few named steps.
    5. `tests/spark/test_landing_killed.py` kills the real job at each step without spark-submit.
    6. Over the Streaming API, `tests/integration/batches/test_streaming_waits.py` kills a fetch at
       each of its steps without Airflow, and from the manifest on both APIs have the same code.
    """
    if point.transport == STREAMING:
        return point.id not in _OVER_STREAMING_DAILY
    if point.job == SPARK:
        return point.victim not in _SUBMITTED_DAILY or point.step != steps.LANDING_MOVE
    if point.store == MANAGED:
        waits = _MANAGED_WAITS_DAILY.get(point.front)
        daily = _MANAGED_DAILY.get(point.victim) if waits is None else waits
        return daily is not None and point.step_name not in daily
    if point.front is not Front.NONE:
        return _is_repeated_wait(point)
    if point.store != "variable":
        return not _is_stores_turn(point)
    return point.step_name not in _DAILY.get(point.victim, {point.step_name})


def _is_repeated_wait(point: CrashPoint) -> bool:
    if point.front is Front.WATCH:
        return point.step in {steps.LEASED, steps.PART_CLOSED}
    if point.latest:
        return point.step == steps.ORIGIN_WRITTEN
    return point.step == steps.FALLBACK_NEXT or not _is_stores_turn(point)


def _is_stores_turn(point: CrashPoint) -> bool:
    """Tell whether this store is the one beside "variable" that meets the step."""
    if point.store == "variable":
        return True
    if point.victim is not Victim.TASK or point.step not in _STORES_IN_TURN:
        return False
    others = [store for store in STORES if store != "variable"]
    turn = others[_STORES_IN_TURN.index(point.step) % len(others)] == point.store
    is_write = point.step == steps.POSITION_SET and not point.latest
    return turn or is_write


def _worker_points() -> Iterator[CrashPoint]:
    """Each step of the worker in each store, followed by the next try or the next run."""
    for row, store in enumerate(STORES):
        for column, step in enumerate(steps.WORKER_STEPS):
            nth = ":2" if step == steps.DELIVERED else ""
            yield CrashPoint(step=step + nth, store=store, again=(row + column) % 2 == 0)
    for column, step in enumerate(steps.WORKER_STEPS):
        yield CrashPoint(step=step, victim=Victim.TERMINATED, again=column % 2 == 0)
    for step in (steps.LEASED, steps.DELIVERED, steps.MANIFEST_WRITTEN, steps.COMMIT_NEXT):
        yield CrashPoint(step=step, victim=Victim.SUPERVISOR)
        yield CrashPoint(step=step, victim=Victim.WORKER, again=True)
    for step in (*_IN_MID_STREAM, steps.MANIFEST_WRITTEN):
        yield CrashPoint(step=step, victim=Victim.EMULATOR)


def _beyond_points() -> Iterator[CrashPoint]:
    """Steps for events beyond a batch: manifest, lease and first part of the next batch."""
    for column, step in enumerate((*BEYOND, f"{steps.PART_CLOSED}:2")):
        yield CrashPoint(step=step, again=column % 2 == 0, beyond=True)
    yield CrashPoint(step=steps.CARRY_OVER_LEASED, victim=Victim.WORKER, beyond=True)


def _latest_points() -> Iterator[CrashPoint]:
    """Steps of a fetch that pins `latest` by a keepalive, in each store."""
    for row, store in enumerate(STORES):
        for column, step in enumerate((steps.POSITION_SET, *BEGINNINGS)):
            again = (row + column) % 2 == 0
            yield CrashPoint(step=step, store=store, again=again, latest=True)


def _wait_points() -> Iterator[CrashPoint]:
    """Each step of a wait, for a sensor, a trigger or a watcher."""
    yield from _poke_points()
    for step in (steps.KEEPALIVE_POINT_WRITTEN, *LISTENING):
        again = step != steps.WAITED
        yield CrashPoint(front=Front.TRIGGER, step=step, victim=Victim.TRIGGERER, again=again)
    for victim in (Victim.EMULATOR, Victim.TWIN_BESIDE):
        yield CrashPoint(front=Front.TRIGGER, step=steps.DELIVERED, victim=victim, again=True)
    for step in (*BEGINNINGS, *LISTENING, steps.ANNOUNCED):
        again = step != steps.PART_CLOSED
        yield _watched(step, Victim.TRIGGERER, again=again)


def _watched(step: str, victim: Victim, *, again: bool) -> CrashPoint:
    return CrashPoint(front=Front.WATCH, step=step, victim=victim, store=OWN, again=again)


def _poke_points() -> Iterator[CrashPoint]:
    """Steps that begin a position, in each store; the other steps of a sensor in one store."""
    for row, store in enumerate(STORES):
        for column, step in enumerate(BEGINNINGS):
            again = (row + column) % 2 == 0
            yield CrashPoint(front=Front.POKE, step=step, store=store, again=again)
    for column, step in enumerate((*LISTENING, *sorted(FALLBACKS))):
        yield CrashPoint(front=Front.POKE, step=step, again=column % 2 == 0)
    for step in (steps.LEASED, *BEGINNINGS):
        again = step != steps.ORIGIN_WRITTEN
        yield CrashPoint(front=Front.POKE, step=step, again=again, latest=True)
    for step, victim in (
        (steps.LEASED, Victim.SUPERVISOR),
        (steps.DELIVERED, Victim.WORKER),
        (steps.DELIVERED, Victim.EMULATOR),
    ):
        yield CrashPoint(front=Front.POKE, step=step, victim=victim, again=True)


def _managed_points() -> Iterator[CrashPoint]:
    """Steps with a managed subscription: each of the worker, and those of a wait."""
    for column, step in enumerate(MANAGED_WORKER_STEPS):
        nth = ":2" if step == steps.DELIVERED else ""
        yield CrashPoint(step=step + nth, store=MANAGED, again=column % 2 == 0)
    for step in (steps.DELIVERED, *steps.MANAGED_STEPS):
        yield CrashPoint(step=step, store=MANAGED, victim=Victim.EMULATOR)
        yield CrashPoint(step=step, store=MANAGED, victim=Victim.WORKER, again=True)
    for column, step in enumerate(LISTENING):
        yield CrashPoint(front=Front.POKE, step=step, store=MANAGED, again=column % 2 == 0)
        yield CrashPoint(
            front=Front.TRIGGER, step=step, store=MANAGED, victim=Victim.TRIGGERER, again=True
        )


def _stand_in_points() -> Iterator[CrashPoint]:
    """Each step of the job in each store, by the stand-in without Spark."""
    for row, store in enumerate(STORES):
        for column, step in enumerate(_JOB_STEPS):
            yield CrashPoint(
                step=step, victim=Victim.JOB, store=store, again=(row + column) % 2 == 0
            )
    for step in (steps.LANDING_FOLDER, steps.LANDING_MOVE, steps.RECEIPT_NEXT):
        yield CrashPoint(step=step, victim=Victim.TWIN_AFTER)
        yield CrashPoint(step=step, victim=Victim.TWIN_BESIDE, again=True)


def _spark_points() -> Iterator[CrashPoint]:
    """Each step of the job under the real spark-submit, and its twins.

    Mostly another try follows rather than a next run, because it starts Spark once less.
    """
    for step in steps.LANDING_STEPS:
        again = step != steps.LANDING_MOVE
        yield CrashPoint(step=step, victim=Victim.JOB, job=SPARK, again=again)
    for step in (steps.LANDING_BEGAN, steps.LANDING_MOVE):
        yield CrashPoint(step=step, victim=Victim.JVM, job=SPARK, again=True)
    for step in (steps.LANDING_WRITE, steps.LANDING_MOVE, steps.RECEIPT_NEXT):
        yield CrashPoint(step=step, victim=Victim.TWIN_AFTER, job=SPARK, again=True)
    yield CrashPoint(step=steps.LANDING_MOVE, victim=Victim.TWIN_BESIDE, job=SPARK, again=True)
