"""A task's attempt, in the order of `batches.stage`, `operators.sfevents` and `batches.commit`.

`opening` has the steps to the position, `fetching` those of the fetch. Between two steps anything
may happen: a kill, a step of another process. So a step has at most one visible effect, and reads
at most one file or record, unless more of them have the same effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import recovery
from tests.unit.model import (
    decisions,
    fetching,
    leasing,
    managed,
    opening,
    rules as broken,
    waits,
    writing,
)
from tests.unit.model.attempts import checked, ended, failed, stands
from tests.unit.model.world import Batch, Job, Worker, World, staging_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.attempts import Step
    from tests.unit.model.rules import Rules


def steps(rules: Rules, world: World, worker: Worker) -> Iterator[Step]:
    """Possible next steps of this worker, each with the world after it."""
    if worker.at == "done":
        return
    doing = waits.STEPS.get(worker.at) if worker.enough else None
    yield from (doing or _STEPS[worker.at])(rules, world, worker)


def _look(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    batch = world.areas[me.area].batch(me.key)
    if not me.seen:
        yield _look_at_own(world, me, batch)
        return
    parts = batch.parts if rules.keeps(broken.KEEP_PARTS) else ()
    plan = decisions.plan(me.seen, batch, parts, world.areas[me.area].keepalive_point)
    if plan is None:
        yield failed(world, me, "refused: the position was changed by hand")
    elif isinstance(plan, recovery.FetchPlan):
        yield fetching.to_fetch(rules, world, me, plan)
    else:
        landed = isinstance(plan, recovery.CommitPlan)
        further = "commit" if landed else "check launch"
        after = me._replace(at=further, text=batch.manifest)
        if rules.managed:
            after = managed.to_take(after, batch.manifest, further)
        yield f"finds the batch {'landed' if landed else 'staged'}", world.worker(after)


def _look_at_own(world: World, me: Worker, batch: Batch) -> Step:
    if not batch.manifest:
        return failed(world, me, "finds its own batch gone")
    landed = decisions.has_landed(batch.manifest, batch.receipt)
    after = me._replace(at="commit" if landed else "check launch", text=batch.manifest)
    return f"finds its own batch {'landed' if landed else 'staged'}", world.worker(after)


def _check_launch(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    yield checked(rules, world, me, me._replace(at="check position"))


def _check_position(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """`check_before_landing`: the batch is the one after the position, and begins there."""
    found = world.read(me.me)
    is_next = bool(found) and decisions.next_key(found) == me.key
    if is_next and rules.keeps(broken.SAME_AREA):
        is_next = decisions.is_batch_after(found, me.text)
    if is_next or not rules.keeps(broken.READ_AGAIN):
        yield "finds the position before its batch", world.worker(me._replace(at="launch"))
    else:
        yield failed(world, me, "refused: the position was moved or reset meanwhile")


def _launch(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    job = Job(by=me.me, area=me.area, manifest=me.text)
    changed = world._replace(jobs=(*world.jobs, job))
    yield "launches Spark", changed.worker(me._replace(at="wait"))


def _wait(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    index, job = next((index, job) for index, job in enumerate(world.jobs) if job.by == me.me)
    if job.at == "landed":
        yield "sees Spark succeed", world.job(index, None).worker(me._replace(at="commit"))
    elif job.at == "failed":
        ended = world.job(index, None)
        if rules.keeps(broken.RECEIPT):
            yield failed(ended, me, "sees Spark fail")
        else:
            yield "does not look how Spark ended", ended.worker(me._replace(at="commit"))


def _commit(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    batch = world.areas[me.area].batch(me.key)
    if rules.keeps(broken.RECEIPT) and not decisions.has_landed(me.text, batch.receipt):
        yield failed(world, me, "finds no receipt that adds up")
        return
    text = decisions.as_landed(me.text, batch.receipt) if batch.receipt else me.text
    found = world.read(me.me)
    if not found:
        yield failed(world, me, "finds no position")
    elif decisions.is_done(found, text):
        yield "finds the batch committed", world.worker(me._replace(at="sweep", text=""))
    else:
        after = me._replace(at="check commit", seen=found, text=text)
        yield f"finds the receipt, and the position ({stands(found)})", world.worker(after)


def _check_commit(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    by, area = (me.run, me.life), staging_id(me.area)
    text = decisions.moved(me.seen, me.text, by, area, rules.keeps(broken.ADVANCE))
    if not text:
        yield failed(world, me, "refused: the batch does not begin at the position")
        return
    yield checked(rules, world, me, me._replace(at="set", text=text))


def _set(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    changed = world._replace(moves=(*world.moves, me.key))
    yield from writing.put(changed, me, "read back")


def _read_back(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if world.read(me.me) != me.text:
        yield failed(world, me, "reads back another position")
    else:
        yield "reads the position back", world.worker(me._replace(at="sweep", text="", seen=""))


def _sweep(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    living = frozenset(one.me for one in world.workers if one.at != "done")
    area = decisions.swept(world.areas[me.area], rules.keep_batches, rules.one_host, living)
    label, after = ended(world.area(me.area, area), me, "committed")
    yield "sweeps and " + label, after


_STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    **leasing.STEPS,
    **opening.STEPS,
    **writing.STEPS,
    **fetching.STEPS,
    **managed.STEPS,
    "look": _look,
    "check launch": _check_launch,
    "check position": _check_position,
    "launch": _launch,
    "wait": _wait,
    "commit": _commit,
    "check commit": _check_commit,
    "set": _set,
    "read back": _read_back,
    "sweep": _sweep,
}
