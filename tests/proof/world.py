"""One consumer of one topic: its database, staging area, tables and position.

The properties read from outside what the tasks did.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.tables import ledger
from airflow_provider_sfevents.spark.tables.file_moves import LANDING
from airflow_provider_sfevents.staging import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.harness.emulated_salesforce import EmulatedSalesforce
    from tests.harness.supervised import Attempt, WarmAirflow

HERE = Path(__file__).parent
DAG, TASK, WAIT = "proof", "land", "wait"
OWN = "own"
STORES = {
    "variable": "variable",
    "asset": "asset",
    "xcom": "xcom",
    OWN: "tests.proof.own_positions.Files",
}
MANAGED = "managed"
"""A managed subscription: Salesforce stores the position, and the Variable the rest of it."""
PUBSUB, STREAMING = "pubsub", "streaming"
TWO_DAYS = 2 * 24 * 3600.0
STAND_IN, SPARK = "stand-in", "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Shared by worlds: a warm Airflow, an emulator, a database to copy.

    :param environment: environment of `spark-submit`.
    """

    airflow: WarmAirflow
    bus: EmulatedSalesforce
    database: Path
    environment: Mapping[str, str]
    folder: Path

    def world(
        self,
        name: str,
        store: str = "variable",
        job: str = STAND_IN,
        transport: str = PUBSUB,
        **options: str,
    ) -> World:
        """Create a world in which nothing has happened.

        :param transport: API of Salesforce by which the events come.
        :param options: options of the task; see `definitions/proof.py`.
        """
        folder = self.folder / name
        folder.mkdir(parents=True)
        shutil.copy(self.database, folder / "airflow.db")
        unique = f"P{uuid.uuid4().hex[:12]}__e"
        topic = self.bus.define_event(unique, Number__c="Text")
        if store == MANAGED:
            self.bus.define_managed(unique.removesuffix("__e"), topic)
        return World(
            name=name,
            folder=folder,
            store=store,
            job=job,
            transport=transport,
            stage=self,
            topic=topic,
            options=options,
        )


