"""History of batches beside the staged ones: one JSON line per batch, for people.

1. A record keeps the last commits only, at least `FEWEST` of them (`activity.kept`). So every
   `EVERY`th commit adds the commits of the record that the history lacks, and the others cost
   nothing. What one write has left out is added by the next one: the record still has it.
2. A file holds a thousand batches of an epoch, and its name follows from the batch number. Nothing
   lists a folder.
3. Object stores cannot append, so a file is read, and replaced by a longer one.
4. No task decides anything by it, and a batch does not fail because of it.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.positions import record_text
from airflow_provider_sfevents.positions.activity import FEWEST, Commit
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from upath import UPath

    from airflow_provider_sfevents.staging.area import TopicFolder

log = logging.getLogger(__name__)

EVERY = FEWEST // 2
"""So many commits lie between two that add to the history: half of those that a record keeps."""

MOST = 100
"""Number of batches that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A point in the history.

    :param before: the batches of the epoch before this number come next; 1: none is left.
    """

    epoch: str
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBeginning:
    """Beginning of an epoch.

    :param start: the replay point that it was begun with, as it was given.
    :param at: ISO-8601, UTC.
    :param previous_batch_number: batch number at which the previous epoch ended.
    """

    epoch: str
    start: str
    at: str
    previous_epoch: str
    previous_batch_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderBatches:
    """Batches of the history, with the beginnings of epochs between them.

    :param entries: newest first.
    :param next: where those before are; None: there are none.
    """

    entries: tuple[Commit | EpochBeginning, ...]
    next: Cursor | None


def is_due(batch_number: int) -> bool:
    """Return whether the commit of this batch adds to the history."""
    return batch_number > 0 and batch_number % EVERY == 0


def keep(folder: TopicFolder, position: Position) -> None:
    """Add the recent commits of a position to the history; an error only warns."""
    try:
        add(folder, position.epoch, position.recent)
    except StagingError as error:
        log.warning(
            "The history of batches could not be written: %s The batches themselves are not "
            "affected; commit %d or a later one tries again.",
            error,
            position.batch_number + EVERY - position.batch_number % EVERY,
        )


def add(folder: TopicFolder, epoch: str, commits: Sequence[Commit]) -> None:
    """Add the commits that the history lacks. Blocks.

    :raises StagingError: a file cannot be read or written.
    """
    by_file: dict[int, list[Commit]] = defaultdict(list)
    for commit in commits:
        by_file[layout.first_in_history(commit.batch_number)].append(commit)
    for first, of_file in by_file.items():
        place = folder.folder / layout.history_file(epoch, first)
        before = _lines(place)
        after = with_commits(before, of_file)
        if after != before:
            text = "".join(f"{line}\n" for _, line in sorted(after.items()))
            durable_files.replace(place, text.encode())


def with_commits(lines: Mapping[int, str], commits: Sequence[Commit]) -> dict[int, str]:
    """Return the lines of a file with these commits, by batch number."""
    return {**lines, **{one.batch_number: json.dumps(asdict(one)) for one in commits}}


def before_recent(position: Position) -> Cursor | None:
    """Return where the batches before the recent ones are; None: there are none."""
    first = position.recent[0].batch_number if position.recent else position.batch_number + 1
    if first == 1 and not position.previous_epoch:
        return None
    return Cursor(epoch=position.epoch, before=first)


def older(folder: TopicFolder, cursor: Cursor, position: Position) -> OlderBatches:
    """Read the batches before a point: at most `MOST`, of one epoch, in two files at most.

    :param position: the position as it is now.
    :raises StagingError: a file cannot be read.
    """
    if cursor.before > 1:
        commits, before = _before(folder, cursor)
        if before > 1:
            return OlderBatches(
                entries=tuple(commits), next=Cursor(epoch=cursor.epoch, before=before)
            )
        beginning = _beginning(folder, cursor.epoch, position)
        return OlderBatches(
            entries=(*commits, *([beginning] if beginning else [])), next=_end(beginning)
        )
    beginning = _beginning(folder, cursor.epoch, position)
    end = _end(beginning)
    if beginning is None or end is None or end.before <= 1:
        return OlderBatches(entries=(beginning,) if beginning else (), next=end)
    of_previous = older(folder, end, position)
    return OlderBatches(entries=(beginning, *of_previous.entries), next=of_previous.next)


def _end(beginning: EpochBeginning | None) -> Cursor | None:
    """Return the end of the epoch before; None: there is none, or it is not known."""
    if beginning is None or not beginning.previous_epoch:
        return None
    return Cursor(epoch=beginning.previous_epoch, before=beginning.previous_batch_number + 1)


def _before(folder: TopicFolder, cursor: Cursor) -> tuple[list[Commit], int]:
    """Return the batches before a point, newest first, and the number before which others are.

    It looks into two files at most.
    """
    found: list[Commit] = []
    first = cursor.before
    for _ in range(2):
        if first <= 1 or len(found) >= MOST:
            break
        first = layout.first_in_history(first - 1)
        file = folder.folder / layout.history_file(cursor.epoch, first)
        numbers = sorted(_lines(file).items(), reverse=True)
        lines = [line for number, line in numbers if number < cursor.before]
        found += [_commit(file, line) for line in lines[: MOST - len(found)]]
        if len(found) == MOST and found[-1].batch_number > first:
            return found, found[-1].batch_number
    return found, first


def _beginning(folder: TopicFolder, epoch: str, position: Position) -> EpochBeginning | None:
    """Return the beginning of an epoch; None: it is not known here."""
    origin = folder.origin(epoch)
    begun = position if epoch == position.epoch else None
    if origin is not None:
        try:
            begun = Position.from_json(origin.position, f"The origin of epoch {epoch}")
        except ConfigurationError as error:
            log.debug("An epoch's beginning is not shown: %s", error)
    if begun is None:
        return None
    return EpochBeginning(
        epoch=epoch,
        start=begun.initial_replay,
        at=begun.committed_at if begun.batch_number == 0 else "",
        previous_epoch=begun.previous_epoch,
        previous_batch_number=begun.previous_batch_number,
    )


def _lines(file: UPath) -> dict[int, str]:
    """Return the lines of a history file by batch number; none if there is no such file."""
    data = durable_files.read(file)
    try:
        lines = data.decode().splitlines() if data is not None else []
        return {int(json.loads(line)["batch_number"]): line for line in lines}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise _unusable(file, error) from error


def _commit(file: UPath, line: str) -> Commit:
    try:
        commit = Commit(**json.loads(line))
    except TypeError as error:
        raise _unusable(file, error) from error
    times = {f"{commit.batch_number}.at": commit.at}
    parts = [(str(commit.batch_number), commit)]
    if wrong := record_text.wrong_part(parts) or record_text.wrong_time(times):
        raise _unusable(file, wrong)
    try:
        shown = (commit.begun_at, *commit.to_row())
        "".join(map(str, shown)).encode()
    except (OverflowError, UnicodeEncodeError) as error:  # no such time, or half a character
        raise _unusable(file, error) from error
    return commit


def _unusable(file: UPath, error: object) -> StagingError:
    return StagingError(
        f"{file} is no history of batches: {error}. Remove it; the page then does not show its "
        "batches, and nothing else depends on it."
    )
