"""Tasks of two staging areas that begin one position at once, with a store whose writes take time.

The store has no compare-and-swap: a write takes effect at a random moment of its call, and the
answer comes later still. The one assumption is that landing takes longer than a write: a task lands
after every task that was staging at that moment has ended its staging.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter, UserDict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from typing_extensions import override

from airflow_provider_sfevents.batches.commit import check_before_landing, commit_batch
from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Receipt, Run
from airflow_provider_sfevents.staging.storage import durable_files
from tests.integration.batches.conftest import Consumer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator

FALLBACK = "fallback"
"""A first run whose replay id the bus refuses, with `replay_fallback="latest"`."""

LONGEST_WRITE_SECONDS = 0.08
ROUNDS = 2
FRUITLESS_TASKS = 6
"""Number of consecutive tasks without a new landing after which the race ends."""
SHORT = Bounds(idle_seconds=0.05, max_events=5)


class SlowPositions(UserDict[str, str]):
    """Positions whose writes take effect late.

    :param reads_back: the store answers a read that follows a thread's own write; otherwise that
        thread reads what it has written, as if the write were never read back.
    :ivar history: every record, in the order in which they took effect.
    :ivar replaced: records that were replaced before their writer had its answer.
    :ivar read_back: records that their writer has read from the store right after it wrote them.
    """

    def __init__(self, dice: random.Random, *, reads_back: bool = True) -> None:
        self._dice = dice
        self._reads_back = reads_back
        self._lock = threading.Lock()
        self._written = threading.local()
        self.history: list[str] = []
        self.replaced: list[str] = []
        self.read_back: set[str] = set()
        super().__init__()

    @override
    def __setitem__(self, key: str, record: str) -> None:
        self._sleep()
        with self._lock:
            self.history.append(record)
            super().__setitem__(key, record)
            number = len(self.history)
        self._sleep()
        with self._lock:
            if len(self.history) != number:
                self.replaced.append(record)
        self._written.record = record

    @override
    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        written, self._written.record = getattr(self._written, "record", None), None
        if written is not None and not self._reads_back:
            return str(written)
        with self._lock:
            found = self.data.get(key, default)
            if written is not None and found == written:
                self.read_back.add(written)
            return found

    def _sleep(self) -> None:
        with self._lock:
            seconds = self._dice.choice((0.0, self._dice.uniform(0, LONGEST_WRITE_SECONDS)))
        time.sleep(seconds)


@dataclass(slots=True)
class Lake:
    """Landed batches; of two forms of one batch the first one counts, as in the Spark job."""

    forms: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def land(self, staged: Staged) -> None:
        manifest, folder = staged.manifest, staged.folder
        tables = [
            pq.read_table(
                durable_files.local_path(folder.folder / part.path), columns=[layout.EVENT_ID]
            )
            for part in manifest.parts
        ]
        ids = [one for table in tables for one in table[layout.EVENT_ID].to_pylist()]
        with self._lock:
            end, landed = self.forms.setdefault(manifest.batch_id, (manifest.end, ids))
        receipt = Receipt(
            batch_id=manifest.batch_id,
            events=len(landed),
            tables={"lake": len(landed)},
            quarantined=0,
            written_at=datetime.now(UTC).isoformat(),
            end=end,
        )
        durable_files.replace(folder.folder / layout.RECEIPT, receipt.to_json().encode())

    @property
    def ids(self) -> Counter[str]:
        return Counter(one for _, ids in self.forms.values() for one in ids)


@dataclass(slots=True)
class Race:
    """One seed's race, on a topic of its own.

    :param looks_again: a task reads the position again before it lands.
    :ivar published: with the number of records that the store had held by then.
    :ivar failures: of tasks that gave way or were refused; for messages.
    """

    bus: Emulator
    folder: Path
    seed: int
    start: str
    reads_back: bool = True
    looks_again: bool = True
    published: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    lake: Lake = field(default_factory=Lake)
    positions: SlowPositions = field(init=False)
    topic: str = field(init=False)
    _dice: random.Random = field(init=False)
    _staging: set[int] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._dice = random.Random(f"{self.start}/{self.seed}")  # noqa: S311 - to be repeatable
        self.positions = SlowPositions(self._dice, reads_back=self.reads_back)
        marks = f"{int(self.reads_back)}{int(self.looks_again)}"
        name = f"Race{self.seed}x{self.start.capitalize()}{marks}__e"
        self.topic = self.bus.define_event(name, {"Number__c": "Text"})

    def run(self) -> list[str]:
        """Race, then let both areas work in turns until all has landed; return the violations."""
        self._publish()
        hosts = [threading.Thread(target=self._host, args=(area,)) for area in range(2)]
        for host in hosts:
            host.start()
        while any(host.is_alive() for host in hosts):
            self._publish()
            hosts[0].join(self._dice.uniform(0, 0.1))
            hosts[1].join(self._dice.uniform(0, 0.1))
        self._publish()
        self._land_the_rest()
        return self._wrong()

    def _land_the_rest(self) -> None:
        """Let both areas work in turns as long as batches land; a slow machine has more to land."""
        fruitless = 0
        for number in itertools.count(100):
            landed = len(self.lake.ids)
            self._task(number % 2, number)
            if self.positions.history and set(self._promised()) <= set(self.lake.ids):
                return
            fruitless = 0 if len(self.lake.ids) > landed else fruitless + 1
            if fruitless == FRUITLESS_TASKS:
                return

    def _host(self, area: int) -> None:
        for number in range(ROUNDS):
            self._task(area, number)

    def _task(self, area: int, number: int) -> None:
        """Run one task from its first read to its commit; the next run repairs a failure."""
        staged = None
        consumer = self._consumer(area, number)
        try:
            with self._is_staging(area):
                staged = consumer.stage()
            if isinstance(staged, Staged):
                self._wait_for_earlier_stagings()
                self._land(staged, consumer.run)
        except SfEventsError as error:
            self.failures.append(f"area {area}, task {number}: {type(error).__name__}: {error}")
        finally:
            if staged is not None:
                staged.release()

    def _land(self, staged: Staged, run: Run) -> None:
        if not staged.landed:
            if self.looks_again:
                check_before_landing(staged)
            self.lake.land(staged)
        commit_batch(staged, run, keep_batches=10)

    @contextmanager
    def _is_staging(self, area: int) -> Iterator[None]:
        with self._changed:
            self._staging.add(area)
        try:
            yield
        finally:
            with self._changed:
                self._staging.remove(area)
                self._changed.notify_all()

    def _wait_for_earlier_stagings(self) -> None:
        """Wait for the stagings in progress now, because a landing takes longer than a write."""
        with self._changed:
            if self._staging:
                self._changed.wait()

    def _consumer(self, area: int, number: int) -> Consumer:
        consumer = Consumer(
            bus=self.bus,
            root=self.folder / f"{self.topic.rpartition('/')[2]}-{area}",
            positions=self.positions,  # type: ignore[arg-type]
            run=Run(dag="orders", run=f"run-{area}-{number}", task="land"),
            topic=self.topic,
            initial_replay=self.start,
            bounds=SHORT,
        )
        if self.start != FALLBACK:
            return consumer
        return replace(consumer, initial_replay="ff" * 10, replay_fallback="latest")

    def _publish(self) -> None:
        """Publish one to three events."""
        held = len(self.positions.history)
        first = len(self.published)
        ids = [f"event-{number}" for number in range(first, first + self._dice.randint(1, 3))]
        self.bus.publish(self.topic, [{"Number__c": one} for one in ids], ids=ids)
        self.published |= dict.fromkeys(ids, held)

    def _promised(self) -> list[str]:
        """Events that must land: at `earliest` all, otherwise those after the promising record.

        That record is of the epoch that counts in the end, and its writer has read it back. A task
        whose record is replaced before that fails, and has promised no event.
        """
        if self.start == "earliest":
            return list(self.published)
        history, read_back = self.positions.history, self.positions.read_back
        epoch = Position.from_json(self.positions["orders"], "here").epoch
        for number, record in enumerate(history, start=1):
            position = Position.from_json(record, "here")
            # Before a fallback the refused replay id is not one that Salesforce knows.
            if record in read_back and position.epoch == epoch and position.pinned_by:
                return [one for one, held in self.published.items() if held >= number]
        return []

    def _wrong(self) -> list[str]:
        landed = self.lake.ids
        wanted = self._promised()
        lost = [one for one in wanted if one not in landed]
        twice = [one for one, times in landed.items() if times > 1]
        found = [f"{len(lost)} of {len(wanted)} events lost: {lost[:3]}"] * bool(lost)
        found += [f"{len(twice)} events landed twice: {twice[:3]}"] * bool(twice)
        found += self._staged_without_use()
        return [f"seed {self.seed}: {one}; {self.failures}" for one in found]

    def _staged_without_use(self) -> list[str]:
        """Epochs with staged files, whose first record was replaced before it was read back."""
        firsts = [Position.from_json(one, "here") for one in self.positions.replaced]
        final = Position.from_json(self.positions["orders"], "here")
        epochs = {one.epoch for one in firsts if not one.batch_number} - {final.epoch}
        return [
            f"{path.name} is staged for epoch {epoch}, which another task's record had replaced"
            for epoch in sorted(epochs)
            for path in self.folder.rglob(f"*/{epoch}/*/**/part-*.parquet")
        ]
