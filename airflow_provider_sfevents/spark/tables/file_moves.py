"""Moves of a batch's files from the attempt's folder to the tables.

The plan is made by pure functions; `publish` carries it out.

A landed file is named after its batch and the staged files its rows come from (`splits`), never
after how Spark divides the work: `<root>/<event type>/event_date=2026-11-01/<batch
id>-00003.parquet`. Two landings of a batch therefore replace each other's files one by one,
whichever comes first. Files of an earlier landing with other names are removed after the moves, so
that until then the batch is complete at least in its old form. The same holds for its rows in files
of other writers (`tables.parquet.foreign_files`).

Two landings of one manifest put an event into files of the same name, so that a reader never finds
it twice. An event may be in two files for a moment if it moves from quarantine to a table, or if a
form of the batch that never landed has left other files (`fence`). Until those are removed the
batch is not in the ledger, or not in this form.

The batch's file in the ledger is the proof that all of this is done (`tables.parquet.file_ledger`).
It is written into the attempt's folder before the first move, and renamed after the last one, so
that an attempt whose folder was removed by another cannot record its landing any more. Folders that
begin with an underscore are no event tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import StagingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LANDING = "_landing"
QUARANTINE = "_quarantine"

SUFFIX = ".txt"
"""Of files that Spark's text sink writes (`landing.table_files`)."""

_WRITTEN = re.compile(
    r"event_table=(?P<table>[^/]+)/(?P<folder>event_date=(?P<date>[^/]+))"
    rf"/staged_split=(?P<split>\d+)/[^/]+{re.escape(SUFFIX)}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A file to rename.

    Both paths are relative: the source to the attempt's folder, the target to the table root.
    """

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A new file for another writer's file, without the rows of this batch.

    :param path: relative to the table root.
    :param source: the new file, relative to the attempt's folder; empty: no row is left.
    :param rows: that the old file has.
    """

    path: str
    source: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The ledger file that proves that a batch has landed.

    :param target: relative to the table root.
    """

    batch_id: str
    target: str
    content: bytes


class FileMoves(Protocol):
    """Operations that publishing asks of a file system; `files.Files` has them."""

    def make_folder(self, url: str) -> None: ...

    def move(self, source: str, target: str) -> None: ...

    def remove(self, url: str) -> None: ...

    def write_in_place(self, url: str, content: bytes) -> None: ...

    def row_counts(self, urls: Iterable[str]) -> Mapping[str, int | None]: ...


def file_name(batch_id: str, split: int) -> str:
    return f"{batch_id}-{split:05d}.parquet"


def folder_of(table: str) -> str:
    """Folder of a table's written files, relative to the attempt's."""
    return f"event_table={table}"


def written_path(table: str, date: object, split: int) -> str:
    """Path of a file that the driver writes, relative to the attempt's folder."""
    return f"{folder_of(table)}/event_date={date}/staged_split={split}/part{SUFFIX}"


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
    """Pattern of the names of a batch's files."""
    return re.compile(rf"(?:.*/)?{re.escape(batch_id)}-\d{{5,}}\.parquet")


def plan_moves(written: Iterable[str], batch_id: str) -> tuple[Move, ...]:
    """Plan the move of each written file to its path in the tables.

    :param written: paths below the attempt's folder:
        `event_table=<table>/event_date=<date>/staged_split=<n>/<any name>.txt`.
    :raises StagingError: two files would get one name, so that one's rows would be lost.
    """
    moves: dict[str, Move] = {}
    for source in sorted(written):
        found = _parsed(source)
        target = f"{found['table']}/{found['folder']}/{file_name(batch_id, int(found['split']))}"
        if target in moves:
            raise StagingError(
                f"Spark wrote the rows of {target} into two files, {moves[target].source} and "
                f"{source}; nothing was landed. Unset spark.sql.files.maxRecordsPerFile and "
                "spark.sql.files.maxPartitionNum for this job."
            )
        moves[target] = Move(source=source, target=target)
    return tuple(moves.values())


def left_overs(standing: Iterable[str], moves: Iterable[Move], batch_id: str) -> tuple[str, ...]:
    """Find files of this batch, in any table and date, that this landing did not write.

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
    mark: Mark,
    fence: Callable[[], None],
) -> None:
    """Move the files, remove left-overs, then move the ledger's file.

    After a kill at any step, the next landing of the batch completes it.

    :param standing: lists the tables' files; asked after the moves.
    :param replacements: files of other writers that hold rows of the batch.
    :param mark: moved into its place last.
    :param fence: called right before each effect; raises where this landing must not go on.
    :raises StagingError: one of the other writers' files has changed meanwhile.
    """
    moves = tuple(moves)
    # All folders before the first move: a landing that may not make them finds out while nothing
    # can be seen.
    targets = [mark.target, *(move.target for move in moves)]
    for folder in sorted({target.rpartition("/")[0] for target in targets}):
        files.make_folder(f"{root}/{folder}")
    source = f"{attempt_folder}/landed.parquet"
    files.write_in_place(source, mark.content)
    for move in moves:
        steps.reached(steps.LANDING_MOVE, move.target)
        fence()
        files.move(f"{attempt_folder}/{move.source}", f"{root}/{move.target}")
    for path in left_overs(standing(), moves, mark.batch_id):
        steps.reached(steps.LANDING_REMOVE, path)
        fence()
        files.remove(f"{root}/{path}")
    for one in replacements:
        steps.reached(steps.LANDING_REMOVE, one.path)
        fence()
        _replace(files, root, attempt_folder, one)
    steps.reached(steps.LANDING_LANDED, mark.batch_id)
    fence()
    files.move(source, f"{root}/{mark.target}")


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
