"""Moves of files from a landing's folder into the tables, killed or not."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.tables.file_moves import (
    Mark,
    Move,
    Replacement,
    left_overs,
    plan_moves,
    publish,
)
from tests.harness.killed import Killed
from tests.harness.step_hooks import on_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BATCH = "e1-7"
WRITTEN = (
    "event_table=Order__e/event_date=2026-11-01/staged_split=0/part-00000-x.c000.txt",
    "event_table=Order__e/event_date=2026-11-01/staged_split=1/part-00001-x.c000.txt",
    "event_table=_quarantine/event_date=2026-11-02/staged_split=1/part-00000-y.c000.txt",
)
TARGETS = (
    "Order__e/event_date=2026-11-01/e1-7-00000.parquet",
    "Order__e/event_date=2026-11-01/e1-7-00001.parquet",
    "_quarantine/event_date=2026-11-02/e1-7-00001.parquet",
)
MARK = Mark(batch_id=BATCH, target="_batches/e1-7-r1.parquet", content=b"it has landed")
LEDGER = f"lake/{MARK.target}"


class Disk:
    """Files by URL, holding who wrote them."""

    def __init__(self, **files: str) -> None:
        self.files: dict[str, str] = dict(files)

    def make_folder(self, url: str) -> None:
        pass

    def move(self, source: str, target: str) -> None:
        self.files[target] = self.files.pop(source)

    def remove(self, url: str) -> None:
        del self.files[url]

    def write_in_place(self, url: str, content: bytes) -> None:
        assert "/_landing/" in url
        self.files[url] = content.decode()

    def row_counts(self, urls: Iterable[str]) -> dict[str, int | None]:
        """A file has as many rows as its content has words."""
        return {url: len(self.files[url].split()) if url in self.files else None for url in urls}

    def tables(self) -> list[str]:
        return sorted(
            url.removeprefix("lake/")
            for url in self.files
            if url.startswith("lake/") and "/_landing/" not in url and "/_batches/" not in url
        )

    def write(self, attempt: str) -> None:
        """Files as Spark writes them before publishing."""
        self.files |= {
            f"lake/_landing/{BATCH}/{attempt}/{path}": f"rows of {path}" for path in WRITTEN
        }


def run(
    disk: Disk,
    attempt: str,
    steps: int | None = None,
    fence: Callable[[], None] = lambda: None,
    replacements: Iterable[Replacement] = (),
) -> list[str]:
    """Publish; killed before that many steps have been taken, if given."""
    taken: list[str] = []

    def step(name: str, about: str) -> None:
        if len(taken) == steps:
            raise Killed
        taken.append(f"{name} {about}")

    disk.write(attempt)
    folder = f"lake/_landing/{BATCH}/{attempt}"
    moves = plan_moves(WRITTEN, BATCH)
    with on_steps(step):
        publish(disk, "lake", folder, moves, disk.tables, replacements, MARK, fence)
    return taken


def test_a_name_follows_from_batch_table_date_and_staged_file() -> None:
    """A landed file's name does not depend on the names of the files that Spark writes."""
    moves = plan_moves(reversed(WRITTEN), BATCH)

    assert moves == tuple(
        Move(source=source, target=target) for source, target in zip(WRITTEN, TARGETS, strict=True)
    )


def test_two_files_never_get_one_name() -> None:
    """Two files that would get one name are refused before anything moves."""
    twice = (*WRITTEN, WRITTEN[0].replace("part-00000", "part-00009"))

    with pytest.raises(StagingError, match="into two files"):
        plan_moves(twice, BATCH)


def test_a_file_that_no_landing_writes_is_refused() -> None:
    """An unexpected file in the attempt's folder is refused."""
    with pytest.raises(StagingError, match="is not where a landing writes"):
        plan_moves(["Order__e/part-00000.parquet"], BATCH)


def test_left_overs_are_this_batchs_files_that_this_landing_does_not_have() -> None:
    """Left-overs are files of this batch alone, in any table and date, quarantine included."""
    stale = [
        "Gone__e/event_date=2026-11-01/e1-7-00000.parquet",
        "Order__e/event_date=2026-10-31/e1-7-00000.parquet",
        "_quarantine/event_date=2026-11-02/e1-7-00000.parquet",
    ]
    others = [
        *TARGETS,
        "Order__e/event_date=2026-11-01/e1-77-00000.parquet",
        "Order__e/event_date=2026-11-01/e1-70-00000.parquet",
        "Order__e/event_date=2026-11-01/xe1-7-00000.parquet",
        "Order__e/event_date=2026-11-01/e1-7-00000.parquet.bak",
        "_landing/e1-7/other/Order__e/event_date=2026-11-01/e1-7-00000.parquet",
        "_batches/e1-7-r1.parquet",
    ]

    assert left_overs([*others, *stale], plan_moves(WRITTEN, BATCH), BATCH) == tuple(stale)


