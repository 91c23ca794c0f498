"""Which events of a task the bus has accepted: a ledger, so that a retry publishes what is missing and nothing else.

<staging>/_published/<org>/<dag>.<task>/<topic>/<since>-<run>/<map index>/<try>-<token>-00001.jsonl
    one line for each accepted event: its record's number, its id, its replay id

Every writer has files of its own, each there whole or not at all; what is accepted is what any of them says. An event whose line was not written
before its writer died is published again, under the same id.
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
from airflow_provider_sfevents.staging import durable, layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from upath import UPath

log = logging.getLogger(__name__)

KEEP_RUNS = 10
KEEP_FOR = timedelta(days=7)
"""A ledger is of use while its run may be tried again; the bus itself keeps events for three days."""
_TIME = "%Y%m%dT%H%M%S"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An event the bus has. :param record: the record's number, from 1. :param replay_id: hex."""

    record: int
    id: str
    replay_id: str


def runs_folder(root: UPath, org_id: str, topic: str, task: str) -> UPath:
    """Where the ledgers of a task lie, run beside run.

    :param root: of the staging area. :param task: with its DAG.
    """
    return root / layout.PUBLISHED / layout.topic_folder(org_id, task, topic)


def run_key(run: str) -> str:
    """What a run's folder ends with; a run's id may hold what no store takes."""
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def run_name(since: datetime, key: str) -> str:
    """Names sort as times do. :param since: UTC."""
    return f"{since:{_TIME}}-{key}"


def to_sweep(names: Sequence[str], now: datetime) -> list[str]:
    """Runs whose ledgers have had their time: neither among the newest nor young. What is not named like a run is nobody's to remove."""
    known = sorted(name for name in names if _since(name) is not None)
    old = known[:-KEEP_RUNS]
    return [name for name in old if now - (_since(name) or now) > KEEP_FOR]


def _since(name: str) -> datetime | None:
    try:
        return datetime.strptime(name.partition("-")[0], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


class Ledger:
    """What one task of one run has published.

    :param runs: see `runs_folder`. :param run: the run's id. :param map_index: of the task, -1 where it is not mapped.
    :param writer: names this try, and is nobody else's.
    """

    def __init__(
        self, runs: UPath, *, run: str, map_index: int, writer: str, now: datetime
    ) -> None:
        self._runs = runs
        self._writer = writer
        key = run_key(run)
        found = [name for name in durable.names(runs) if name.endswith(f"-{key}")]
        self._found = [runs / name / str(map_index) for name in found]
        self.folder = runs / (found or [run_name(now, key)])[-1] / str(map_index)
        self._files = count(1)

    def known(self) -> dict[str, Accepted]:
        """What earlier tries have published, by the events' ids.

        :raises StagingError: a file cannot be read, or is not ours.
        """
        return {
            accepted.id: accepted
            for folder in self._found
            for name in durable.names(folder)
            if name.endswith(".jsonl")
            for accepted in _read(folder / name)
        }

    def write(self, accepted: Sequence[Accepted]) -> None:
        """Adds a file with these events.

        :raises StagingError: it cannot be written.
        """
        lines = "".join(json.dumps(asdict(one)) + "\n" for one in accepted)
        place = self.folder / f"{self._writer}-{next(self._files):05}.jsonl"
        steps.reached(steps.LEDGER_NEXT, str(place))
        durable.replace(place, lines.encode())
        steps.reached(steps.LEDGER_WRITTEN, str(place))

    def sweep(self, now: datetime) -> None:
        """Removes what has had its time; that it cannot be removed is no reason to fail."""
        try:
            for name in to_sweep(durable.names(self._runs), now):
                durable.remove(self._runs / name)
        except StagingError as error:
            log.warning("Old ledgers stay: %s", error)


def _read(place: UPath) -> Iterator[Accepted]:
    try:
        for line in (durable.read(place) or b"").splitlines():
            yield Accepted(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise StagingError(
            f"{place} is no ledger of published events: {error}. Remove it, and what it tells of is published again, under the same ids."
        ) from error
