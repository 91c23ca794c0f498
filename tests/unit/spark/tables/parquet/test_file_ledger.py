"""Folding of the Parquet ledger's files."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.spark.tables import ledger
from airflow_provider_sfevents.spark.tables.parquet.file_ledger import fold
from tests.harness.killed import Killed
from tests.unit.spark.tables.test_ledger import ROW

if TYPE_CHECKING:
    from collections.abc import Iterator


class Folder:
    """The ledger's files by name; killed before so many effects, if given."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.effects_left: int | None = None

    def names(self, url: str) -> list[str]:
        assert url == "lake/_batches"
        return sorted(self.files)

    def read_bytes(self, url: str) -> bytes:
        return self.files[url.rpartition("/")[2]]

    def create(self, url: str, content: bytes) -> bool:
        self._effect()
        return self.files.setdefault(url.rpartition("/")[2], content) is content

    def remove(self, url: str) -> None:
        self._effect()
        del self.files[url.rpartition("/")[2]]

    def _effect(self) -> None:
        if self.effects_left == 0:
            raise Killed
        if self.effects_left is not None:
            self.effects_left -= 1

    def land(self, number: int, revision: int = 1) -> None:
        row = replace(ROW, batch_id=f"e-{number}", batch_number=number, revision=revision)
        stream = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([row.to_values()], ledger.COLUMNS), stream)
        self.files[f"e-{number}-r{revision}.parquet"] = stream.getvalue()

    def rows(self) -> Iterator[tuple[str, int]]:
        """Batch and revision of each row, as a reader of all files finds them."""
        for content in self.files.values():
            for row in pq.read_table(pa.BufferReader(content)).to_pylist():
                yield row["batch_id"], row["revision"]

    def fold(self, full: int = 100) -> None:
        fold(self, "lake/_batches", 3, full)


def landed(numbers: range) -> Folder:
    folder = Folder()
    for number in numbers:
        folder.land(number)
    return folder


def test_few_files_stay_as_they_are() -> None:
    """A ledger of as many files as may be there is not folded."""
    folder = landed(range(3))

    folder.fold()

    assert len(folder.files) == 3


def test_files_are_folded_by_one_landing_and_removed_by_a_later_one() -> None:
    """Between a fold and the removal each row is in both files, and afterwards in one."""
    folder = landed(range(4))

    folder.fold()
    assert sorted(folder.rows()) == sorted([(f"e-{number}", 1) for number in range(4)] * 2)
    folder.land(4)
    folder.fold()

    assert [*folder.files] == ["folded-00001.parquet", "e-4-r1.parquet"]
    assert sorted(folder.rows()) == [(f"e-{number}", 1) for number in range(5)]


def test_the_next_fold_holds_the_rows_of_the_one_before() -> None:
    """A fold takes in the rows of the earlier folded file, which is then removed."""
    folder = landed(range(4))
    for number in range(4, 12):
        folder.fold()
        folder.land(number)
    folder.fold()
    folder.fold()

    assert {row[0] for row in folder.rows()} == {f"e-{number}" for number in range(12)}
    assert len([name for name in folder.files if name.startswith("folded")]) == 1


def test_a_full_file_stays_and_the_next_one_begins_anew() -> None:
    """No fold writes more rows than a full file and the files of one row hold."""
    folder = landed(range(4))
    for number in range(4, 12):
        folder.fold(full=4)
        folder.land(number)
    folder.fold(full=4)
    folder.fold(full=4)

    assert sorted(row[0] for row in folder.rows()) == sorted(f"e-{number}" for number in range(12))
    assert [*folder.files] == [f"folded-{number:05d}.parquet" for number in (1, 2, 3)]


def test_a_batch_that_lands_again_after_it_was_folded_keeps_its_later_row() -> None:
    """A file stays while the folded file has an earlier revision; the next fold takes it."""
    folder = landed(range(4))
    folder.fold()
    del folder.files["e-2-r1.parquet"]
    folder.land(2, revision=2)
    folder.fold()
    assert "e-2-r2.parquet" in folder.files
    for number in range(4, 8):
        folder.land(number)

    folder.fold()
    folder.fold()

    assert sorted(folder.rows()) == [
        (f"e-{number}", 2 if number == 2 else 1) for number in range(8)
    ]


def land_more(folder: Folder) -> None:
    """Land twelve batches in all; after each fold all that have landed are there."""
    for number in range(4, 12):
        there = {row[0] for row in folder.rows()}
        folder.fold()
        assert {row[0] for row in folder.rows()} == there
        if f"e-{number}" not in there:
            folder.land(number)


@pytest.mark.parametrize("effects", range(6))
def test_a_kill_at_any_moment_loses_no_row(effects: int) -> None:
    """After each effect a reader finds every batch; the next landings finish what was begun."""
    folder = landed(range(4))
    folder.effects_left = effects
    with pytest.raises(Killed):
        land_more(folder)
    folder.effects_left = None
    there = {row[0] for row in folder.rows()}

    land_more(folder)
    folder.fold()
    folder.fold()

    assert there == {f"e-{number}" for number in range(len(there))}
    assert sorted(row[0] for row in folder.rows()) == sorted(f"e-{n}" for n in range(12))


def test_two_folds_at_once_make_one_file() -> None:
    """The second creation of a file of the same number changes nothing."""
    folder, other = landed(range(4)), landed(range(4))
    other.fold()
    first = other.files["folded-00001.parquet"]
    folder.files["folded-00001.parquet"] = first
    assert not folder.create("lake/_batches/folded-00001.parquet", b"")

    folder.fold()

    assert folder.files == {"folded-00001.parquet": first}