@pytest.mark.parametrize("steps", range(5))
def test_killed_before_any_step_the_next_landing_makes_the_batch_whole(steps: int) -> None:
    """Each file of the batch is there once, none of an earlier form, and the ledger agrees."""
    stale = "lake/Order__e/event_date=2026-10-31/e1-7-00000.parquet"
    disk = Disk(**{stale: "rows of an earlier fetch"})

    with pytest.raises(Killed):
        run(disk, "first", steps)
    run(disk, "second")

    assert disk.tables() == sorted(TARGETS)
    assert disk.files[LEDGER] == "it has landed"


def test_nothing_of_an_earlier_form_goes_before_the_new_one_is_there() -> None:
    """Left-overs go after the last move, and the ledger comes last of all."""
    disk = Disk(**{"lake/Order__e/event_date=2026-10-31/e1-7-00000.parquet": ""})

    steps = run(disk, "a")

    assert steps == [
        *(f"landing-move {target}" for target in TARGETS),
        "landing-remove Order__e/event_date=2026-10-31/e1-7-00000.parquet",
        "landing-landed e1-7",
    ]


COMPACTED, EMPTIED = (f"Order__e/event_date=2026-11-01/{name}.parquet" for name in "cd")
REPLACED = (
    Replacement(path=COMPACTED, source="_foreign/0/part-0.parquet", rows=2),
    Replacement(path=EMPTIED, source="", rows=1),
)


def compacted(**more: str) -> Disk:
    """Another writer's files, and the one of them that was written anew."""
    anew = {f"lake/_landing/{BATCH}/a/_foreign/0/part-0.parquet": "theirs"}
    there = {f"lake/{COMPACTED}": "ours theirs", f"lake/{EMPTIED}": "ours"}
    return Disk(**(there | anew | more))


def test_files_of_other_writers_are_replaced_after_the_moves() -> None:
    """Other writers' files are replaced after the moves, and removed if no row is left."""
    disk = compacted()

    steps = run(disk, "a", replacements=REPLACED)

    moved = [f"landing-move {target}" for target in TARGETS]
    replaced = [f"landing-remove {path}" for path in (COMPACTED, EMPTIED)]
    assert steps == [*moved, *replaced, "landing-landed e1-7"]
    assert disk.tables() == sorted([*TARGETS, COMPACTED])
    assert disk.files[f"lake/{COMPACTED}"] == "theirs"


@pytest.mark.parametrize("now", ["ours theirs more", ""], ids=["it has more rows", "it is empty"])
def test_a_file_of_another_writer_that_changed_meanwhile_stays(now: str) -> None:
    """A changed file of another writer stays, and the batch does not count as landed."""
    disk = compacted(**{f"lake/{COMPACTED}": now})

    with pytest.raises(StagingError, match=r"Another program changed lake/Order__e/.*Run the task"):
        run(disk, "a", replacements=REPLACED)

    assert disk.files[f"lake/{COMPACTED}"] == now
    assert LEDGER not in disk.files


def test_twins_in_any_order_of_steps_leave_each_file_once() -> None:
    """Every interleaving of two landings of one batch ends with the same files."""
    for order in set(itertools.permutations("aaabbb")):
        disk = Disk()
        disk.write("a")
        disk.write("b")
        left = {twin: list(plan_moves(WRITTEN, BATCH)) for twin in "ab"}
        for twin in order:
            move = left[twin].pop(0)
            disk.move(f"lake/_landing/{BATCH}/{twin}/{move.source}", f"lake/{move.target}")
        assert left_overs(disk.tables(), plan_moves(WRITTEN, BATCH), BATCH) == ()
        assert disk.tables() == sorted(TARGETS)
        assert [disk.files[f"lake/{target}"] for target in TARGETS] == [
            f"rows of {path}" for path in WRITTEN
        ]


@pytest.mark.parametrize("moved", range(4))
def test_an_attempt_whose_folder_is_cleared_away_cannot_say_that_it_has_landed(moved: int) -> None:
    """An attempt whose folder is removed before or after its moves cannot record its landing."""
    disk = Disk()
    asked: list[int] = []

    def cleared() -> None:
        if len(asked) == moved:
            for url in [url for url in disk.files if "/_landing/" in url]:
                disk.remove(url)
        asked.append(moved)

    with pytest.raises(KeyError):
        run(disk, "a", fence=cleared)

    assert disk.tables() == sorted(TARGETS[:moved])
    assert LEDGER not in disk.files


@pytest.mark.parametrize("effects", range(5))
def test_the_fence_is_asked_before_every_effect(effects: int) -> None:
    """A refused step of moves, removals or the ledger's row is not taken."""
    stale = "lake/Order__e/event_date=2026-10-31/e1-7-00000.parquet"
    disk = Disk(**{stale: "rows of an earlier fetch"})
    asked: list[int] = []

    def fence() -> None:
        if len(asked) == effects:
            raise StagingError("gives way")
        asked.append(effects)

    with pytest.raises(StagingError, match="gives way"):
        run(disk, "a", fence=fence)

    assert [target in disk.tables() for target in TARGETS] == [effects > at for at in range(3)]
    assert (stale in disk.files) == (effects < 4)
    assert LEDGER not in disk.files