@dataclass(slots=True, kw_only=True)
class World:
    """A world, made by `Stage.world`.

    :ivar published: event ids, oldest first; an id that was published twice is there once.
    :ivar replay_ids: replay ids of all published events, in hex as the position has them.
    :ivar runs: number of runs so far.
    :ivar extra_deliveries: extra deliveries that the soak has counted so far.
    :ivar attempts_per_area: 0: all attempts share one staging area; 1: each has its own; 2: every
        other attempt gets a new one.
    :ivar may_come_again: events that a managed subscription may have delivered again although they
        were in a closed file.
    """

    name: str
    folder: Path
    store: str
    job: str
    stage: Stage
    topic: str
    transport: str = PUBSUB
    options: dict[str, str] = field(default_factory=dict)
    published: list[str] = field(default_factory=list)
    undecodable: set[str] = field(default_factory=set)
    replay_ids: list[str] = field(default_factory=list)
    runs: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    extra_deliveries: int = 0
    may_come_again: int = 0
    attempts_per_area: int = 0
    _connection: str = ""
    _kept: set[str] = field(default_factory=set)
    _deliveries: int = 0

    @property
    def bus(self) -> EmulatedSalesforce:
        return self.stage.bus

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def staging(self) -> Path:
        """Staging area of the next attempt."""
        number = len(self.attempts)
        match self.attempts_per_area:
            case 0:
                return self.folder / "staging"
            case 1:
                return self.folder / f"staging-{number}"
        return self.folder / f"staging-{number % 2}"

    @property
    def has_one_area(self) -> bool:
        return not self.attempts_per_area

    @property
    def areas(self) -> list[Path]:
        """Staging areas of all attempts."""
        return sorted(self.folder.glob("staging*"))

    @property
    def _managed(self) -> str:
        """Developer name of the managed subscription; empty if there is none."""
        return self.topic.rpartition("/")[2].removesuffix("__e")

    @property
    def batches(self) -> list[Path]:
        """Folders of the batches that have not been swept, oldest first."""
        found = (path for area in self.areas for path in area.glob("*/*/*/*/*"))
        return sorted((path for path in found if path.name.isdigit()), key=lambda path: path.name)

    def publish(self, count: int, *, size: int = 8) -> None:
        """Publish events, each with a new id."""
        first = len(self.published)
        ids = [self._identity(number) for number in range(first, first + count)]
        self.published += ids
        self.repeat(ids, size=size)

    def repeat(self, ids: list[str], *, size: int = 8) -> None:
        """Publish events under given ids, as a publisher does after a lost answer."""
        for one in ids:
            if one in self.undecodable:
                self._note_published(self.bus.publish_raw(self.topic, b"\x02", one))
        readable = [one for one in ids if one not in self.undecodable]
        if readable:
            events = [{"Number__c": one[:8].ljust(size, ".")} for one in readable]
            self._note_published(self.bus.publish(self.topic, events, readable))

    def _note_published(self, replay_ids: list[str]) -> None:
        """Note replay ids; the Streaming API has the first 8 bytes of them as a number."""
        length = 16 if self.transport == STREAMING else None
        self.replay_ids += [one[:length] for one in replay_ids]

    @property
    def unknown_replay_id(self) -> str:
        """Replay id that the bus refuses."""
        return "7f" + "ff" * (7 if self.transport == STREAMING else 9)

    def publish_undecodable(self) -> None:
        """Publish an event whose payload does not match its schema."""
        identity = self._identity(len(self.published))
        self.undecodable.add(identity)
        self.published.append(identity)
        self.repeat([identity])

    def _identity(self, number: int) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.topic}/{number}"))

    def start(
        self,
        *,
        task: str = TASK,
        again: bool = False,
        stop_at: str = "",
        options: Mapping[str, str] | None = None,
    ) -> Attempt:
        """Start a task in a new run of the DAG, or in its newest one.

        In its newest run it is the first try, another try, or the continuation of a deferred task.

        :param options: options in addition to the world's.
        """
        if not again or not self.runs:
            self.runs += 1
        return self._attempt(stop_at, options or {}, dag=DAG, task=task, run=self.runs)

    def start_triggers(
        self, *, stop_at: str = "", options: Mapping[str, str] | None = None
    ) -> Attempt:
        """Start the triggerer for the task that was deferred last, or for a watcher.

        See `triggerer`.
        """
        return self._attempt(stop_at, options or {}, program="tests.proof.triggerer")

    def _attempt(self, stop_at: str, options: Mapping[str, str], **order: Any) -> Attempt:
        if self.store == MANAGED:
            committed = self.bus.committed(self._managed)
            self.may_come_again += sum(one > committed for one in self.note_kept())
        attempt = self.stage.airflow.attempt(
            self.folder / "attempts" / f"{len(self.attempts) + 1:03}",
            stop_at=stop_at,
            environment=self._environment(stop_at, {**self.options, **options}),
            **order,
        )
        self.attempts.append(attempt)
        return attempt

    def _environment(self, stop_at: str, options: Mapping[str, str]) -> dict[str, str]:
        number = len(self.attempts) + 1
        report = self.folder / "attempts" / f"{number:03}" / "steps.jsonl"
        self._connection = self._connection or json.dumps(self.bus.connection())
        path = self.stage.environment["PATH"]
        stand_in = f"{HERE / 'stand_in'}{os.pathsep}{path}"
        return {
            **self.stage.environment,
            "PATH": stand_in if self.job == STAND_IN else path,
            "PYTHONPATH": f"{HERE.parents[1]}{os.pathsep}{HERE / 'driver_site'}",
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.folder}/airflow.db",
            "AIRFLOW__CORE__DAGS_FOLDER": str(HERE / "definitions"),
            "AIRFLOW_CONN_SFEVENTS_DEFAULT": self._connection,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "SFEVENTS_PROOF_REPORT": str(report),
            "SFEVENTS_PROOF_STOP_AT": stop_at,
            "PROOF_STORE": STORES.get(self.store, self.store),
            "PROOF_MANAGED": self._managed,
            "PROOF_TOPIC": self.topic,
            "PROOF_TRANSPORT": self.transport,
            "PROOF_ORG": self.bus.org_id,
            "PROOF_STAGING": self.staging.as_uri(),
            "PROOF_LAKE": str(self.lake),
            "PROOF_OWN_STORE": str(self.folder / "own"),
            **options,
        }

    def landed(self) -> list[str]:
        """Ids of the events in the tables; an event that is there twice is listed twice."""
        return [one for path in self._landed_files() for one in _column(path, layout.EVENT_ID)]

    def compact(self) -> None:
        """Compact each date's files into one, as an external compaction job does."""
        for folder in sorted({path.parent for path in self._landed_files()}):
            files = sorted(path for path in folder.glob("*.parquet") if path.name[0] not in "._")
            if len(files) < 2:
                continue
            whole = pa.concat_tables(
                [pq.ParquetFile(path).read() for path in files], promote_options="default"
            )
            pq.write_table(whole, folder / f"compacted-{uuid.uuid4().hex}.parquet")
            for path in files:
                path.unlink()

    def note_kept(self) -> set[str]:
        """Replay ids of all events that this or an earlier call found in a closed file.

        None of these needs to be delivered again.
        """
        for path in (one for area in self.areas for one in area.rglob("part-*.parquet")):
            if not path.name.startswith("."):
                self._kept.update(one.hex() for one in _column(path, layout.REPLAY_ID))
        return self._kept

    def age_leftovers(self) -> bool:
        """Make unfinished files of killed processes two days old, so that a sweep deletes them.

        Return False if there are none.
        """
        left = [path for area in self.areas for path in area.rglob(".*.tmp")]
        for path in left:
            os.utime(path, (time.time() - TWO_DAYS,) * 2)
        return bool(left)

    def deliveries_since(self) -> int:
        """Count deliveries since the last call."""
        before, self._deliveries = self._deliveries, self.bus.deliveries(self.topic)
        return self._deliveries - before

    def commits(self) -> list[float]:
        """Times at which a position was committed."""
        return [
            step.at for one in self.attempts for step in one.steps() if step.step == steps.COMMITTED
        ]

    def is_quiet(self) -> bool:
        """True if nothing is left to fetch, land or commit."""
        position = self.position()
        return position is not None and position["replay_id"] == self.replay_ids[-1]

    def position(self) -> dict[str, Any] | None:
        """Read the position's record from its store."""
        records = [json.loads(text) for text in self._records()]
        return max(records, key=lambda record: int(record["batch_number"]), default=None)

    def _records(self) -> list[str]:
        own = self.folder / "own"
        if self.store == OWN:
            return [path.read_text() for path in own.glob("sfevents*")]
        statement = {
            "variable": "SELECT val FROM variable WHERE key LIKE 'sfevents.%'",
            MANAGED: "SELECT val FROM variable WHERE key LIKE 'sfevents.%'",
            "asset": "SELECT value FROM asset_state_store WHERE key LIKE 'sfevents.%' AND key "
            "NOT LIKE '%.probe'",
            "xcom": "SELECT value FROM xcom WHERE key LIKE 'sfevents%' AND key NOT LIKE '%.rows'",
        }[self.store]
        database = sqlite3.connect(self.folder / "airflow.db")
        try:
            return [_text(value) for (value,) in database.execute(statement)]
        finally:
            database.close()

    def _landed_files(self) -> Iterator[Path]:
        for path in sorted(self.lake.rglob("*.parquet")):
            if not {LANDING, ledger.TABLE}.intersection(path.relative_to(self.lake).parts):
                yield path


def _column(path: Path, name: str) -> list[Any]:
    found: list[Any] = pq.ParquetFile(path).read(columns=[name])[name].to_pylist()
    return found


def _text(value: Any) -> str:
    """Unwrap a stored value: Airflow encodes JSON as JSON, once or twice."""
    while True:
        parsed = json.loads(value)
        if not isinstance(parsed, str):
            return str(value)
        value = parsed
