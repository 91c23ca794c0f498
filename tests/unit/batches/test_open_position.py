from __future__ import annotations

import pytest

from airflow_provider_sfevents.batches.position.open_position import (
    EpochStart,
    Landed,
    refuse_lost,
    refuse_stale,
)
from airflow_provider_sfevents.exceptions import PositionConflictError
from tests.unit.batches.building import position, request, run

WHERE = "Variable 'x'"


@pytest.mark.parametrize(
    "landed",
    [None, Landed(epoch="e1", batch_number=3, is_forgotten=True)],
    ids=["nothing", "forgotten"],
)
def test_a_first_run_is_one(landed: Landed | None) -> None:
    """A missing position is a first run if no batch has landed, or if it was forgotten."""
    refuse_lost(landed, [], request(run(1)), WHERE)


def test_a_lost_position_is_named_with_its_remedies() -> None:
    """The error of a lost position names its replay id, and the commands to restore or begin."""
    with pytest.raises(PositionConflictError) as raised:
        refuse_lost(Landed(epoch="e1", batch_number=3, end="0c"), [], request(run(1)), WHERE)
    said = str(raised.value)
    assert said.startswith("Variable 'x' is missing, but batch e1-3")
    assert "`airflow sfevents position set orders /event/Order__e 0c`" in said
    assert "`airflow sfevents position forget orders /event/Order__e`" in said


def test_an_epoch_that_began_without_landing_is_no_first_run_either() -> None:
    """A missing position is refused if an epoch has begun, naming its run and time."""
    begun = [EpochStart(epoch="e1", at="2026-01-01", by=run(1))]
    with pytest.raises(PositionConflictError) as raised:
        refuse_lost(None, begun, request(run(2)), WHERE)
    said = str(raised.value)
    assert "run day-1 of orders.land has begun epoch e1 at 2026-01-01" in said
    assert "another Airflow works with the same staging area" in said


@pytest.mark.parametrize(
    "landed",
    [
        None,
        Landed(epoch="e1", batch_number=3),
        Landed(epoch="e1", batch_number=4),
        Landed(epoch="e0", batch_number=9, older_epochs=frozenset()),
        Landed(epoch="e2", batch_number=1, older_epochs=frozenset({"e0"})),
    ],
    ids=["nothing", "the last", "the next", "older epoch", "epoch not known to be newer"],
)
def test_a_position_that_accounts_for_what_landed_is_believed(landed: Landed | None) -> None:
    """A position is accepted if the newest landed batch is its own, the next, or unrelated."""
    refuse_stale(position(), landed, WHERE)


@pytest.mark.parametrize(
    "landed",
    [
        Landed(epoch="e1", batch_number=5, end="05"),
        Landed(epoch="e2", batch_number=1, end="05", older_epochs=frozenset({"e1"})),
    ],
    ids=["two behind", "of an epoch that was reset since"],
)
def test_a_position_of_long_ago_is_refused(landed: Landed) -> None:
    """A position older than the landed batches is refused, with the replay id to set."""
    with pytest.raises(
        PositionConflictError, match=r"has landed: an older .* set orders /event/Order__e 05`"
    ):
        refuse_stale(position(), landed, WHERE)
