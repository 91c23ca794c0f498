"""Activity of a position that is kept for people: last batches, events by hour, counts. Pure.

1. It changes with a commit only, so it costs no write of its own.
2. Hours are those of the commit, by the committing worker's clock; a new epoch begins with none.
3. The record is small, because it is read as a whole: at most `RECENT` batches and `HOURS` hours,
   and of the batches only as many as fit into `MOST_BYTES` with the hours. The oldest go first, and
   `FEWEST` of them always stay, because a retried commit is compared with them (`record.is_past`).
   Tables and drift have bounds of their own; what changed longest ago goes first.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.positions.record_text import is_number, is_time
from airflow_provider_sfevents.staging.extra_deliveries import sums

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt, Run

RECENT = 20
"""Number of commits that a position keeps: enough to see a rhythm, and to go back by hand."""

FEWEST = 10

HOURS = 7 * 24
"""Number of hours for which a position counts events."""

MOST_BYTES = 6_600
"""Size of batches and hours in a record; the rest of a record without loss windows has 1.4 kB."""

TABLES_BYTES, DRIFT_BYTES = 450, 300
"""Sizes of tables and of drift in a record."""

_TYPE_LENGTH = 60  # characters of a type in drift: a compound's can be long

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One move of a position.

    The durations add up to the time from the beginning of the fetch to the commit. A batch that is
    landed by a later try has the time in between in `landing_ms`.

    :param batch_number: batch number.
    :param replay_id: new replay id of the position; hex.
    :param at: ISO-8601, UTC.
    :param dag: DAG of the committing task; it may land a batch that another run staged. So have
        `run`, `task` and `map_index`.
    :param fetch_ms: milliseconds from the beginning of the fetch to the manifest.
    :param landing_ms: milliseconds from there to the receipt.
    :param commit_ms: milliseconds from there to the commit.
    """

    batch_number: int
    batch_id: str
    replay_id: str
    events: int
    at: str
    dag: str = ""
    run: str = ""
    task: str = ""
    map_index: int = -1
    quarantined: int = 0
    duplicates: int = 0
    fetch_ms: int = 0
    landing_ms: int = 0
    commit_ms: int = 0

    @property
    def begun_at(self) -> datetime:
        """Time at which the fetch began."""
        took = timedelta(milliseconds=self.fetch_ms + self.landing_ms + self.commit_ms)
        return datetime.fromisoformat(self.at) - took

    def to_row(self) -> list[Any]:
        """Return the values in the order of the fields: small, without their names."""
        return list(asdict(self).values())

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Commit:
        """Read a row.

        :raises ValueError: it has not as many values as there are fields.
        """
        return cls(**dict(zip(_COMMIT, row, strict=True)))


_COMMIT = tuple(one.name for one in fields(Commit))
"""Names of the fields, found once: a page reads ten thousand rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of an epoch.

    :param quarantined: events in quarantine.
    :param extra_deliveries: extra deliveries by cause (`staging.extra_deliveries`).
    :param hour: beginning of the last hour of `events_by_hour`; ISO-8601, UTC. Empty: no commit
        yet.
    :param events_by_hour: events committed in each hour, oldest first.
    :param tables: rows landed by table, below the folder or schema that the tables share; those
        that got rows last come last. A table that was dropped for want of room begins anew.
    :param drift: changes of the tables' columns, oldest first: batch number, event type, change,
        column, type.
    """

    quarantined: int = 0
    extra_deliveries: dict[str, int] = field(default_factory=dict)
    hour: str = ""
    events_by_hour: tuple[int, ...] = ()
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    drift: tuple[tuple[int, str, str, str, str], ...] = ()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Counts:
        drift = tuple(tuple(one) for one in value["drift"])
        return cls(**{**value, "events_by_hour": tuple(value["events_by_hour"]), "drift": drift})

    def wrong(self) -> str:
        """Return what is wrong with a value; empty if nothing is."""
        objects: list[Any] = [self.tables, self.extra_deliveries]
        objects += self.tables.values() if type(self.tables) is dict else []
        if any(type(one) is not dict for one in objects):
            return "`counts.tables`, what it holds, and `counts.extra_deliveries` must be objects"
        rows = [count for tables in self.tables.values() for count in tables.values()]
        numbers = (self.quarantined, *self.extra_deliveries.values(), *self.events_by_hour, *rows)
        if wrong := [one for one in numbers if not is_number(one)]:
            return f"`counts` holds {str(wrong[0])[:30]!r}, which is no number of events"
        if self.hour and not is_time(self.hour):
            return f"`counts.hour` is {self.hour!r}; it must be a time with its zone in ISO 8601"
        if any([type(part) for part in one] != _DRIFT_TYPES for one in self.drift):
            return "`counts.drift` must hold rows of a batch number and four texts"
        return ""


_DRIFT_TYPES = [int, str, str, str, str]


