from __future__ import annotations

import errno
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import LeaseHeldError, StagingError
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.lease_holder import LEASE_SECONDS
from airflow_provider_sfevents.staging.leases import KEPT_LEASES, LeaseTiming, take
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.staging.bucket import Budget, Effect, new_bucket
from tests.unit.staging.building import elsewhere, here

if TYPE_CHECKING:
    from collections.abc import Callable

    from upath import UPath

    from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
    from airflow_provider_sfevents.staging.leases import Lease


class Watch:
    """A clock that advances only with `sleep`, and an action during each sleep."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.now = 1000.0
        self.meanwhile = meanwhile
        self.timing = LeaseTiming(monotonic=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


def leased(
    folder: UPath, number: int, holder: LeaseHolder, heartbeat: bytes | None = b"7\n"
) -> None:
    """Write a lease as another machine would have left it."""
    durable_files.create_once(folder / "leases" / f"{number:04d}.json", holder.to_json().encode())
    if heartbeat is not None:
        durable_files.replace(folder / "leases" / f"{number:04d}.heartbeat", heartbeat)


def test_the_first_lease_is_number_one(place: UPath) -> None:
    """The first lease of a batch has number 1 and is taken at once."""
    with take(place, here()) as lease:
        assert lease.number == 1
        lease.check()
        assert leases.may_be_held(place)
    assert not leases.may_be_held(place)


def test_a_held_batch_is_refused_and_names_its_holder(place: UPath) -> None:
    """A task gives way to a live holder; the error names its task, process and host."""
    with (
        take(place, here()),
        pytest.raises(
            LeaseHeldError,
            match=r"held by task load\.fetch of run run-1, .* try 2, process \d+ on .*, since 2026",
        ) as caught,
    ):
        take(place, here())
    assert "`consumer`" in str(caught.value)


def test_a_held_batch_is_named_with_the_command_that_releases_it(place: UPath) -> None:
    """The error of a held batch has its id as the command line takes it."""
    folder = place / "e1" / "0000000007"
    with take(folder, here()), pytest.raises(LeaseHeldError) as caught:
        take(folder, here())
    assert "`airflow sfevents batches release <consumer> <topic> e1-7`" in str(caught.value)


def test_a_release_says_how_much_was_received(place: UPath) -> None:
    """A release counts all received events, also those since the last heartbeat."""
    with take(place, here()) as lease:
        lease.note_received(7)
    assert leases.received(place) == {1: 7}


def test_a_released_batch_is_free_at_once(place: UPath) -> None:
    """A released lease is taken over without watching."""
    take(place, here()).release()
    watch = Watch(lambda: pytest.fail("slept"))
    with take(place, elsewhere(), watch.timing) as lease:
        assert lease.number == 2


def test_a_lease_is_released_when_its_task_fails(place: UPath) -> None:
    """An exception in the `with` block releases the lease."""
    with pytest.raises(ZeroDivisionError), take(place, here()):
        raise ZeroDivisionError
    assert not leases.may_be_held(place)


def test_another_machine_that_heartbeats_is_alive(place: UPath) -> None:
    """A changed heartbeat proves a holder alive before the lease has run out."""
    leased(place, 1, elsewhere())
    watch = Watch(lambda: durable_files.replace(place / "leases" / "0001.heartbeat", b"8\n"))
    with pytest.raises(LeaseHeldError, match="on worker-2"):
        take(place, here(), watch.timing)
    assert watch.now < 1010


def test_another_machine_that_writes_its_first_heartbeat_is_alive(place: UPath) -> None:
    """A holder that writes its first heartbeat during the watch is alive."""
    leased(place, 1, elsewhere(), heartbeat=None)
    watch = Watch(lambda: durable_files.replace(place / "leases" / "0001.heartbeat", b"0\n"))
    with pytest.raises(LeaseHeldError):
        take(place, here(), watch.timing)


def test_another_machine_that_is_silent_for_the_lease_is_taken_over(place: UPath) -> None:
    """A lease without a changed heartbeat is taken over after 30 s, and not before."""
    leased(place, 1, elsewhere())
    watch = Watch()
    with take(place, here(), watch.timing) as lease:
        assert lease.number == 2
    assert 1030 <= watch.now < 1036


def test_a_dead_process_of_this_machine_is_taken_over_at_once(place: UPath) -> None:
    """The lease of a dead process on this machine is taken over without watching."""
    leased(place, 1, replace(here(), pid=2**22 + 1))
    watch = Watch(lambda: pytest.fail("slept"))
    with take(place, here(), watch.timing) as lease:
        assert lease.number == 2


def test_a_holder_that_was_taken_over_finds_out(place: UPath) -> None:
    """A holder that was taken for dead is stopped by its next `check`."""
    with take(place, here()) as lease:
        leased(place, 2, elsewhere())
        with pytest.raises(
            LeaseHeldError,
            match=r"taken over by task load\.fetch of run run-0, .*\(lease 2\).*with lease 1",
        ):
            lease.check()


def test_a_lease_that_cannot_be_renewed_within_its_length_stops_its_holder() -> None:
    """A holder that cannot renew an expired lease stops before it writes, and not earlier."""
    bucket, place = new_bucket()
    watch = Watch()
    with take(place, here(), watch.timing) as lease:
        bucket.before = Budget(0, errno.EIO)
        watch.now += LEASE_SECONDS
        lease.check()
        watch.now += 0.1
        with pytest.raises(StagingError, match=r"could not be renewed for 30 s.*before it writes"):
            lease.check()
        bucket.before = Budget(99, errno.EIO)
        lease.check()
        bucket.before = Budget(0, errno.EIO)
        watch.now += LEASE_SECONDS
        lease.check()
        bucket.before = Budget(99, errno.EIO)


def test_a_lease_that_was_swept_away_is_found_missing(place: UPath) -> None:
    """A missing lease file is an error that names the emptied staging area as the cause."""
    with take(place, here()) as lease:
        durable_files.remove(place / "leases" / "0001.json")
        with pytest.raises(StagingError, match="the staging area was emptied"):
            lease.check()


def test_the_quicker_task_has_it(place: UPath) -> None:
    """Two tasks that find the same dead holder do not both get the next number."""
    leased(place, 1, elsewhere())
    quick = Watch()

    def overtake() -> None:
        if quick.now == 1000.0:
            quick.now += 1
            durable_files.create_once(
                place / "leases" / "0002.json",
                replace(here(), pid=1, process_start="").to_json().encode(),
            )

    slow = Watch(overtake)
    with take(place, here(), slow.timing) as lease:
        assert lease.number == 3


def test_a_number_that_was_cleared_away_is_not_taken_again(place: UPath) -> None:
    """A slow task cannot take a number whose lease was already removed as an old one."""
    leased(place, 1, elsewhere())

    def many_others() -> None:
        if durable_files.read(place / "leases" / "0009.json") is None:
            leased(place, 9, replace(here(), pid=2**22 + 1))

    with take(place, here(), Watch(many_others).timing) as lease:
        assert lease.number == 10
        lease.check()


def test_a_holder_shows_life(place: UPath) -> None:
    """The heartbeat file changes while the lease is held, and not afterwards."""
    heartbeat = place / "leases" / "0001.heartbeat"
    others = threading.enumerate()  # leases of earlier tests may still be held
    with take(place, here(), LeaseTiming(heartbeat_seconds=0.002)):
        deadline = time.monotonic() + 20
        while durable_files.read(heartbeat) in (None, b"0 0\n") and time.monotonic() < deadline:
            pass
        assert durable_files.read(heartbeat) != b"0 0\n"
    left = [thread for thread in threading.enumerate() if thread not in others]
    for thread in left:  # a heartbeat in progress is written to its end
        thread.join(20)
    assert not any(thread.is_alive() for thread in left)


def test_old_leases_are_cleared_away(place: UPath) -> None:
    """Old leases of a batch that is taken again and again are removed."""
    for _ in range(KEPT_LEASES + 4):
        take(place, here()).release()
    assert leases.lease_numbers(place) == [5, 6, 7, 8, 9]
    assert len(durable_files.names(place / "leases")) == 3 * KEPT_LEASES


def test_a_lease_that_cannot_be_released_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A release that cannot be written does not fail the task."""
    bucket, place = new_bucket()
    lease = take(place, here())
    bucket.before = Budget(0, errno.ENOSPC)
    lease.release()
    assert "could not be released" in caplog.text
    bucket.before = Budget(9, errno.ENOSPC)
    take(place, here()).release()


