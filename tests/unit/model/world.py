"""State of the model: bus, position store, staging areas, tables, tasks and waits. Plain values.

The package's files and records are text here, parsed and written by the package's own classes. An
event has a number on the bus (1, 2, ...), which is its replay id as well, and an identity: an event
that is published twice has two numbers and one identity.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.position.open_position import Landed
    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
    from airflow_provider_sfevents.staging.sidecar_files import Origin

Key = tuple[str, int]
"""Epoch and batch number of a batch."""

BEGINNING: Key = ("", 0)
"""Key of the beginning of a position, whose lease a first run takes like a batch's."""

LATEST = "latest"

UNKNOWN = -1
"""Number for a missing one: `latest` is not pinned, or no replay id was committed to Salesforce."""

_PRESETS = {"earliest": 0, LATEST: UNKNOWN}

remember = lru_cache(maxsize=None)
"""Cache of pure functions of few arguments, which are called millions of times."""


class Lease(NamedTuple):
    """One numbered lease.

    :param by: slot and life of the attempt that holds it.
    """

    number: int
    by: tuple[str, int]
    released: bool = False


class Batch(NamedTuple):
    """One batch's folder; an empty text is a file that does not exist.

    :param confirmed: the replay id that Salesforce said it keeps, of a managed subscription.
    """

    key: Key
    leases: tuple[Lease, ...] = ()
    parts: tuple[Part, ...] = ()
    manifest: str = ""
    receipt: str = ""
    confirmed: str = ""


class Area(NamedTuple):
    """One staging area, of one consumer and topic.

    :param beginning: leases on the beginning of the position.
    :param first: the first record, written once, of the epoch that begins here.
    :param keepalive_point: a keepalive's replay id, and the replay point that it follows.
    """

    origins: tuple[Origin, ...] = ()
    batches: tuple[Batch, ...] = ()
    beginning: tuple[Lease, ...] = ()
    first: str = ""
    keepalive_point: KeepalivePoint | None = None

    def leases(self, key: Key) -> tuple[Lease, ...]:
        return self.beginning if key == BEGINNING else self.batch(key).leases

    def put_leases(self, key: Key, leases: tuple[Lease, ...]) -> Area:
        if key == BEGINNING:
            return self._replace(beginning=leases)
        return self.put(self.batch(key)._replace(leases=leases))

    def batch(self, key: Key) -> Batch:
        return next((batch for batch in self.batches if batch.key == key), Batch(key))

    def put(self, batch: Batch) -> Area:
        others = [one for one in self.batches if one.key != batch.key]
        return self._replace(batches=tuple(sorted((*others, batch), key=lambda one: one.key)))

    def without(self, key: Key) -> Area:
        return self._replace(batches=tuple(one for one in self.batches if one.key != key))


class File(NamedTuple):
    """A file of a table: the numbers of its events, and their batch."""

    name: str
    batch_id: str
    rows: tuple[int, ...]


