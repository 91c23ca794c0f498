from __future__ import annotations

import errno
import re
from itertools import count
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging.storage.staging_location import usable
from tests.integration.batches.conftest import publish
from tests.integration.storage.world import World
from tests.unit.staging.bucket import Bucket, Budget, Effect, new_bucket

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator

EVENTS = 5

BEGINNING = ["0001.json", "0001.heartbeat", "position.json", "origin.json", "0001.released"]
"""Writes of a first run before its batch, in this order."""

WRITES = [*BEGINNING, "0001.json", "0001.heartbeat", "avsc", "parquet", "manifest.json"]
"""Writes after the batch; then its receipt and the release of its lease."""


def nothing(_: Effect) -> None:
    """No trouble."""


def name_of(effect: Effect) -> str:
    last = effect[1].rpartition("/")[2]
    return last.rpartition(".")[2] if last.endswith((".avsc", ".parquet")) else last


class Emptied:
    """A store that another program empties just before the n-th effect."""

    def __init__(self, bucket: Bucket, effects: int) -> None:
        self.left = effects
        self.met: list[Effect] = []
        self._bucket = bucket

    def __call__(self, effect: Effect) -> None:
        if self.left == 0:
            self._bucket.objects.clear()
            self.met.append(effect)
        self.left -= 1


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "Free space there"),
        (errno.EACCES, "Let the user that Airflow's workers run as write there"),
        (errno.EROFS, "It is mounted read-only"),
    ],
    ids=["full", "no permission", "read-only"],
)
def test_whichever_write_fails_nothing_is_lost_or_paid_for_twice(
    bus: Emulator, code: int, remedy: str
) -> None:
    """A write that fails loses no event, and the next task pays only for unfinished files.

    The error of the task says why, and its lease is released.
    """
    published = publish(bus, 1, EVENTS)
    refused = []
    for effects in count():
        bucket, root = new_bucket()
        world = World(bus, root, published)
        bucket.before = budget = Budget(effects, code)
        if not (trouble := world.trouble()):
            assert name_of(budget.refused[0]) == "0001.released"
            break
        assert remedy in trouble
        refused.append(name_of(budget.refused[0]))
        bucket.before = nothing
        kept, paid = world.closed(), world.delivered
        world.run_once()
        world.check(delivered=paid + EVENTS - kept)
    assert [name for name in refused if name != "file"] == [*WRITES, "receipt.json"]


def test_a_staging_area_emptied_between_any_two_writes_loses_nothing(bus: Emulator) -> None:
    """A staging area that is emptied between two writes loses no event.

    The task fails with a remedy, unless it no longer needed the files; at worst the remedy is
    needed once.
    """
    published = publish(bus, 1, EVENTS)
    met = []
    for effects in count():
        bucket, root = new_bucket()
        world = World(bus, root, published)
        bucket.before = emptied = Emptied(bucket, effects)
        if trouble := world.trouble():
            assert re.search("the staging area was emptied|files missing", trouble)
            finish(world)
        if not emptied.met:
            break
        met.append(name_of(emptied.met[0]))
        world.check(delivered=world.delivered)
    assert [name for name in met if name != "file"] == [*WRITES, "receipt.json", "0001.released"]


@pytest.mark.full  # one of the rounds watches a claim that cannot be read, for as long as a lease
def test_half_an_object_is_never_taken_for_a_whole_one(bus: Emulator) -> None:
    """Half of an object, which a faulty store kept, is not taken for a whole one."""
    published = publish(bus, 1, EVENTS)
    for effects in count():
        bucket, root = new_bucket()
        world = World(bus, root, published)
        bucket.torn = True
        bucket.before = Budget(effects, errno.EIO)
        if not world.trouble():
            break
        bucket.before = nothing
        finish(world)
        world.check(delivered=world.delivered)
    assert effects > len(WRITES)


def finish(world: World) -> None:
    """The next run; and the one after it, when that needs a hand."""
    if trouble := world.trouble():
        world.follow(trouble)
        world.run_once()


def test_a_store_that_shows_writes_late_is_refused() -> None:
    """Before anything is spent: what was just written must be there."""
    bucket, root = new_bucket()
    bucket.late = 1
    with pytest.raises(StagingError, match="this store shows writes late"):
        usable(root)
