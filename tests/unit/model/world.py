"""The world of the model: a bus, a position store, staging areas, tables, and those who work on them. Values, nothing else.

What the package keeps as text is text here, and is read and written by the package's own values. An event is known by its place on
the bus (1, 2, ...), which is its replay id too, and by its identity: a publisher that repeats itself makes two places of one identity.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.spark.publish import Landed as Mark
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.opening import Landed
    from airflow_provider_sfevents.staging.marks import Anchor, Origin

Key = tuple[str, int]
"""Epoch and sequence of a batch."""

BEGINNING: Key = ("", 0)
"""In a batch's stead: what a first run claims."""

LATEST = "latest"

UNKNOWN = -1
"""In a place's stead: nobody has noted down where `latest` was."""

_PRESETS = {"earliest": 0, LATEST: UNKNOWN}

remember = lru_cache(maxsize=None)
"""Pure functions of few arguments are asked millions of times."""


class Claim(NamedTuple):
    """One numbered claim.

    :param by: slot and life of the attempt that has it.
    """

    number: int
    by: tuple[str, int]
    released: bool = False


class Batch(NamedTuple):
    """One batch's folder; an empty text is a file that is not there."""

    key: Key
    claims: tuple[Claim, ...] = ()
    parts: tuple[Part, ...] = ()
    manifest: str = ""
    receipt: str = ""


class Area(NamedTuple):
    """One staging area, of one consumer and topic.

    :param beginning: claims of those who would begin the position.
    :param first: the position that the first of them said would be begun.
    :param anchor: a keepalive's replay id, and what it follows.
    """

    origins: tuple[Origin, ...] = ()
    batches: tuple[Batch, ...] = ()
    beginning: tuple[Claim, ...] = ()
    first: str = ""
    anchor: Anchor | None = None

    def claims(self, key: Key) -> tuple[Claim, ...]:
        return self.beginning if key == BEGINNING else self.batch(key).claims

    def put_claims(self, key: Key, claims: tuple[Claim, ...]) -> Area:
        if key == BEGINNING:
            return self._replace(beginning=claims)
        return self.put(self.batch(key)._replace(claims=claims))

    def batch(self, key: Key) -> Batch:
        return next((batch for batch in self.batches if batch.key == key), Batch(key))

    def put(self, batch: Batch) -> Area:
        others = [one for one in self.batches if one.key != batch.key]
        return self._replace(batches=tuple(sorted((*others, batch), key=lambda one: one.key)))

    def without(self, key: Key) -> Area:
        return self._replace(batches=tuple(one for one in self.batches if one.key != key))


class File(NamedTuple):
    """A file of a table: the places of the events it holds, and the batch they came with."""

    name: str
    batch_id: str
    rows: tuple[int, ...]


class Table(NamedTuple):
    """The tables' root.

    :param folders: attempts' own folders, and the files that are still in them.
    :param marks: `_landed/<batch id>.json`, as text by batch id.
    """

    files: tuple[File, ...] = ()
    folders: tuple[tuple[str, str, tuple[File, ...]], ...] = ()
    marks: tuple[tuple[str, str], ...] = ()

    def put(self, file: File) -> Table:
        return self._replace(files=tuple(sorted((*self.drop(file.name).files, file))))

    def drop(self, name: str) -> Table:
        return self._replace(files=tuple(one for one in self.files if one.name != name))

    def attempts(self, batch_id: str) -> tuple[str, ...]:
        return tuple(name for batch, name, _ in self.folders if batch == batch_id)

    def contents(self, attempt: str) -> tuple[File, ...] | None:
        return next((files for _, name, files in self.folders if name == attempt), None)

    def put_folder(self, batch_id: str, attempt: str, files: tuple[File, ...]) -> Table:
        kept = self.without_folder(attempt).folders
        return self._replace(folders=tuple(sorted((*kept, (batch_id, attempt, files)))))

    def without_folder(self, attempt: str) -> Table:
        return self._replace(folders=tuple(one for one in self.folders if one[1] != attempt))

    def mark(self, batch_id: str) -> str:
        return dict(self.marks).get(batch_id, "")

    def put_mark(self, batch_id: str, text: str) -> Table:
        return self._replace(marks=tuple(sorted({**dict(self.marks), batch_id: text}.items())))