def commit_of(
    manifest: Manifest, receipt: Receipt | None, committed_at: str, committed_by: Run
) -> Commit:
    """Describe the commit of a batch.

    :param receipt: of the batch; None: a test has none.
    """
    fetched, landed, committed = _durations(
        manifest.begun_at,
        manifest.created_at,
        receipt.written_at if receipt else "",
        committed_at,
    )
    return Commit(
        batch_number=manifest.batch_number,
        batch_id=manifest.batch_id,
        replay_id=manifest.end,
        events=manifest.events,
        at=committed_at,
        dag=committed_by.dag,
        run=committed_by.run,
        task=committed_by.task,
        map_index=committed_by.map_index,
        quarantined=receipt.quarantined if receipt else 0,
        duplicates=receipt.duplicates if receipt else 0,
        fetch_ms=fetched,
        landing_ms=landed,
        commit_ms=committed,
    )


def counted_on(
    counts: Counts,
    commit: Commit,
    extra_deliveries: Mapping[str, int],
    receipt: Receipt | None = None,
) -> Counts:
    """Add a commit to the counts. An hour that is older than the last one counts as that one.

    :param receipt: of the batch, for tables and drift.
    """
    now = _hour(commit.at)
    events = list(counts.events_by_hour)
    if counts.hour:
        passed = max(0, (now - _hour(counts.hour)) // _HOUR)
        now = max(now, _hour(counts.hour))
        events += [0] * min(passed, HOURS)
    events = events or [0]
    events[-1] += commit.events
    return replace(
        counts,
        quarantined=counts.quarantined + commit.quarantined,
        extra_deliveries=sums(counts.extra_deliveries, extra_deliveries),
        hour=now.isoformat(timespec="minutes"),
        events_by_hour=tuple(events[-HOURS:]),
        tables=_with_rows(counts.tables, receipt.tables if receipt else {}),
        drift=_with_drift(counts.drift, commit.batch_number, receipt.drift if receipt else []),
    )


def _with_rows(
    tables: Mapping[str, Mapping[str, int]], landed: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Add the rows of a batch; the tables that got none for longest go if there is no room."""
    found = {
        (parent, name): rows for parent, names in tables.items() for name, rows in names.items()
    }
    for table, rows in landed.items():
        key = _split(table)
        found[key] = found.pop(key, 0) + rows
    while True:
        nested: dict[str, dict[str, int]] = {}
        for (parent, name), rows in found.items():
            nested.setdefault(parent, {})[name] = rows
        if _size(nested) <= TABLES_BYTES or not found:
            return nested
        del found[next(iter(found))]


def _split(table: str) -> tuple[str, str]:
    """Split a table's path or name into its folder or schema, with the separator, and the rest."""
    separator = "/" if "/" in table else "."
    parent, found, name = table.rpartition(separator)
    return parent + found, name


def _with_drift(
    drift: Sequence[tuple[int, str, str, str, str]],
    batch_number: int,
    landed: Sequence[Mapping[str, Any]],
) -> tuple[tuple[int, str, str, str, str], ...]:
    """Add the changes of a batch; the oldest go if there is no room."""
    found = [*drift]
    for one in landed:
        event_type, what, column, kind = (
            str(one.get(name, "")) for name in ("event_type", "what", "column", "type")
        )
        found.append((batch_number, event_type, what, column, kind[:_TYPE_LENGTH]))
    while found and _size(found) > DRIFT_BYTES:
        del found[0]
    return tuple(found)


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def kept(recent: Sequence[Commit], counts: Counts) -> tuple[Commit, ...]:
    """Return the last commits that a record keeps beside these counts, oldest first."""
    size = _size(asdict(counts))
    found: list[Commit] = []
    for commit in reversed(recent[-RECENT:]):
        size += 1 + _size(commit.to_row())
        if size > MOST_BYTES and len(found) >= FEWEST:
            break
        found.append(commit)
    return tuple(reversed(found))


def events_in(counts: Counts, now: datetime) -> tuple[int, ...]:
    """Return the events of each of the `HOURS` hours up to now, oldest first."""
    if not counts.hour:
        return (0,) * HOURS
    passed = max(0, (_hour(now.isoformat()) - _hour(counts.hour)) // _HOUR)
    events = (*((0,) * HOURS), *counts.events_by_hour, *((0,) * min(passed, HOURS)))
    return events[-HOURS:]


def _durations(begun: str, staged: str, landed: str, committed: str) -> tuple[int, int, int]:
    """Return the milliseconds of fetch, landing and commit; unknown times count as 0.

    Spark may run on a machine with another clock, so its time is kept between those of the worker.
    """
    if not is_time(staged) or not is_time(committed):
        return 0, 0, 0
    at_staged, at_end = datetime.fromisoformat(staged), datetime.fromisoformat(committed)
    at_end = max(at_end, at_staged)
    at_landed = datetime.fromisoformat(landed) if is_time(landed) else at_end
    at_landed = min(max(at_landed, at_staged), at_end)
    at_begun = min(datetime.fromisoformat(begun), at_staged) if is_time(begun) else at_staged
    return _ms(at_staged - at_begun), _ms(at_landed - at_staged), _ms(at_end - at_landed)


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def _hour(at: str) -> datetime:
    return datetime.fromisoformat(at).astimezone(UTC).replace(minute=0, second=0, microsecond=0)
