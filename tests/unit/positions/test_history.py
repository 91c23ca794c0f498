from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from upath import UPath

from airflow_provider_sfevents.batches.position.position_writes import write_origin
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.positions import history
from airflow_provider_sfevents.positions.activity import FEWEST, Commit
from airflow_provider_sfevents.positions.history import Cursor, EpochBeginning
from airflow_provider_sfevents.positions.record import Position, advance
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from tests.unit.positions.building import FETCH, ORG, TOPIC, batch_after, begun

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.staging.area import TopicFolder

AT = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def folder(tmp_path: Path) -> TopicFolder:
    return StagingArea(UPath(tmp_path / "staging")).topic(ORG, "load", TOPIC)


def commits(first: int, last: int, epoch: str = "e1") -> list[Commit]:
    return [
        Commit(batch_number=n, batch_id=f"{epoch}-{n}", replay_id=f"{n:04x}", events=n, at=AT)
        for n in range(first, last + 1)
    ]


def committed(position: Position, count: int, folder: TopicFolder, failing: range) -> Position:
    """Commit batches as a task does, with a history that cannot be written for some of them."""
    for _ in range(count):
        position = advance(position, batch_after(position, last_event_at=AT), AT, FETCH)
        if history.is_due(position.batch_number) and position.batch_number not in failing:
            history.add(folder, position.epoch, position.recent)
    return position


def numbers(older: history.OlderBatches) -> list[int]:
    return [one.batch_number for one in older.entries if isinstance(one, Commit)]


def read_all(folder: TopicFolder, position: Position) -> list[list[int]]:
    """Read the history from the recent batches to its beginning, answer by answer."""
    answers, cursor = [], history.before_recent(position)
    while cursor is not None:
        older = history.older(folder, cursor, position)
        answers.append(numbers(older))
        cursor = older.next
    return answers


def test_every_fifth_commit_writes() -> None:
    """Every record has the commits since the last writing one but one, so one may be left out."""
    assert [n for n in range(-1, 41) if history.is_due(n)] == [*range(5, 41, 5)]
    assert FEWEST == 10


def test_no_batch_is_missing_between_record_and_history(folder: TopicFolder) -> None:
    """Whatever the number of batches, record and history together have each of them once."""
    position = begun()
    for _ in range(45):
        position = committed(position, 1, folder, failing=range(0))
        recent = [one.batch_number for one in position.recent]
        [older] = read_all(folder, position) or [[]]
        assert [*older[::-1], *recent] == list(range(1, position.batch_number + 1))


def test_a_write_that_failed_is_made_good(folder: TopicFolder) -> None:
    """The next writing commit adds what the failed one has left out, as far as the record goes."""
    position = committed(begun(), 40, folder, failing=range(15, 25))
    assert read_all(folder, position) == [list(range(20, 0, -1))]
    position = committed(position, 40, folder, failing=range(45, 65))
    older = [*range(60, 45, -1), *range(40, 0, -1)]
    assert read_all(folder, position) == [older]


@pytest.mark.parametrize("left_out", range(5, 40, 5))
def test_one_write_may_be_left_out(folder: TopicFolder, left_out: int) -> None:
    """Also where a record has the fewest commits that it may have, no batch is missing then."""
    for number in range(1, 41):
        if history.is_due(number) and number != left_out:
            history.add(folder, "e1", commits(max(1, number - FEWEST + 1), number))
    older = history.older(folder, Cursor(epoch="e1", before=41), begun())
    assert numbers(older) == list(range(40, 0, -1))


def test_a_repeated_write_changes_nothing(folder: TopicFolder) -> None:
    """A batch is in the history once, and lines that another release wrote stay as they are."""
    history.add(folder, "e1", commits(1, 20))
    file = folder.folder / layout.history_file("e1", 1)
    newer = json.dumps({**json.loads(file.read_text().splitlines()[0]), "later": 1})
    file.write_text("\n".join([newer, *file.read_text().splitlines()[1:]]) + "\n")
    before = file.stat()
    history.add(folder, "e1", commits(11, 20))
    assert file.stat().st_ino == before.st_ino
    history.add(folder, "e1", commits(11, 30))
    lines = file.read_text().splitlines()
    assert lines[0] == newer
    assert [json.loads(line)["batch_number"] for line in lines] == list(range(1, 31))


