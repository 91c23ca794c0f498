"""Folders that are scanned for rows of a batch that lands again."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.spark.tables.parquet.foreign_files import folders_in_doubt

DAY, NEXT = "Order__e/event_date=2026-11-01", "Order__e/event_date=2026-11-02"
OWN, SECOND = "e1-7-00000.parquet", "e1-7-00001.parquet"
OTHERS = ["e1-6-00000.parquet", "0f3c-12-123456.parquet"]
BEFORE = (f"{DAY}/{OWN}", f"{DAY}/{SECOND}", f"{NEXT}/{OWN}")


@pytest.mark.parametrize(
    ("day", "doubted"),
    [
        ([OWN, SECOND, *OTHERS], []),
        ([OWN, *OTHERS], [DAY]),
        (OTHERS, [DAY]),
        ([], []),
        ([OWN, SECOND, *OTHERS, "part-00000-2f1c.c000.snappy.parquet"], [DAY]),
        ([OWN, SECOND, *OTHERS, "data_0.parquet"], [DAY]),
        ([OWN, SECOND, *OTHERS, "e1-7-00000.parquet.bak"], [DAY]),
    ],
    ids=[
        "all as before",
        "one of its files is missing",
        "all of them are",
        "the date was emptied",
        "Spark wrote a file",
        "DuckDB wrote one",
        "a copy of a file",
    ],
)
def test_a_folder_is_scanned_only_if_another_writer_has_been_there(
    day: list[str], doubted: list[str]
) -> None:
    """Only the folder with another writer's file is scanned; other batches' files do not count."""
    standing = {DAY: day, NEXT: [OWN, *OTHERS]}
    assert folders_in_doubt(standing, BEFORE, ()) == doubted


def test_a_file_of_the_batch_that_is_not_as_it_landed_is_a_reason() -> None:
    """A file with the batch's name that has changed causes a scan of its folder."""
    standing = {DAY: [OWN, SECOND], NEXT: [OWN]}
    assert folders_in_doubt(standing, BEFORE, [f"{NEXT}/{OWN}"]) == [NEXT]


def test_after_an_attempt_that_died_every_folder_is_scanned() -> None:
    """After an attempt that died every folder is scanned, because its files are unknown."""
    standing = {DAY: [OWN], NEXT: OTHERS, "Order__e/event_date=2026-11-03": []}
    assert folders_in_doubt(standing, None, ()) == [DAY, NEXT]


def test_a_folder_that_the_batch_did_not_land_in_before_is_scanned_for_foreign_files_only() -> None:
    """A folder new to the batch is scanned only if it has another writer's file."""
    standing = {DAY: [OWN, SECOND], NEXT: [OWN], "Alert__e/event_date=2026-11-01": OTHERS}
    assert folders_in_doubt(standing, BEFORE, ()) == []
