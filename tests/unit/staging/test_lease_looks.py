"""Observations of a batch's lease that take nothing: may it be held, and by which process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import LeaseHeldError
from airflow_provider_sfevents.staging import lease_holder, leases
from airflow_provider_sfevents.staging.lease_holder import LeaseState
from airflow_provider_sfevents.staging.leases import LeaseTiming, take
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.staging.building import elsewhere, here
from tests.unit.staging.test_leases import Watch, leased

if TYPE_CHECKING:
    from upath import UPath

    from airflow_provider_sfevents.staging.lease_holder import LeaseHolder


def test_a_batch_without_leases_has_no_holder(place: UPath) -> None:
    """A batch without leases has no holder."""
    assert not leases.may_be_held(place)
    assert leases.holder_of(place) is None


def test_another_machines_unreleased_lease_may_be_held(place: UPath) -> None:
    """An unreleased lease of another machine counts as held; its heartbeat is not awaited."""
    leased(place, 1, elsewhere())
    assert leases.may_be_held(place)
    number, holder = leases.holder_of(place) or pytest.fail("no holder")
    assert (number, holder.host) == (1, "worker-2")


def test_a_look_at_a_lease_takes_nothing(place: UPath) -> None:
    """`observe` reports a lease without taking it; `watch` waits for a heartbeat as `take` does."""

    def told(found: leases.LeaseObservation | None) -> tuple[int, LeaseHolder, LeaseState]:
        assert found is not None
        return found.number, found.holder, found.state

    assert leases.observe(place) is None
    with take(place, here()) as lease:
        assert told(leases.observe(place)) == (1, lease.holder, LeaseState.ALIVE)
    assert told(leases.observe(place)) == (1, lease.holder, LeaseState.FREE)
    leased(place, 2, elsewhere())
    there = elsewhere_now(place)
    assert told(leases.observe(place)) == (2, there, LeaseState.WATCH)
    assert told(leases.watch(place, Watch().timing)) == (2, there, LeaseState.DEAD)
    assert leases.lease_numbers(place) == [1, 2]


def test_a_lease_let_go_by_hand_is_free(place: UPath) -> None:
    """After a release by hand the batch is free, and the old holder's next check fails."""
    with take(place, here()) as lease:
        leases.let_go(place, lease.number)
        with take(place, here()) as other:
            assert other.number == 2
            with pytest.raises(LeaseHeldError, match="was taken over"):
                lease.check()


def elsewhere_now(place: UPath) -> LeaseHolder:
    """The holder on another machine, as in its lease file."""
    found = leases.holder_of(place)
    assert found is not None
    return found[1]


def test_observations_tell_what_watching_would(place: UPath) -> None:
    """Several observations find another machine's lease alive or dead as watching would."""
    watch = Watch()
    leased(place, 1, elsewhere())
    first = leases.observe(place, None, watch.timing)
    assert first is not None
    assert (first.state, first.may_be_alive) == (LeaseState.WATCH, True)
    watch.sleep(10)
    durable_files.replace(place / "leases" / "0001.heartbeat", b"8\n")
    second = leases.observe(place, first, watch.timing)
    assert second is not None
    assert second.state is LeaseState.ALIVE
    watch.sleep(29)
    third = leases.observe(place, second, watch.timing)
    assert third is not None
    assert third.state is LeaseState.WATCH
    watch.sleep(1)
    last = leases.observe(place, third, watch.timing)
    assert last is not None
    assert (last.state, last.may_be_alive) == (LeaseState.DEAD, False)


def test_a_new_lease_is_looked_at_anew(place: UPath) -> None:
    """The silence of an earlier holder does not count against a new lease."""
    watch = Watch()
    leased(place, 1, elsewhere())
    first = leases.observe(place, None, watch.timing)
    watch.sleep(60)
    leased(place, 2, replace(elsewhere(), token="another"))
    second = leases.observe(place, first, watch.timing)
    assert second is not None
    assert (second.number, second.state) == (2, LeaseState.WATCH)


def test_another_holder_of_the_same_number_is_looked_at_anew(place: UPath) -> None:
    """In an emptied area the heartbeat of an earlier holder of the same number is ignored."""
    watch = Watch()
    leased(place, 1, elsewhere())
    first = leases.observe(place, None, watch.timing)
    durable_files.remove(place / "leases" / "0001.json")
    leased(place, 1, replace(elsewhere(), token="another"), heartbeat=b"8\n")
    second = leases.observe(place, first, watch.timing)
    assert second is not None
    assert (second.state, second.since) == (LeaseState.WATCH, watch.now)


def test_received_events_add_up(place: UPath) -> None:
    """The heartbeat contains the sum of events of all deliveries to the holder."""
    with take(place, here(), LeaseTiming(lease_seconds=-1)) as lease:
        lease.note_received(2)
        lease.note_received(3)
        lease.check()  # renews the lease, which is over
        assert leases.received(place) == {1: 5}


def test_a_holder_that_could_not_take_a_batch_does_not_hold_it(place: UPath) -> None:
    """A task that could not take a batch is not recorded as a holder in its own process."""
    second = replace(here(), token="second")
    with take(place, here()):
        with pytest.raises(LeaseHeldError):
            take(place, second)
        assert lease_holder.is_alive(second) is False


def test_a_batch_never_leased_shows_nothing(place: UPath) -> None:
    """An observation of a batch without leases is None, and a released lease has no live holder."""
    assert leases.observe(place) is None
    take(place, here()).release()
    seen = leases.observe(place)
    assert seen is not None
    assert not seen.may_be_alive