def test_an_emptied_area_has_nothing_of_the_old_lease(place: UPath) -> None:
    """The holder of lease 1 in an emptied area is not the holder of the new lease 1."""
    old = take(place, here())
    durable_files.remove(place)
    with take(place, elsewhere()) as new:
        assert old.number == new.number
        with pytest.raises(StagingError, match="the staging area was emptied"):
            old.check()
        old.release()
        assert leases.may_be_held(place)
        new.check()


def test_a_release_of_an_older_lease_does_not_count(place: UPath) -> None:
    """A release left from before the area was emptied frees no later lease of that number."""
    with take(place, here()):
        durable_files.replace(
            place / "leases" / "0001.released", b"another-token released in good order\n"
        )
        assert leases.may_be_held(place)
        with pytest.raises(LeaseHeldError):
            take(place, here())


def test_an_emptied_area_stays_empty() -> None:
    """Neither heartbeat nor release of a vanished lease brings its folder back."""
    bucket, place = new_bucket()
    emptied = threading.Event()

    def empty(effect: Effect) -> None:
        if effect[1].endswith(".heartbeat"):
            bucket.objects.clear()
            emptied.set()
            raise OSError("another program empties the staging area just now")

    with take(place, here(), LeaseTiming(heartbeat_seconds=0.002)):
        bucket.before = empty
        assert emptied.wait(20)
        looks, deadline = bucket.reads + 3, time.monotonic() + 20
        while bucket.reads < looks and time.monotonic() < deadline:
            pass
        assert bucket.reads >= looks
    assert bucket.objects == {}