class Table(NamedTuple):
    """The tables' root.

    :param folders: attempts' own folders, and the files that are still in them.
    :param marks: rows of the ledger, as text by batch id.
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
    """One attempt at a time of one task; or a wait: a sensor's poke or a watcher.

    :param slot: names the task; `life` counts its attempts.
    :param run: its run's number; a retry has the run of the try before.
    :param at: the step it takes next.
    :param tries: number of retries left.
    :param landed: the newest batch that had landed when it looked.
    :param seen: the position's text as last read, or as drafted.
    :param drafts: `seen` is in no store yet, because `latest` has no replay id.
    :param key: the batch it works on, or `BEGINNING`; `lease` is the number of its lease there.
    :param start: number after which the batch begins; `since`: it has received all up to there.
    :param memory: numbers of the events in no closed file yet; `beyond`: of those past the batch.
    :param kept: the chain so far, of earlier attempts and of this one.
    :param staged: numbers of the events that were in closed files when it looked.
    :param managed: it reads after the replay id that Salesforce keeps.
    :param known: numbers that a managed subscription may deliver again, and that are then dropped.
    :param goal: the step after the batch's end was committed to Salesforce.
    :param offered: replay id to commit to Salesforce instead of the batch's end.
    :param text: the text it is about to write, or the manifest it works on.
    :param base: the record that the store must still hold before `text` is written.
    :param further: the step after a record is written.
    :param outcome: end of its last attempt, in words.
    :param enough: for a wait: the number of events that end it; 0: it is a task.
    :param then: the operator of its run follows the wait.
    """

    slot: str
    run: int
    at: str = "begin"
    life: int = 1
    tries: int = 0
    area: int = 0
    landed: Landed | None = None
    seen: str = ""
    drafts: bool = False
    key: Key = BEGINNING
    lease: int = 0
    start: str = ""
    since: int = UNKNOWN
    memory: tuple[int, ...] = ()
    beyond: tuple[int, ...] = ()
    kept: tuple[Part, ...] = ()
    staged: frozenset[int] = frozenset()
    managed: bool = False
    known: frozenset[int] = frozenset()
    goal: str = ""
    offered: str = ""
    text: str = ""
    base: str = ""
    further: str = ""
    outcome: str = ""
    enough: int = 0
    then: bool = False

    @property
    def me(self) -> tuple[str, int]:
        return self.slot, self.life

    @property
    def optional(self) -> bool:
        """Return whether the worker continues if the record cannot be written."""
        return self.further in ("kept", "noted")


class Job(NamedTuple):
    """A Spark job; it continues when the worker that launched it is killed.

    :param at: the step it takes next; `landed` and `failed` are its ends.
    :param attempt: its folder's name.
    :param before: content of `_landed` when it began.
    :param to_move: targets of the files it has still to move; `to_remove` likewise.
    :param others: attempts whose folders it clears away at the end.
    :param left_overs: the tables may hold files of the batch that this landing will not have.
    :param text: the mark that it is about to write, or that makes it give way.
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
    """State of everything in the model.

    :param bus: identities of the events published, in order; `later`: of those that may still be.
    :param delivered: number of deliveries of each event.
    :param store: the position's text, as most readers see it; empty: there is none.
    :param late: writes that only their writer can read back so far, with the writer.
    :param ticks: a clock that moves only where a time is recorded.
    :param moves: batches over which the position was moved, in order.
    :param kept_place: the replay id that Salesforce keeps for a managed subscription.
    :param gone: events up to this number have left the bus.
    :param kills: and the fields until `refusals`: number of each fault that may still happen.
    :param beginning: each event after this number has to land; `latest` counts from the pin.
    """

    bus: tuple[str, ...]
    delivered: tuple[int, ...]
    store: str
    areas: tuple[Area, ...]
    workers: tuple[Worker, ...]
    late: tuple[tuple[tuple[str, int], str], ...] = ()
    table: Table = Table()
    jobs: tuple[Job, ...] = ()
    ticks: int = 0
    moves: tuple[Key, ...] = ()
    kills: int = 0
    pauses: int = 0
    resets: int = 0
    keepalives: int = 0
    damages: int = 0
    delays: int = 0
    expiries: int = 0
    refusals: int = 0
    later: tuple[str, ...] = ()
    kept_place: int = UNKNOWN
    gone: int = 0
    beginning: int = 0

    def read(self, reader: tuple[str, int]) -> str:
        """The position's text as this reader sees it: its own last write, if that is late."""
        return next((text for writer, text in self.late if writer == reader), self.store)

    def area(self, index: int, area: Area) -> World:
        """The world with another area instead of this one."""
        return self._replace(areas=(*self.areas[:index], area, *self.areas[index + 1 :]))

    def worker(self, worker: Worker) -> World:
        """The world with this worker instead of the one of its slot."""
        return self._replace(
            workers=tuple(worker if one.slot == worker.slot else one for one in self.workers)
        )

    def job(self, index: int, job: Job | None) -> World:
        """The world with another job instead of this one, or without it."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The ledger's row of a batch, as far as the model needs it."""

    batch_id: str
    attempt: str
    events: int
    rows: dict[str, int]
    duplicates: int
    files: tuple[str, ...]
    staged_at: str
    start: str
    end: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@remember
def landed(text: str) -> Mark:
    value = json.loads(text)
    return Mark(**{**value, "files": tuple(value["files"])})


@remember
def place(replay_id: str) -> int:
    """Number of a replay id on the bus; `earliest` is before the first event, `latest` has none."""
    if replay_id in _PRESETS:
        return _PRESETS[replay_id]
    return int(replay_id[:2], 16)


def of_keepalive(place: int, number: int) -> str:
    """A keepalive's replay id: different from that of the event before it, with its number."""
    return f"{place:02x}{number:02x}"


def places(part: Part) -> range:
    """The numbers of a staged file's events."""
    end = place(part.end)
    return range(end - part.events + 1, end + 1)


def staging_id(area: int) -> str:
    """Id of a staging area."""
    return f"area-{area}"


def at_time(tick: int) -> str:
    """A tick as a time, as the package writes them."""
    return f"2026-01-01T00:{tick // 60:02}:{tick % 60:02}+00:00"