class Worker(NamedTuple):
    """One attempt at a time of one task; or a wait: a sensor's poke, a trigger, a watcher.

    :param slot: which task of which run; `life` counts its attempts.
    :param run: its run's number; a retry has the run of the try before.
    :param at: the step it takes next.
    :param tries: how often it may still be tried again.
    :param landed: the newest batch that had landed when it looked.
    :param seen: the position's text as last read.
    :param key: the batch it is after, or `BEGINNING`; `claim` is its number there.
    :param start: what the batch begins after; `since`: the place it has heard of all before, from where it asked.
    :param memory: places of the events received and not yet in a closed file.
    :param kept: the chain so far, of earlier attempts and of this one.
    :param staged: places that lay in closed files when it looked.
    :param text: what it is about to write, or the manifest it works on.
    :param outcome: how its last attempt ended.
    :param enough: it is a wait, and so many events are enough for it; 0: it is none.
    :param then: once a wait has enough, the operator of its run goes on.
    """

    slot: str
    run: int
    at: str = "begin"
    life: int = 1
    tries: int = 0
    area: int = 0
    landed: Landed | None = None
    seen: str = ""
    key: Key = BEGINNING
    claim: int = 0
    start: str = ""
    since: int = UNKNOWN
    memory: tuple[int, ...] = ()
    kept: tuple[Part, ...] = ()
    staged: frozenset[int] = frozenset()
    text: str = ""
    outcome: str = ""
    enough: int = 0
    then: bool = False

    @property
    def me(self) -> tuple[str, int]:
        return self.slot, self.life


class Job(NamedTuple):
    """A Spark job; it lives on when the worker that launched it is killed.

    :param at: the step it takes next; `landed` and `failed` are its ends.
    :param attempt: its folder's name.
    :param before: what `_landed` said when it began.
    :param to_move: targets of the files it has still to move; `to_remove` likewise.
    :param others: attempts whose folders it clears away at the end.
    :param left_overs: the tables may hold files of the batch that this landing will not have.
    :param text: the mark it is about to write, or the one it gives way to.
    """

    by: tuple[str, int]
    area: int
    manifest: str
    at: str = "open"
    attempt: str = ""
    before: str = ""
    to_move: tuple[str, ...] = ()
    to_remove: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    left_overs: bool = False
    text: str = ""


class World(NamedTuple):
    """Everything.

    :param bus: identities of the events published, in order.
    :param delivered: how often each was delivered.
    :param store: the position's text; empty: there is none.
    :param ticks: a clock that only goes on where somebody notes the time.
    :param moves: sequences to which the position was moved, in order.
    :param kills, pauses, resets, keepalives, damages: how many of each may still happen; `later` are events that may still be published.
    :param beginning: the place after which each event has to land; where that is `latest`, it counts from when somebody noted it down.
    """

    bus: tuple[str, ...]
    delivered: tuple[int, ...]
    store: str
    areas: tuple[Area, ...]
    workers: tuple[Worker, ...]
    table: Table = Table()
    jobs: tuple[Job, ...] = ()
    ticks: int = 0
    moves: tuple[Key, ...] = ()
    kills: int = 0
    pauses: int = 0
    resets: int = 0
    keepalives: int = 0
    damages: int = 0
    later: tuple[str, ...] = ()
    beginning: int = 0

    def area(self, index: int, area: Area) -> World:
        """The world with another area in its place."""
        return self._replace(areas=(*self.areas[:index], area, *self.areas[index + 1 :]))

    def worker(self, worker: Worker) -> World:
        """The world with this worker in the place of the one of its slot."""
        return self._replace(
            workers=tuple(worker if one.slot == worker.slot else one for one in self.workers)
        )

    def job(self, index: int, job: Job | None) -> World:
        """The world with another job in its place, or none."""
        between = (job,) if job else ()
        return self._replace(jobs=(*self.jobs[:index], *between, *self.jobs[index + 1 :]))


@remember
def position(text: str) -> Position:
    return Position.from_json(text, "the model's store")


@remember
def manifest(text: str) -> Manifest:
    return Manifest.from_json(text, "the model's area")


@remember
def receipt(text: str) -> Receipt:
    return Receipt.from_json(text, "the model's area")


@remember
def landed(text: str) -> Mark:
    return Mark.from_json(text, "the model's table")


@remember
def place(replay_id: str) -> int:
    """Where a replay id stands on the bus; `earliest` is before the first event, and where `latest` was its position does not know."""
    if replay_id in _PRESETS:
        return _PRESETS[replay_id]
    return int(replay_id.partition("~")[0], 16)


def of_keepalive(place: int, number: int) -> str:
    """A replay id of the same place as that of the event before it, and another one."""
    return f"{place:02x}~{number}"


def places(part: Part) -> range:
    """The events of a staged file."""
    end = place(part.end)
    return range(end - part.events + 1, end + 1)


def at_time(tick: int) -> str:
    """A tick as a time, as the package writes them."""
    return f"2026-01-01T00:{tick // 60:02}:{tick % 60:02}+00:00"
