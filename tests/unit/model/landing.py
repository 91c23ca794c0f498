"""A Spark job, effect by effect, in the order of `spark.landing` and `spark.tables.file_moves`.

Renames are atomic, as on disks and HDFS. With one staging area a batch has one permanent manifest.
Then the fence finds nothing and is not asked, and an effect in the attempt's own folder is one step
with the one before it; that spares three quarters of the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.landing import fence
from tests.unit.model import rules as broken, written
from tests.unit.model.world import File, Job, World, landed, manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.rules import Rules
    from tests.unit.model.world import Batch

Step = tuple[str, World]
ENDS = ("landed", "failed")
_MARK = File("receipt.json", "", ())
"""The mark in an attempt's folder."""


def steps(rules: Rules, world: World, index: int) -> Iterator[Step]:
    """Possible next steps of this job, each with the world after it."""
    job = world.jobs[index]
    if job.at not in ENDS:
        label, after = _STEPS[job.at](rules, world, index, job)
        yield label, after


def killed(world: World, index: int) -> World:
    """The world after a SIGKILL: its folder stays."""
    return _ended(world._replace(kills=world.kills - 1), index, "failed")


def _open(rules: Rules, world: World, index: int, job: Job) -> Step:
    text = _batch(world, job).manifest
    if not text:
        return "finds no manifest", _ended(world, index, "failed")
    batch = manifest(text)
    attempt = f"{fence.stamp(batch.created_at)}-{ord(job.by[0]):030x}{job.by[1]:02x}"
    before = world.table.mark(batch.batch_id)
    after = job._replace(at="folder", manifest=text, attempt=attempt, before=before)
    if _outdated(rules, world, after):
        return "finds a newer form", world.job(index, _outdone(rules, world, after))
    if _has_forms(world) and rules.keeps(broken.LIST_FIRST):
        after = after._replace(at="look ahead")
    return f"begins with {_forms(text)}", world.job(index, after)


def _look_ahead(rules: Rules, world: World, index: int, job: Job) -> Step:
    """Look for other attempts: they may be gone when this attempt's folder exists."""
    others = _others(world, job)
    after = job._replace(at="folder", left_overs=bool(others))
    return f"finds {len(others)} others at it", world.job(index, after)


def _make_folder(rules: Rules, world: World, index: int, job: Job) -> Step:
    table = world.table.put_folder(_batch_id(job), job.attempt, ())
    changed = world._replace(table=table)
    after = job._replace(at="look" if rules.keeps(broken.LIST_FIRST) else "write")
    if after.at == "look" and not _has_forms(world):
        return _look(rules, changed, index, after)
    return "makes its folder", changed.job(index, after)


def _look(rules: Rules, world: World, index: int, job: Job) -> Step:
    """Look again: an attempt that begins later finds this one's folder."""
    others = _others(world, job)
    after = job._replace(at="write", left_overs=job.left_overs or bool(others))
    return f"now finds {len(others)} others at it", world.job(index, after)


def _write(rules: Rules, world: World, index: int, job: Job) -> Step:
    """Write, and leave out what has landed in another batch by the last look at the tables."""
    batch_id = _batch_id(job)
    files = _to_write(rules, world, job)
    text = written.mark_of(job.manifest, job.attempt, files)
    at = "stop others" if rules.keeps(broken.EPOCHS) and _has_epochs(world) else "ready"
    after = job._replace(at=at, to_move=tuple(file.name for file in files), text=text)
    table = world.table.put_folder(batch_id, job.attempt, files)
    rows = [list(file.rows) for file in files]
    return f"writes {rows} beside the tables", world._replace(table=table).job(index, after)


def _stop_others(rules: Rules, world: World, index: int, job: Job) -> Step:
    """Stop landings of other epochs, which have not been compared with this one."""
    epoch = manifest(job.manifest).epoch
    table = world.table
    for batch_id, name, _ in world.table.folders:
        if batch_id.rpartition("-")[0] != epoch:
            table = table.without_folder(name)
    after = world._replace(table=table).job(index, job._replace(at="compare again"))
    return "removes the folders of landings of other epochs", after


def _compare_again(rules: Rules, world: World, index: int, job: Job) -> Step:
    there = world.table.contents(job.attempt)
    if there is None:
        return "finds its folder gone", world.job(index, job._replace(at="give way"))
    same = there == _to_write(rules, world, job)
    after = job._replace(at="ready" if same else "write")
    return f"compares again: {'the same' if same else 'others have landed'}", world.job(
        index, after
    )


def _ready(rules: Rules, world: World, index: int, job: Job) -> Step:
    if _batch(world, job).manifest != job.manifest:
        return "finds the manifest gone or changed", world.job(index, job._replace(at="give way"))
    if _outdated(rules, world, job):
        return "finds a newer form", world.job(index, _outdone(rules, world, job))
    others = _others(world, job)
    again = bool(others or job.left_overs or world.table.mark(_batch_id(job)))
    after = job._replace(others=others, left_overs=again, to_remove=("?",) if again else ())
    after = after._replace(at="clear" if _older(rules, after) else "prepare")
    if not _has_forms(world):
        return _prepare(rules, world, index, after)
    return f"sees {len(others)} others at it", world.job(index, after)


