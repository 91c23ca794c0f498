"""What a task's attempt does, step by step, in the order of `batches.stage`, `batches.fetch`, `operators.sfevents` and `batches.commit`.

How it comes by a position is `opening`'s.

Between two steps anything may happen: a kill, another's step. So a step has at most one effect that others can see, and what it
goes by was read in the steps before it, unless one look at one file is all there is to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.staging.holders import Verdict
from tests.unit.model import decisions, filing, opening, rules as broken, waits
from tests.unit.model.attempts import checked, ended, failed, stands
from tests.unit.model.world import (
    BEGINNING,
    LATEST,
    UNKNOWN,
    Batch,
    Claim,
    Job,
    Worker,
    World,
    manifest,
    place,
    places,
    position,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.attempts import Step
    from tests.unit.model.rules import Rules


def steps(rules: Rules, world: World, worker: Worker) -> Iterator[Step]:
    """What this worker may do next, each with the world after it."""
    if worker.at == "done":
        return
    doing = waits.STEPS.get(worker.at) if worker.enough else None
    yield from (doing or _STEPS[worker.at])(rules, world, worker)


def _claim(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    claims = world.areas[me.area].claims(me.key)
    if not claims:
        yield "finds no claim", world.worker(me._replace(at="create", claim=1))
        return
    last = claims[-1]
    after = world.worker(me._replace(at="create", claim=last.number + 1))
    found = decisions.verdict(world, rules, last, stopped=False)
    if found is not Verdict.ALIVE:
        yield f"finds claim {last.number}: {found.value}", after
        return
    yield failed(world, me, f"gives way to claim {last.number}")
    if world.pauses and decisions.verdict(world, rules, last, stopped=True) is Verdict.DEAD:
        label = f"takes the holder of claim {last.number}, who is only stopped, for dead"
        yield label, after._replace(pauses=world.pauses - 1)


def _create(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    claims = area.claims(me.key)
    if rules.exclusive_create and any(one.number >= me.claim for one in claims):
        yield "is not the first to create the claim", world.worker(me._replace(at="claim"))
        return
    others = tuple(one for one in claims if one.number != me.claim)
    claimed = area.put_claims(me.key, (*others, Claim(me.claim, me.me)))
    at = "ask again" if me.key == BEGINNING else _once_claimed(me)
    label = f"creates claim {me.claim} on {_id(me)}"
    yield label, world.area(me.area, claimed).worker(me._replace(at=at))


def _once_claimed(me: Worker) -> str:
    if me.enough:
        return "look again"
    return "reread" if me.seen else "look"


def _look(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    batch = world.areas[me.area].batch(me.key)
    if not me.seen:
        yield _look_at_own(world, me, batch)
        return
    parts = batch.parts if rules.keeps(broken.KEEP_PARTS) else ()
    plan = decisions.plan(me.seen, batch, parts, world.areas[me.area].anchor)
    if plan is None:
        yield failed(world, me, "refused: the position was changed by hand")
    elif isinstance(plan, restart.Fetch):
        after = me._replace(
            at="fetch",
            start=plan.start,
            kept=plan.kept,
            since=place(plan.ask),
            staged=filing.lying(batch),
        )
        yield f"keeps {plan.events} events and fetches after {plan.ask}", world.worker(after)
    else:
        landed = isinstance(plan, restart.Commit)
        after = me._replace(at="commit" if landed else "check launch", text=batch.manifest)
        yield f"finds the batch {'landed' if landed else 'staged'}", world.worker(after)


def _look_at_own(world: World, me: Worker, batch: Batch) -> Step:
    if not batch.manifest:
        return failed(world, me, "finds its own batch gone")
    landed = decisions.has_landed(batch.manifest, batch.receipt)
    after = me._replace(at="commit" if landed else "check launch", text=batch.manifest)
    return f"finds its own batch {'landed' if landed else 'staged'}", world.worker(after)


def _fetch(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if me.since == UNKNOWN:
        yield filing.subscribed(world, me)
        return
    may_go_on = filing.heard(me) < rules.max_events and me.since < len(world.bus)
    if may_go_on:
        yield filing.delivered(world, me)
    if me.memory:
        # It may be closed at any time, as it is closed by age.
        if me.start == LATEST and not me.kept:
            yield filing.asked_in_time(rules, world, me, me._replace(at="close"))
        else:
            yield from _close(rules, world, me)
    elif may_go_on and not (rules.ends_early and me.kept):
        return
    elif me.kept:
        first = position(me.seen).sequence == 0
        yield (
            "ends the fetch",
            world.worker(me._replace(at="write origin" if first else "check manifest")),
        )
    else:
        yield from _nothing_came(world, me)


def _close(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    label, changed, after = filing.closed(world, me)
    yield label, changed.worker(after._replace(at="fetch"))


def _nothing_came(world: World, me: Worker) -> Iterator[Step]:
    if world.keepalives:
        yield filing.kept_alive(world, me)
    if me.start == LATEST:
        yield failed(world, me, "has heard nothing that would tell where latest is")
    else:
        yield ended(world, me, "nothing came")


def _check_anchor(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    yield checked(rules, world, me, me._replace(at="anchor"))


def _anchor(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    label, changed = filing.anchored(world, me, "")
    further, after = ended(changed, me, "nothing came")
    yield f"{label} and {further}", after


def _write_origin(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    """A run that was killed may have left a position whose epoch the staging area does not know."""
    after = me._replace(at="check manifest")
    yield "makes sure of the origin", opening.with_origin(world, me.area, me.seen).worker(after)


def _check_manifest(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    text = decisions.staged(me.seen, me.start, me.kept, world.ticks, me.run, me.life)
    changed = world._replace(ticks=world.ticks + 1)
    yield checked(
        rules, changed, me, me._replace(at="manifest", text=text, kept=(), staged=frozenset())
    )


def _write_manifest(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    batch = area.batch(me.key)
    after = me._replace(at="check launch")
    if batch.manifest:
        yield "finds a manifest there", world.worker(after._replace(text=batch.manifest))
    elif rules.exclusive_create:
        changed = world.area(me.area, area.put(batch._replace(manifest=me.text)))
        yield f"creates the manifest ({_events(me.text)})", changed.worker(after)
    else:
        yield "finds no manifest there", world.worker(me._replace(at="overwrite"))


def _overwrite(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    changed = world.area(me.area, area.put(area.batch(me.key)._replace(manifest=me.text)))
    yield (
        f"writes the manifest ({_events(me.text)})",
        changed.worker(me._replace(at="check launch")),
    )


def _check_launch(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    yield checked(rules, world, me, me._replace(at="check position"))


def _check_position(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if decisions.next_key(world.store) == me.key:
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
    if decisions.is_done(world.store, text):
        yield "finds the batch committed", world.worker(me._replace(at="sweep", text=""))
    else:
        after = me._replace(at="check commit", seen=world.store, text=text)
        yield f"finds the receipt, and the position ({stands(world.store)})", world.worker(after)


def _check_commit(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    text = decisions.moved(me.seen, me.text, me.run, me.life, rules.keeps(broken.ADVANCE))
    if not text:
        yield failed(world, me, "refused: the batch does not begin where the position stands")
        return
    yield checked(rules, world, me, me._replace(at="set", text=text))


def _set(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    changed = world._replace(store=me.text, moves=(*world.moves, me.key))
    yield f"writes the position ({stands(me.text)})", changed.worker(me._replace(at="read back"))


def _read_back(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    if world.store != me.text:
        yield failed(world, me, "reads back another position")
    else:
        yield "reads the position back", world.worker(me._replace(at="sweep", text="", seen=""))


def _sweep(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    living = frozenset(one.me for one in world.workers if one.at != "done")
    area = decisions.swept(world.areas[me.area], rules.keep_batches, rules.one_host, living)
    label, after = ended(world.area(me.area, area), me, "committed")
    yield "sweeps and " + label, after


_STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    **opening.STEPS,
    "claim": _claim,
    "create": _create,
    "look": _look,
    "fetch": _fetch,
    "close": _close,
    "note": _check_anchor,
    "anchor": _anchor,
    "write origin": _write_origin,
    "check manifest": _check_manifest,
    "manifest": _write_manifest,
    "overwrite": _overwrite,
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


def _id(me: Worker) -> str:
    return "the beginning" if me.key == BEGINNING else f"batch {me.key[0]}-{me.key[1]}"


def _events(text: str) -> str:
    return ", ".join(str(list(places(part))) for part in manifest(text).parts)