def test_a_lease_released_by_hand_is_free(place: UPath) -> None:
    """A lease released by hand is free at once, even if its file cannot be parsed."""
    leased(place, 1, elsewhere())
    leases.let_go(place, 1)
    assert not leases.may_be_held(place)
    durable_files.replace(place / "leases" / "0002.json", b"{")
    assert leases.may_be_held(place)
    leases.let_go(place, 2)
    assert not leases.may_be_held(place)


def test_unfinished_signs_of_life_are_cleared_away(local_place: UPath) -> None:
    """A new lease removes unfinished files of dead holders and leaves those of others."""
    take(local_place, here()).release()
    folder = local_place / "leases"
    for name in (".0001.heartbeat.ab.tmp", ".0001.json.ab.tmp", ".0002.json.ab.tmp"):
        durable_files.replace(folder / name, b"")
    take(local_place, here()).release()
    assert [name for name in durable_files.names(folder) if durable_files.is_leftover(name)] == [
        ".0002.json.ab.tmp"
    ]


def test_of_four_threads_one_has_the_batch(place: UPath) -> None:
    """Of four threads that take a batch at once exactly one gets the lease."""
    start = threading.Barrier(4)

    def race(_: int) -> Lease | None:
        start.wait(timeout=20)
        try:
            return take(place, here())
        except LeaseHeldError:
            return None

    with ThreadPoolExecutor(4) as threads:
        won = [lease for lease in threads.map(race, range(4)) if lease]
    for lease in won:
        lease.release()
    assert [lease.number for lease in won] == [1]