def test_a_file_has_a_thousand_batches(folder: TopicFolder) -> None:
    """Names follow from the number, and an answer goes on in the file before."""
    for first in (1, 501, 981, 1001):
        history.add(folder, "e1", commits(first, min(first + 499, 1050)))
    files = sorted(one.name for one in (folder.folder / "e1" / "history").iterdir())
    assert files == ["0000000001.jsonl", "0000001001.jsonl"]
    older = history.older(folder, Cursor(epoch="e1", before=1031), begun())
    assert numbers(older) == list(range(1030, 930, -1))
    assert older.next == Cursor(epoch="e1", before=931)
    older = history.older(folder, Cursor(epoch="e1", before=1001), begun())
    assert numbers(older) == list(range(1000, 900, -1))


def test_an_answer_looks_into_two_files(folder: TopicFolder) -> None:
    """The answer to missing files is empty, and says where the next one looks."""
    history.add(folder, "e1", commits(1, 5))
    older = history.older(folder, Cursor(epoch="e1", before=3001), begun())
    assert (older.entries, older.next) == ((), Cursor(epoch="e1", before=1001))
    assert older.next is not None
    assert numbers(history.older(folder, older.next, begun())) == [5, 4, 3, 2, 1]


def test_the_history_goes_on_in_the_epoch_before(folder: TopicFolder) -> None:
    """A move is an entry, with its start; an epoch without batches does not end the history."""
    first = begun()
    write_origin(folder, first)
    history.add(folder, "e1", commits(1, 37))
    empty = begun(
        epoch="e2", previous_epoch="e1", previous_batch_number=37, initial_replay="latest"
    )
    write_origin(folder, empty)
    now = begun(epoch="e3", previous_epoch="e2", previous_batch_number=0, initial_replay="0a")
    assert history.before_recent(now) == Cursor(epoch="e3", before=1)
    assert read_all(folder, now) == [[], list(range(37, 0, -1))]

    older = history.older(folder, Cursor(epoch="e3", before=1), now)
    assert older.entries == (
        EpochBeginning(epoch="e3", start="0a", at=AT, previous_epoch="e2", previous_batch_number=0),
    )
    assert older.next == Cursor(epoch="e2", before=1)
    older = history.older(folder, older.next, now)
    [moved, *_, began] = older.entries
    assert isinstance(moved, EpochBeginning)
    assert (moved.epoch, moved.start, moved.previous_batch_number) == ("e2", "latest", 37)
    assert isinstance(began, EpochBeginning)
    assert (began.epoch, began.start, began.previous_epoch) == ("e1", "earliest", "")
    assert older.next is None


def test_a_position_with_all_of_its_batches_has_none_older() -> None:
    """Without older batches and an earlier epoch there is nothing to ask for."""
    assert history.before_recent(begun()) is None
    position = begun()
    for _ in range(3):
        position = advance(position, batch_after(position), AT, FETCH)
    assert history.before_recent(position) is None


def changed_line(**changes: Any) -> str:
    return history.with_commits({}, [replace(commits(1, 1)[0], **changes)])[1]


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]\n", "[" * 9999, '{"batch_number": 1, "at": 2}\n', '{"batch_number": 1e999}'),
        *(changed_line(at="soon"), changed_line(fetch_ms=10**20), changed_line(run="\ud800")),
    ],
)
def test_a_file_that_is_no_history(
    folder: TopicFolder, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Reading says which file to remove; a batch only warns of it."""
    file = folder.folder / layout.history_file("e1", 1)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(StagingError, match="is no history of batches"):
        history.older(folder, Cursor(epoch="e1", before=9), begun())
    if "batch_number" not in text or "1e999" in text:
        with caplog.at_level(logging.WARNING):
            history.keep(folder, replace(begun(), batch_number=10, recent=tuple(commits(1, 10))))
        [warning] = caplog.messages
        assert "could not be written" in warning
        assert "Remove it" in warning
        assert "commit 15" in warning