def _clear(rules: Rules, world: World, index: int, job: Job) -> Step:
    table = world.table
    for name in _older(rules, job):
        table = table.without_folder(name)
    after = job._replace(at="prepare")
    return "clears away older forms' folders", world._replace(table=table).job(index, after)


def _prepare(rules: Rules, world: World, index: int, job: Job) -> Step:
    """Write the mark to be renamed; a removed folder is created again, and is otherwise empty."""
    contents = world.table.contents(job.attempt) or ()
    table = world.table.put_folder(_batch_id(job), job.attempt, (*contents, _MARK))
    after = job._replace(at=_next(world, job))
    return "writes the mark beside the tables", world._replace(table=table).job(index, after)


def _check(rules: Rules, world: World, index: int, job: Job) -> Step:
    """Check the fence right before an effect."""
    if _outdated(rules, world, job):
        return "finds a newer form", world.job(index, _outdone(rules, world, job))
    after = job._replace(at=_effect(job), left_overs=True)
    return "finds no newer form", world.job(index, after)


def _move(rules: Rules, world: World, index: int, job: Job) -> Step:
    target, *further = job.to_move
    contents = world.table.contents(job.attempt)
    file = next((one for one in contents or () if one.name == target), None)
    if contents is None or file is None:
        return "finds its folder gone", world.job(index, job._replace(at="give way"))
    left = tuple(one for one in contents if one is not file)
    table = world.table.put(file).put_folder(_batch_id(job), job.attempt, left)
    after = job._replace(to_move=tuple(further), left_overs=True)
    after = after._replace(at=_next(world, after))
    return f"moves {list(file.rows)} to {target}", world._replace(table=table).job(index, after)


def _list(rules: Rules, world: World, index: int, job: Job) -> Step:
    found: tuple[str, ...] = ()
    if rules.keeps(broken.LEFT_OVERS):
        names = tuple(file.name for file in world.table.files)
        found = written.left_overs(names, landed(job.text).files, _batch_id(job))
    after = job._replace(to_remove=found)
    return f"finds left-overs: {list(found)}", world.job(
        index, after._replace(at=_next(world, after))
    )


def _remove(rules: Rules, world: World, index: int, job: Job) -> Step:
    name, *further = job.to_remove
    after = job._replace(to_remove=tuple(further))
    changed = world._replace(table=world.table.drop(name))
    return f"removes {name}", changed.job(index, after._replace(at=_next(world, after)))


def _say(rules: Rules, world: World, index: int, job: Job) -> Step:
    contents = world.table.contents(job.attempt) or ()
    table = world.table.put_mark(_batch_id(job), job.text)
    if rules.keeps(broken.FIRST):
        if _MARK not in contents:
            return "finds its folder gone", world.job(index, job._replace(at="give way"))
        left = tuple(one for one in contents if one != _MARK)
        table = table.put_folder(_batch_id(job), job.attempt, left)
    return "renames the mark into the ledger", world._replace(table=table).job(
        index, job._replace(at="clean")
    )


def _clean(rules: Rules, world: World, index: int, job: Job) -> Step:
    table = world.table
    for name in (*job.others, _word_of(job), job.attempt):
        table = table.without_folder(name)
    after = job._replace(at="receipt", others=())
    return "removes the folders", world._replace(table=table).job(index, after)


def _give_way(rules: Rules, world: World, index: int, job: Job) -> Step:
    """Fail; if that may have left files in the tables, record it first."""
    gone = world.table.contents(job.attempt) is None
    quiet = gone or not job.left_overs or bool(world.table.mark(_batch_id(job)))
    after = world.job(index, job._replace(at="go"))
    if quiet or not rules.keeps(broken.WORD):
        return "has nothing to say of left-overs", after
    table = world.table.put_folder(_batch_id(job), _word_of(job), ())
    return "says that there may be left-overs", after._replace(table=table)


def _go(rules: Rules, world: World, index: int, job: Job) -> Step:
    changed = world._replace(table=world.table.without_folder(job.attempt))
    now = world.table.mark(_batch_id(job))
    other = rules.keeps(broken.FIRST) and _is_other_form(now, job)
    meanwhile = now not in {"", job.before} and not _outdated(rules, world, job)
    if not other and not meanwhile:
        return "gives way, and fails", _ended(changed, index, "failed")
    after = _with_receipt_of(now, job)
    return f"gives way to what has landed ({_said(now)})", changed.job(index, after)


def _other_form(rules: Rules, world: World, index: int, job: Job) -> Step:
    """No attempt lands this form any more, so the folders of all that tried go, too."""
    table = world.table
    for name in fence.twins(table.attempts(_batch_id(job)), job.attempt):
        table = table.without_folder(name)
    after = _with_receipt_of(job.text, job)
    label = f"gives way to the form that has landed ({_said(job.text)})"
    return label, world._replace(table=table).job(index, after)


