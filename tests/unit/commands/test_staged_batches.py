from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.batches.position import replay_id_age
from airflow_provider_sfevents.commands import staged_batches
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.lease_holder import LeaseState
from airflow_provider_sfevents.staging.manifest import LossWindow
from tests.unit.commands.building import landed, nothing, part, staged
from tests.unit.positions.building import ORG, TOPIC, batch_after, begun
from tests.unit.staging.building import elsewhere, here

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.commands.staged_batches import BatchOverview
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.area import TopicFolder

AT = begun()


@pytest.fixture
def folder(tmp_path: Path) -> TopicFolder:
    return StagingArea(UPath(tmp_path)).topic(ORG, "load", TOPIC)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (nothing(AT), "nothing"),
        (nothing(AT, parts=(part("earliest", "0a"),)), "1 file kept"),
        (nothing(AT, parts=(part("earliest", "0a"), part("0a", "0b", 2))), "2 files kept"),
        (staged(AT), "staged"),
        (landed(AT), "landed"),
        (nothing(AT, holder=elsewhere(), verdict=LeaseState.DEAD), "nothing"),
    ],
)
def test_a_batch_has_a_state(batch: BatchOverview, expected: str) -> None:
    """The state follows from files, manifest, receipt and a live holder; a dead one is ignored."""
    assert staged_batches.state(batch, AT) == expected


def test_committed_is_what_the_position_has_passed() -> None:
    """Only a landed batch of the position's epoch, up to the position, is committed."""
    past = replace(AT, batch_number=1, replay_id="0a")
    assert staged_batches.state(landed(AT), past) == "committed"
    assert staged_batches.state(landed(AT), replace(past, epoch="e2")) == "landed"
    assert staged_batches.state(landed(AT), None) == "landed"


def test_the_holder_at_work_is_named() -> None:
    """A live holder, and one that cannot be seen from here, are named with their state."""
    fetching = nothing(AT, holder=elsewhere(), verdict=LeaseState.WATCH)
    assert staged_batches.state(fetching, AT).startswith("fetching: task load.fetch of run run-0")
    assert staged_batches.state(fetching, AT).endswith("(cannot be seen from this machine)")
    landing = staged(AT, holder=elsewhere(), verdict=LeaseState.ALIVE)
    assert staged_batches.state(landing, AT).startswith("landing: ")


def test_a_look_changes_nothing(folder: TopicFolder) -> None:
    """`look` finds lease and manifest, and creates no file or folder."""
    assert staged_batches.look(folder, "e1", 1) == nothing(AT)
    assert not folder.folder.exists()
    manifest = batch_after(AT)
    folder.batch("e1", 1).create_manifest(manifest)
    with folder.batch("e1", 1).take_lease(here()):
        seen = staged_batches.look(folder, "e1", 1)
    assert (seen.manifest, seen.verdict, seen.held) == (manifest, LeaseState.ALIVE, True)
    assert not staged_batches.look(folder, "e1", 1).held


def test_a_keepalive_point_counts_for_its_position_only(folder: TopicFolder) -> None:
    """A keepalive point counts for its epoch, batch number and start only."""
    keepalive_point = KeepalivePoint(
        epoch="e1", batch_number=0, replay_id="0f", seen_at="2026-01-02", after=AT.replay_id
    )
    folder.write_keepalive_point(keepalive_point)
    assert replay_id_age.keepalive_point_of(folder, AT) == keepalive_point
    assert replay_id_age.keepalive_point_of(folder, replace(AT, batch_number=1)) is None

    def plan(position: Position) -> object:
        seen = staged_batches.look(folder, "e1", 1)
        return recovery.plan(staged_batches.find(folder, position, seen))

    assert plan(AT) == recovery.FetchPlan(
        start=ReplayPoint(AT.replay_id), keepalive_points=tuple(map(ReplayPoint, ("0f",)))
    )
    loss = LossWindow(after="0f", start="latest", pinned="1a", at="2026-01-03", why="expired")
    assert plan(replace(AT, loss=loss)) == recovery.FetchPlan(start=ReplayPoint("1a"))
