from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import BatchClaimed, StagingError
from airflow_provider_sfevents.staging import claims, durable
from airflow_provider_sfevents.staging.claims import KEPT_CLAIMS, Patience, take
from tests.unit.staging.building import elsewhere, here

if TYPE_CHECKING:
    from collections.abc import Callable

    from upath import UPath

    from airflow_provider_sfevents.staging.holders import Holder


class Watch:
    """A clock that moves only when somebody sleeps, and what happens meanwhile."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.now = 1000.0
        self.meanwhile = meanwhile
        self.patience = Patience(monotonic=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


def claimed(folder: UPath, number: int, holder: Holder, beat: bytes | None = b"7\n") -> None:
    """A claim as another machine left it."""
    durable.create_once(folder / "claims" / f"{number:04d}.json", holder.to_json().encode())
    if beat is not None:
        durable.replace(folder / "claims" / f"{number:04d}.beat", beat)


def test_the_first_claim_is_number_one(place: UPath) -> None:
    """A batch that nobody has is taken at once."""
    with take(place, here()) as claim:
        assert claim.number == 1
        claim.check()
        assert claims.may_be_held(place)
    assert not claims.may_be_held(place)


def test_a_held_batch_is_refused_and_says_who_has_it(place: UPath) -> None:
    """The second task gives way and names the first one's task, run, try, process and host."""
    with (
        take(place, here()),
        pytest.raises(
            BatchClaimed,
            match=r"held by task load\.fetch of run run-1, .* try 2, process \d+ on .*, since 2026",
        ) as caught,
    ):
        take(place, here())
    assert "`consumer`" in str(caught.value)


def test_a_released_batch_is_free_at_once(place: UPath) -> None:
    """Nobody watches a claim that was let go."""
    take(place, here()).release()
    watch = Watch(lambda: pytest.fail("slept"))
    with take(place, elsewhere(), watch.patience) as claim:
        assert claim.number == 2


def test_a_claim_is_released_when_its_task_fails(place: UPath) -> None:
    """An error leaves no claim behind to watch."""
    with pytest.raises(ZeroDivisionError), take(place, here()):
        raise ZeroDivisionError
    assert not claims.may_be_held(place)


def test_another_machine_that_beats_is_alive(place: UPath) -> None:
    """The first change of the beat proves life; the rest of the lease is not waited for."""
    claimed(place, 1, elsewhere())
    watch = Watch(lambda: durable.replace(place / "claims" / "0001.beat", b"8\n"))
    with pytest.raises(BatchClaimed, match="on worker-2"):
        take(place, here(), watch.patience)
    assert watch.now < 1010


def test_another_machine_that_writes_its_first_beat_is_alive(place: UPath) -> None:
    """A holder that had no time yet for its first beat is not taken for dead."""
    claimed(place, 1, elsewhere(), beat=None)
    watch = Watch(lambda: durable.replace(place / "claims" / "0001.beat", b"0\n"))
    with pytest.raises(BatchClaimed):
        take(place, here(), watch.patience)


def test_another_machine_that_is_silent_for_the_lease_is_taken_over(place: UPath) -> None:
    """After 30 s without a change the next number is ours, and not before."""
    claimed(place, 1, elsewhere())
    watch = Watch()
    with take(place, here(), watch.patience) as claim:
        assert claim.number == 2
    assert 1030 <= watch.now < 1036


def test_a_dead_process_of_this_machine_is_taken_over_at_once(place: UPath) -> None:
    """No lease is waited for where the process can be seen to be gone."""
    claimed(place, 1, replace(here(), pid=2**22 + 1))
    watch = Watch(lambda: pytest.fail("slept"))
    with take(place, here(), watch.patience) as claim:
        assert claim.number == 2


def test_a_holder_that_was_taken_over_finds_out(place: UPath) -> None:
    """Who was thought dead and wakes up is stopped before it does anything."""
    with take(place, here()) as claim:
        claimed(place, 2, elsewhere())
        with pytest.raises(
            BatchClaimed,
            match=r"taken over by task load\.fetch of run run-0, .*\(claim 2\).*with claim 1",
        ):
            claim.check()


def test_a_claim_that_was_swept_away_is_found_missing(place: UPath) -> None:
    """Somebody who empties the staging area under a running task is named as the cause."""
    with take(place, here()) as claim:
        durable.remove(place / "claims" / "0001.json")
        with pytest.raises(StagingError, match="somebody emptied the staging area"):
            claim.check()


def test_whoever_is_quicker_has_it(place: UPath) -> None:
    """Two that find the same dead holder do not both get the next number."""
    claimed(place, 1, elsewhere())
    quick = Watch()

    def overtake() -> None:
        if quick.now == 1000.0:
            quick.now += 1
            durable.create_once(
                place / "claims" / "0002.json",
                replace(here(), pid=1, process_start="").to_json().encode(),
            )

    slow = Watch(overtake)
    with take(place, here(), slow.patience) as claim:
        assert claim.number == 3


def test_a_number_that_was_cleared_away_is_not_taken_again(place: UPath) -> None:
    """Who was so slow that its number is free again, as an old one, does not come between."""
    claimed(place, 1, elsewhere())

    def many_others() -> None:
        if durable.read(place / "claims" / "0009.json") is None:
            claimed(place, 9, replace(here(), pid=2**22 + 1))

    with take(place, here(), Watch(many_others).patience) as claim:
        assert claim.number == 10
        claim.check()


def test_a_holder_shows_life(place: UPath) -> None:
    """The beat file changes while the claim is held; nobody writes it after."""
    beat = place / "claims" / "0001.beat"
    with take(place, here(), Patience(beat_seconds=0.002)):
        deadline = time.monotonic() + 20
        while durable.read(beat) in (None, b"0\n") and time.monotonic() < deadline:
            pass
        assert durable.read(beat) != b"0\n"
    assert "sfevents-claim-1" not in {thread.name for thread in threading.enumerate()}


def test_old_claims_are_cleared_away(place: UPath) -> None:
    """A quiet topic's batch, claimed every hour for months, does not pile up claims."""
    for _ in range(KEPT_CLAIMS + 4):
        take(place, here()).release()
    assert claims.claim_numbers(place) == [5, 6, 7, 8, 9]
    assert len(durable.names(place / "claims")) == 3 * KEPT_CLAIMS


def test_a_claim_that_cannot_be_released_is_no_error(
    local_place: UPath, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that has done its work does not fail for a release that cannot be written; the next one watches."""
    claim = take(local_place, here())
    durable.remove(local_place)
    durable.replace(local_place, b"a file where the folder was")
    claim.release()
    assert "could not be released" in caplog.text


def test_nobody_has_a_batch_that_was_never_claimed(place: UPath) -> None:
    """No claims, no holder."""
    assert not claims.may_be_held(place)
    assert claims.holder_of(place) is None


def test_another_machines_unreleased_claim_may_be_held(place: UPath) -> None:
    """What cannot be known without watching counts as held."""
    claimed(place, 1, elsewhere())
    assert claims.may_be_held(place)
    number, holder = claims.holder_of(place) or pytest.fail("nobody")
    assert (number, holder.host) == (1, "worker-2")