def _receipt(rules: Rules, world: World, index: int, job: Job) -> Step:
    batch = _batch(world, job)
    if not batch.manifest:
        return "finds the batch swept", _ended(world, index, "landed")
    if batch.manifest != job.manifest:
        return "finds the manifest changed", _ended(world, index, "failed")
    text = written.receipt_of(job.text, rules.keeps(broken.FIRST))
    area = world.areas[job.area].put(batch._replace(receipt=text))
    return "writes the receipt", _ended(world.area(job.area, area), index, "landed")


_STEPS: dict[str, Callable[[Rules, World, int, Job], Step]] = {
    "open": _open,
    "look ahead": _look_ahead,
    "folder": _make_folder,
    "look": _look,
    "write": _write,
    "stop others": _stop_others,
    "compare again": _compare_again,
    "ready": _ready,
    "clear": _clear,
    "prepare": _prepare,
    "check": _check,
    "move": _move,
    "list": _list,
    "remove": _remove,
    "say": _say,
    "clean": _clean,
    "give way": _give_way,
    "go": _go,
    "other form": _other_form,
    "receipt": _receipt,
}


def _next(world: World, job: Job) -> str:
    """The step before the next effect."""
    return "check" if _has_forms(world) and _effect(job) != "list" else _effect(job)


def _effect(job: Job) -> str:
    if job.to_move:
        return "move"
    if job.to_remove == ("?",):
        return "list"
    return "remove" if job.to_remove else "say"


def _ended(world: World, index: int, end: str) -> World:
    """The job has ended; a worker that waits for it finds its end."""
    job = world.jobs[index]
    waits = any(one.me == job.by and one.at == "wait" for one in world.workers)
    told = Job(by=job.by, area=job.area, manifest="", at=end)
    return world.job(index, told if waits else None)


def forgotten(world: World) -> World:
    """The world without ended jobs for which no worker waits."""
    waiting = {one.me for one in world.workers if one.at == "wait"}
    jobs = tuple(job for job in world.jobs if job.at not in ENDS or job.by in waiting)
    return world._replace(jobs=jobs)


def _batch(world: World, job: Job) -> Batch:
    batch = manifest(job.manifest)
    return world.areas[job.area].batch((batch.epoch, batch.batch_number))


def _batch_id(job: Job) -> str:
    return manifest(job.manifest).batch_id


def _outdated(rules: Rules, world: World, job: Job) -> bool:
    """As `Fence.check`: another form that counts for more has landed, or is being landed."""
    if not _has_forms(world) or not rules.keeps(broken.FENCE):
        return False
    batch = manifest(job.manifest)
    ours = fence.stamp(batch.created_at)
    if mark := world.table.mark(batch.batch_id):
        if rules.keeps(broken.FIRST):
            return _is_other_form(mark, job)
        if fence.stamp(landed(mark).staged_at) > ours:
            return True
    return bool(fence.newer(world.table.attempts(batch.batch_id), job.attempt))


def _outdone(rules: Rules, world: World, job: Job) -> Job:
    """The job after the fence has stopped it, because of another form of the batch."""
    mark = world.table.mark(_batch_id(job))
    if rules.keeps(broken.FIRST) and _is_other_form(mark, job):
        return job._replace(at="other form", text=mark)
    return job._replace(at="give way")


def _with_receipt_of(mark: str, job: Job) -> Job:
    return job._replace(at="receipt", text=mark, to_move=(), to_remove=(), others=())


def _others(world: World, job: Job) -> tuple[str, ...]:
    return tuple(name for name in world.table.attempts(_batch_id(job)) if name != job.attempt)


def _word_of(job: Job) -> str:
    """Folder that records left-overs; older than each attempt, because its name has no time."""
    return f"{fence.LEFT_OVERS} of {_batch_id(job)}"


def _has_forms(world: World) -> bool:
    return len(world.areas) > 1


def _is_other_form(mark: str, job: Job) -> bool:
    return bool(mark) and landed(mark).staged_at != manifest(job.manifest).created_at


def _older(rules: Rules, job: Job) -> list[str]:
    return fence.older(job.others, job.attempt) if rules.keeps(broken.FENCE) else []


def _has_epochs(world: World) -> bool:
    return len({origin.epoch for area in world.areas for origin in area.origins}) > 1


def _said(mark: str) -> str:
    return f"{landed(mark).start} to {landed(mark).end}"


def _forms(text: str) -> str:
    batch = manifest(text)
    return f"batch {batch.batch_id}, {batch.start} to {batch.end}"


def _to_write(rules: Rules, world: World, job: Job) -> tuple[File, ...]:
    """The batch's files without events that are in the tables from other batches."""
    others = (one.rows for one in world.table.files if one.batch_id != _batch_id(job))
    known = frozenset(world.bus[place - 1] for rows in others for place in rows)
    looks, replaces = rules.keeps(broken.IDENTITY), rules.keeps(broken.REPLACE)
    return written.files_of(
        job.manifest, world.bus, known if looks else None, job.attempt, replaces
    )
