from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.batches.position.open_position import (
    EpochStart,
    Landed,
    open_position,
    refuse_lost,
    refuse_stale,
)
from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session import Session
from airflow_provider_sfevents.staging.area import StagingArea
from tests.unit.batches.building import position, request, run

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.positions.record import Position

STORE = MappingStore({}, "x")


@pytest.mark.parametrize(
    "landed",
    [None, Landed(epoch="e1", batch_number=3, is_forgotten=True)],
    ids=["nothing", "forgotten"],
)
def test_a_first_run_is_one(landed: Landed | None) -> None:
    """A missing position is a first run if no batch has landed, or if it was forgotten."""
    refuse_lost(landed, [], request(run(1)), STORE)


def test_a_lost_position_is_named_with_its_remedies() -> None:
    """The error of a lost position names its replay id, and the commands to restore or begin."""
    with pytest.raises(PositionConflictError) as raised:
        refuse_lost(Landed(epoch="e1", batch_number=3, end="0c"), [], request(run(1)), STORE)
    said = str(raised.value)
    assert said.startswith("Key 'x' of dict is missing, but batch e1-3")
    assert "`airflow sfevents position set orders /event/Order__e 0c`" in said
    assert "`airflow sfevents position forget orders /event/Order__e`" in said


def test_an_epoch_that_began_without_landing_is_no_first_run_either() -> None:
    """A missing position is refused if an epoch has begun, naming its run and time."""
    begun = [EpochStart(epoch="e1", at="2026-01-01", by=run(1))]
    with pytest.raises(PositionConflictError) as raised:
        refuse_lost(None, begun, request(run(2)), STORE)
    said = str(raised.value)
    assert "run day-1 of orders.land has begun epoch e1 at 2026-01-01" in said
    assert "another Airflow works with the same staging area" in said


def test_a_first_run_that_was_never_pinned_leaves_only_its_epoch(tmp_path: Path) -> None:
    """After a first run at `latest` that failed, task, transport and host are the next one's."""
    folder = StagingArea(UPath(tmp_path)).topic("00D1", "orders", "/event/Order__e")
    store = MappingStore({}, "orders")

    def first_run(host: str, **changes: str) -> Position:
        task, transport = changes["task"], changes["transport"]
        wanted = request(run(1, task=task), initial_replay="latest", transport=transport)
        session = Session(token=Secret("t"), instance_url=host, org_id="00D1")
        return open_position(wanted, session, folder, store, "area-1").position

    failed = first_run("https://old.example.com", task="land", transport="pubsub")
    begun = first_run("https://new.example.com", task="load", transport="streaming")
    assert (begun.epoch, begun.committed_at) == (failed.epoch, failed.committed_at)
    assert (begun.owner, begun.committed_by.task) == ("orders.load", "load")
    assert (begun.transport, begun.instance_url) == ("streaming", "https://new.example.com")


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
    refuse_stale(position(), landed, STORE)


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
        refuse_stale(position(), landed, STORE)
