"""How a batch's files get from the folder they were written in to the tables. The plan is pure; `publish` acts on it.

A landed file is named after its batch and the staged files its rows come from (`splits`), never after how Spark divides the work:
`<root>/<event type>/event_date=2026-11-01/<batch id>-00003.parquet`. Two landings of a batch therefore replace each other's files
one by one, whichever comes first. What an earlier landing left under a name that this one does not have goes after the moves: until
then the batch is there at least in its old form.
So do its rows in files of other writers (`tables.foreign_files`).

Two landings of one manifest put an event in files of one name, so that a reader never finds it in two. An event may be in two for a
moment where it changes its file: from quarantine to a table, or when a form of the batch that never landed had left files behind
(`fence`), from which another form's differ. Until those are removed the batch is not in `_landed`, or not in this form.

`_landed/<batch id>.json` says that all of this is done. It is written into the attempt's folder before the first move, and in the
end only renamed: an attempt whose folder another one has cleared away can no longer say that it has landed. Folders that begin with
an underscore are no tables.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark import landing_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

LANDED = "_landed"
LANDING = "_landing"
QUARANTINE = "_quarantine"

_WRITTEN = re.compile(
    r"(?P<table>[^/]+)/(?P<folder>event_date=(?P<date>[^/]+))/staged_split=(?P<split>\d+)/[^/]+\.parquet"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A file to rename. Both paths are relative: the source to the attempt's folder, the target to the table root."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A file of another writer, without the rows of this batch that it holds.

    :param path: relative to the table root.
    :param source: the new file, relative to the attempt's folder; empty: no row is left.
    :param rows: that the old file has.
    """

    path: str
    source: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """That a batch has landed, as `_landed/<batch id>.json` keeps it beside the tables.

    :param attempt: which landing wrote it.
    :param tables: rows by event type.
    :param files: relative to the table root.
    :param duplicates: events that were left out.
    :param staged_at: when the manifest was written that it was landed from: which form of the batch this is. Empty in marks of
        releases that did not tell forms apart.
    :param start: of that manifest, as is `end`.
    :param drift: what changed in the tables' columns with it (`drift.Drift.to_dict`).
    :param dates: ISO-8601, by table: the event dates of its rows, quarantine's too.
    """

    batch_id: str
    attempt: str
    events: int
    tables: Mapping[str, int]
    quarantined: int
    files: tuple[str, ...]
    org_id: str
    topic: str
    consumer: str
    written_at: str
    duplicates: int = 0
    staged_at: str = ""
    start: str = ""
    end: str = ""
    drift: tuple[Mapping[str, Any], ...] = ()
    dates: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line, so that Spark and DuckDB read the folder as it is."""
        return json.dumps({"version": 1, **asdict(self)})

    @classmethod
    def from_json(cls, text: str, where: str) -> Landed:
        """:raises StagingError: the text is nothing that a landing wrote."""
        try:
            value = json.loads(text)
            value.pop("version")
            listed = {"files": tuple(value["files"]), "drift": tuple(value.get("drift", ()))}
            return cls(**{**value, **listed})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StagingError(
                f"{where} does not say what has landed: {error}. Delete it and run the task again, which lands the batch again."
            ) from error


class FileMoves(Protocol):
    """What publishing asks of a file system; `hadoop.Files` has it."""

    def make_folder(self, url: str) -> None: ...

    def move(self, source: str, target: str) -> None: ...

    def remove(self, url: str) -> None: ...

    def write_in_place(self, url: str, text: str) -> None: ...

    def row_counts(self, urls: Iterable[str]) -> Mapping[str, int | None]: ...


def landed_name(batch_id: str) -> str:
    return f"{LANDED}/{batch_id}.json"


def file_name(batch_id: str, split: int) -> str:
    return f"{batch_id}-{split:05d}.parquet"


def split_of(written: str) -> int:
    """Which split of the batch the rows of a written file are of."""
    return int(_parsed(written)["split"])


def table_of(written: str) -> str:
    return _parsed(written)["table"]


def date_of(written: str) -> str:
    return _parsed(written)["date"]


def dates_of(written: Iterable[str]) -> dict[str, list[str]]:
    """Event dates of written files, by table, sorted."""
    found: dict[str, set[str]] = {}
    for path in written:
        found.setdefault(table_of(path), set()).add(date_of(path))
    return {table: sorted(dates) for table, dates in sorted(found.items())}


def names_of(batch_id: str) -> re.Pattern[str]:
    """What the files of a batch are called."""
    return re.compile(rf"(?:.*/)?{re.escape(batch_id)}-\d{{5,}}\.parquet")


def plan_moves(written: Iterable[str], batch_id: str) -> tuple[Move, ...]:
    """Where each written file goes.

    :param written: paths below the attempt's folder: `<table>/event_date=<date>/staged_split=<n>/<any name>.parquet`.
    :raises StagingError: two files would get one name, so that one's rows would be lost.
    """
    moves: dict[str, Move] = {}
    for source in sorted(written):
        found = _parsed(source)
        target = f"{found['table']}/{found['folder']}/{file_name(batch_id, int(found['split']))}"
        if target in moves:
            raise StagingError(
                f"Spark wrote the rows of {target} into two files, {moves[target].source} and {source}; nothing was landed. "
                "Unset spark.sql.files.maxRecordsPerFile and spark.sql.files.maxPartitionNum for this job."
            )
        moves[target] = Move(source=source, target=target)
    return tuple(moves.values())


def left_overs(standing: Iterable[str], moves: Iterable[Move], batch_id: str) -> tuple[str, ...]:
    """Files of this batch, in whatever table and date, that this landing does not have.

    :param standing: every file below the table root, relative to it.
    """
    ours = {move.target for move in moves}
    name = names_of(batch_id)
    return tuple(
        sorted(
            path
            for path in standing
            if path not in ours and not path.startswith(f"{LANDING}/") and name.fullmatch(path)
        )
    )


def publish(
    files: FileMoves,
    root: str,
    attempt_folder: str,
    moves: Iterable[Move],
    standing: Callable[[], Iterable[str]],
    replacements: Iterable[Replacement],
    landed: Landed,
    step: landing_steps.Step,
    fence: Callable[[], None],
) -> None:
    """Move, then remove left-overs, then say so.

    May be killed anywhere: the next landing of the batch makes it whole.

    :param standing: lists the tables' files; asked after the moves.
    :param replacements: files of other writers that hold rows of the batch.
    :param step: called before each effect.
    :param fence: called right before each effect; raises where this landing must not go on.
    :raises StagingError: one of the other writers' files has changed meanwhile.
    """
    moves = tuple(moves)
    # All folders before the first move: whoever may not make them should find out while nothing can be seen.
    for folder in sorted({LANDED, *(move.target.rpartition("/")[0] for move in moves)}):
        files.make_folder(f"{root}/{folder}")
    mark = f"{attempt_folder}/landed.json"
    files.write_in_place(mark, landed.to_json())
    for move in moves:
        step(landing_steps.MOVE, move.target)
        fence()
        files.move(f"{attempt_folder}/{move.source}", f"{root}/{move.target}")
    for path in left_overs(standing(), moves, landed.batch_id):
        step(landing_steps.REMOVE, path)
        fence()
        files.remove(f"{root}/{path}")
    for one in replacements:
        step(landing_steps.REMOVE, one.path)
        fence()
        _replace(files, root, attempt_folder, one)
    step(landing_steps.LANDED, landed.batch_id)
    fence()
    files.move(mark, f"{root}/{landed_name(landed.batch_id)}")


def _replace(files: FileMoves, root: str, attempt_folder: str, one: Replacement) -> None:
    url = f"{root}/{one.path}"
    if files.row_counts([url])[url] != one.rows:
        raise StagingError(
            f"Another program changed {url} while a batch landed that it holds rows of. The batch "
            "does not count as landed. Run the task again, when that program is done."
        )
    if one.source:
        files.move(f"{attempt_folder}/{one.source}", url)
    else:
        files.remove(url)


def _parsed(written: str) -> Mapping[str, str]:
    found = _WRITTEN.fullmatch(written)
    if found is None:
        raise StagingError(f"{written} is not where a landing writes its files.")
    return found.groupdict()
