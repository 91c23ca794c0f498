"""Ledger of a task's events that the bus has accepted: a retry publishes only the rest.

<staging>/_published/<org>/<dag>.<task>/<topic>/<since>-<run>/<map index>/<try>-<token>-00001.jsonl
    one line for each accepted event: its record's number, its id, its replay id

Every writer has files of its own, each written whole or not at all. An event is accepted if any of
the files lists it. If a writer died before it had written an event's line, the event is published
again under the same id.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from upath import UPath

log = logging.getLogger(__name__)

KEEP_RUNS = 10
KEEP_FOR = timedelta(days=7)
"""A run's ledger is needed while the run may be retried; the bus keeps events for three days."""
_TIME = "%Y%m%dT%H%M%S"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An event that the bus has accepted.

    :param record: the record's number, from 1.
    :param replay_id: hex.
    """

    record: int
    id: str
    replay_id: str


def runs_folder(root: UPath, org_id: str, topic: str, task: str) -> UPath:
    """Return the folder of a task's ledgers, one subfolder per run.

    :param root: of the staging area.
    :param task: with its DAG.
    """
    return root / layout.PUBLISHED / layout.topic_folder(org_id, task, topic)


def run_key(run: str) -> str:
    """Return the end of a run folder's name; a run id may hold characters that no store takes."""
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def run_name(since: datetime, key: str) -> str:
    """Return the name of a run's folder; names sort as times do.

    :param since: UTC.
    """
    return f"{since:{_TIME}}-{key}"


def to_sweep(names: Sequence[str], now: datetime) -> list[str]:
    """Select runs whose ledgers are neither among the newest nor younger than `KEEP_FOR`.

    A folder that is not named like a run is never removed.
    """
    known = sorted(name for name in names if _since(name) is not None)
    old = known[:-KEEP_RUNS]
    return [name for name in old if now - (_since(name) or now) > KEEP_FOR]


def _since(name: str) -> datetime | None:
    try:
        return datetime.strptime(name.partition("-")[0], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


class PublishLedger:
    """Ledger of the events that one task of one run has published.

    :param runs: see `runs_folder`.
    :param run: the run's id.
    :param map_index: of the task, -1 if it is not mapped.
    :param writer: names this try; unique among all writers.
    :raises StagingError: the store does not answer.
    """

    def __init__(
        self, runs: UPath, *, run: str, map_index: int, writer: str, now: datetime
    ) -> None:
        self._runs = runs
        self._writer = writer
        key = run_key(run)
        found = [name for name in durable_files.names(runs) if name.endswith(f"-{key}")]
        self._found = [runs / name / str(map_index) for name in found]
        self.folder = runs / (found or [run_name(now, key)])[-1] / str(map_index)
        self._files = count(1)

    def known(self) -> dict[str, Accepted]:
        """Read the events that earlier tries have published, by event id.

        :raises StagingError: a file cannot be read, or is no ledger.
        """
        return {
            accepted.id: accepted
            for folder in self._found
            for name in durable_files.names(folder)
            if name.endswith(".jsonl")
            for accepted in _read(folder / name)
        }

    def write(self, accepted: Sequence[Accepted]) -> None:
        """Add a file with these events.

        :raises StagingError: it cannot be written.
        """
        lines = "".join(json.dumps(asdict(one)) + "\n" for one in accepted)
        place = self.folder / f"{self._writer}-{next(self._files):05}.jsonl"
        steps.reached(steps.LEDGER_NEXT, str(place))
        durable_files.replace(place, lines.encode())
        steps.reached(steps.LEDGER_WRITTEN, str(place))

    def sweep(self, now: datetime) -> None:
        """Remove old ledgers; a removal that fails is logged and does not fail the task."""
        try:
            for name in to_sweep(durable_files.names(self._runs), now):
                durable_files.remove(self._runs / name)
        except StagingError as error:
            log.warning("Old publish records could not be removed; the next run tries: %s", error)


def _read(place: UPath) -> Iterator[Accepted]:
    try:
        for line in (durable_files.read(place) or b"").splitlines():
            yield Accepted(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise StagingError(
            f"{place} is no publish record: {error}. Remove it; the events that it "
            "lists are then published again, under the same ids."
        ) from error
