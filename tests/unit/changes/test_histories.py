"""Histories of an org, delivered in every way that a bus may deliver them.

Records without a resync entry equal the org, and after an entity snapshot all records do. `make
histories` checks the same with random seeds, as long as it is left running.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, note, seed, settings, strategies as st

from airflow_provider_sfevents.spark.changes.record import Done
from airflow_provider_sfevents.spark.changes.resync_entries import Reason
from tests.histories.delivery import MOVES, Delivery, Move
from tests.histories.doubt import Doubt
from tests.histories.histories import Transaction, told, transactions
from tests.histories.lake import Lake
from tests.histories.org import PREFIXES
from tests.histories.seeds import IS_SEARCH, REPEATED_BY, SEED

QUICK = settings(
    max_examples=100,
    print_blob=True,
    suppress_health_check=[*settings().suppress_health_check, HealthCheck.data_too_large],
)
LONG = settings(QUICK, max_examples=2_000 if IS_SEARCH else 500)
CLOSE = (0.1, 0.4, 0.9, 3.0)
"""Seconds between transactions that make commit times and reads hard to tell apart."""


def run(
    history: list[Transaction],
    moves: list[Move],
    lake: Lake,
    *,
    exact: bool = True,
    unheard: int = 0,
) -> Delivery:
    """Deliver a history in this way, then the rest, then a snapshot; look after each step."""
    note(REPEATED_BY)
    org = told(history)
    doubt = Doubt(starts_empty=lake.new_entities == "empty")
    delivery = Delivery(
        org=org, lake=lake, doubt=doubt, exact=exact, cursor=min(unheard, len(org.bus))
    )
    for move in moves:
        delivery.move(move)
        delivery.look()
    delivery.batch(Move("batch"), size=len(org.bus))
    delivery.batch(Move("batch", silent=True), size=0)
    delivery.look()
    if org.bus:
        if not unheard:
            delivery.look_when_all_is_told()
        for entity in sorted(PREFIXES):
            delivery.resolve(Move("resolve", entity=entity, ahead=99))
            delivery.look()
        delivery.look_at_the_end()
    return delivery


@seed(SEED)
@QUICK
@given(transactions(), MOVES)
def test_what_is_not_marked_equals_the_org(history: list[Transaction], moves: list[Move]) -> None:
    """Seeded tables with deletions equal the org where nothing is marked, for any delivery."""
    run(history, moves, Lake())


@seed(SEED)
@QUICK
@given(transactions(), MOVES)
def test_tables_that_begin_empty_equal_the_org(
    history: list[Transaction], moves: list[Move]
) -> None:
    """Tables that begin empty, with flagged deletions, equal the org where nothing is marked."""
    run(history, moves, Lake(new_entities="empty", deletions="flag"))


@seed(SEED)
@QUICK
@given(transactions(), MOVES, st.integers(1, 6))
def test_records_that_were_never_heard_of_are_marked_when_they_change(
    history: list[Transaction], moves: list[Move], unheard: int
) -> None:
    """In tables wrongly taken to be empty, each record equals the org or is marked."""
    run(history, moves, Lake(new_entities="empty"), unheard=unheard)


@seed(SEED)
@QUICK
@given(transactions(seconds=CLOSE), MOVES)
def test_reads_in_the_midst_of_changes_come_right(
    history: list[Transaction], moves: list[Move]
) -> None:
    """Commit times too close to decide leave no wrong record without a resync entry."""
    run(history, moves, Lake(new_entities="empty"), exact=False)
    run(history, moves, Lake(), exact=False)


@pytest.mark.full
@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seconds", [(10,), CLOSE], ids=["far-apart", "close"])
@pytest.mark.parametrize(
    ("lake", "unheard"),
    [
        ({}, st.just(0)),
        ({"new_entities": "empty", "deletions": "flag"}, st.just(0)),
        ({"new_entities": "empty"}, st.integers(1, 6)),
    ],
    ids=["seeded", "empty", "taken-for-empty"],
)
def test_many_histories(
    seconds: tuple[float, ...], lake: dict[str, Any], unheard: st.SearchStrategy[int]
) -> None:
    """Many random histories leave no unmarked record that differs from the org."""

    @seed(SEED)
    @LONG
    @given(transactions(seconds=seconds), MOVES, unheard)
    def check(history: list[Transaction], moves: list[Move], told_before: int) -> None:
        run(history, moves, Lake(**lake), exact=seconds != CLOSE, unheard=told_before)

    check()


@pytest.mark.full
def test_histories_meet_every_rule() -> None:
    """The generated histories are diverse: in some hundreds of them every rule has decided."""
    met: Counter[str] = Counter()
    reasons: set[str] = set()

    @settings(QUICK, max_examples=600, derandomize=True, database=None)
    @given(transactions(), MOVES, st.sampled_from([0, 0, 2]))
    def collect(history: list[Transaction], moves: list[Move], unheard: int) -> None:
        lake = Lake(new_entities="empty" if len(moves) % 2 else "unseeded")
        org = told(history)
        delivery = Delivery(
            org=org,
            lake=lake,
            doubt=Doubt(starts_empty=lake.new_entities == "empty"),
            cursor=min(unheard, len(org.bus)),
        )
        for move in (*moves, Move("batch", size=99, silent=True)):
            delivery.move(move)
            reasons.update(reason for entry in lake.resync.values() for reason in entry.reasons)
        met.update(lake.counts)

    collect()
    assert {name for name in (*get_args(Done), "repeats") if not met[name]} == {"late"}
    # No field of this org changes its kind.
    assert set(get_args(Reason)) - reasons == {"late", "kind"}
