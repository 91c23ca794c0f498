from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.batches import recovery
from airflow_provider_sfevents.exceptions import NotLandedError, PositionConflictError
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt

HERE, KEEPALIVE_POINT, NEXT, LATER = "0a", "0b", "0c", "0d"


def found(**changes: Any) -> recovery.BatchContents:
    """Build the content of the folder of the batch after a position at `HERE`."""
    return replace(recovery.BatchContents(position_start=HERE, start=ReplayPoint(HERE)), **changes)


def keepalive_point(after: str = HERE, replay_id: str = KEEPALIVE_POINT) -> KeepalivePoint:
    """Build a keepalive point of that position."""
    return KeepalivePoint(
        epoch="e1", batch_number=2, replay_id=replay_id, seen_at="2026-01-01", after=after
    )


def part(start: str, end: str, first_ordinal: int = 0, events: int = 5, lease: int = 1) -> Part:
    return Part(
        path=f"attempts/{lease:04d}/part-{first_ordinal:010d}.parquet",
        start=start,
        end=end,
        first_ordinal=first_ordinal,
        events=events,
        bytes=events * 10,
        sha256="",
        schemas=("s",),
    )


MANIFEST = Manifest(
    org_id="00D000000000001AAA",
    instance_url="https://acme.my.salesforce.com",
    topic="/event/Order__e",
    consumer="orders",
    epoch="e1",
    batch_number=3,
    batch_id="e1-3",
    position_start=HERE,
    start=HERE,
    end=NEXT,
    events=5,
    bytes=50,
    ended_by="max_events",
    parts=(part(HERE, NEXT),),
    schemas=("s",),
    created_at="2026-01-01T00:00:00+00:00",
)
RECEIPT = Receipt(
    batch_id="e1-3",
    events=5,
    tables={"lake/Order__e": 4},
    quarantined=1,
    written_at="2026-01-01T00:00:00+00:00",
)


def test_nothing_found_fetches_from_the_position() -> None:
    """With an empty folder the batch begins at the position."""
    assert recovery.plan(found()) == recovery.FetchPlan(start=ReplayPoint(HERE))


def test_a_keepalive_point_is_asked_for_when_nothing_was_kept() -> None:
    """A quiet topic is subscribed at its keepalive point; its file begins at the position."""
    planned = recovery.plan(found(keepalive_points=(keepalive_point(),)))
    assert planned == recovery.FetchPlan(
        start=ReplayPoint(HERE), keepalive_points=tuple(map(ReplayPoint, (KEEPALIVE_POINT,)))
    )
    assert (planned.subscribe_at.to_text(), planned.resume.to_text()) == (KEEPALIVE_POINT, HERE)


def test_the_freshest_keepalive_point_is_asked_for_first() -> None:
    """The freshest of several keepalive points is used first; the others are a fallback."""
    planned = recovery.plan(
        found(keepalive_points=(keepalive_point(replay_id=LATER), keepalive_point()))
    )
    assert planned == recovery.FetchPlan(
        start=ReplayPoint(HERE), keepalive_points=tuple(map(ReplayPoint, (LATER, KEEPALIVE_POINT)))
    )
    assert planned.subscribe_at.to_text() == LATER


@pytest.mark.parametrize(
    "keepalive_points", [(), (keepalive_point(),)], ids=["no anchor", "an anchor of before"]
)
def test_closed_files_are_kept_and_the_fetch_goes_on_after_them(
    keepalive_points: tuple[KeepalivePoint],
) -> None:
    """A fetch continues after the closed files; a keepalive point before them does not count."""
    kept = (part(HERE, NEXT), part(NEXT, LATER, first_ordinal=5, events=2, lease=2))
    planned = recovery.plan(found(keepalive_points=keepalive_points, parts=kept[::-1]))
    assert planned == recovery.FetchPlan(start=ReplayPoint(HERE), kept=kept)
    assert (planned.subscribe_at.to_text(), planned.events, planned.bytes) == (LATER, 7, 70)


def test_a_keepalive_point_after_kept_files_is_where_to_subscribe() -> None:
    """A fetch subscribes at a keepalive point that follows the kept files."""
    kept = (part(HERE, NEXT),)
    planned = recovery.plan(found(keepalive_points=(keepalive_point(after=NEXT),), parts=kept))
    assert planned == recovery.FetchPlan(
        start=ReplayPoint(HERE),
        kept=kept,
        keepalive_points=tuple(map(ReplayPoint, (KEEPALIVE_POINT,))),
    )
    assert (planned.subscribe_at.to_text(), planned.resume.to_text()) == (KEEPALIVE_POINT, NEXT)


@pytest.mark.parametrize("after", [NEXT, LATER], ids=["a file that is lost", "an end of before"])
def test_a_keepalive_point_after_other_files_does_not_count(after: str) -> None:
    """A keepalive point that follows other files does not count: events may be in between."""
    assert recovery.plan(
        found(keepalive_points=(keepalive_point(after=after),))
    ) == recovery.FetchPlan(start=ReplayPoint(HERE))


@pytest.mark.parametrize("events", [1, 5], ids=["shorter", "as long"])
def test_a_batch_begins_with_the_file_that_holds_the_pinning_event(events: int) -> None:
    """The file that starts at `latest` is kept, and files after the pinning event are not."""
    pinning = part("latest", HERE, events=events, lease=2)
    planned = recovery.plan(found(parts=(part(HERE, NEXT), pinning)))
    assert planned == recovery.FetchPlan(start=ReplayPoint(HERE), kept=(pinning,))
    assert planned.subscribe_at.to_text() == HERE


@pytest.mark.parametrize(
    ("kept", "lacks"),
    [((), True), ((part(HERE, NEXT),), True), ((part("latest", HERE),), False)],
    ids=["nothing", "later events", "the pinning event"],
)
def test_a_plan_says_if_the_event_that_pinned_it_is_lacking(
    kept: tuple[Part, ...], lacks: bool
) -> None:
    """The plan says that the pinning event is lost if no file holds it."""
    planned = recovery.plan(found(pinned_by_event=True, parts=kept))
    assert planned == recovery.FetchPlan(start=ReplayPoint(HERE), kept=kept, lacks_first=lacks)


def test_a_position_read_at_latest_keeps_no_file() -> None:
    """A position read at `latest` keeps no file: a file means that it was pinned later."""
    planned = recovery.plan(
        found(position_start="latest", start=LATEST, parts=(part("latest", HERE),))
    )
    assert planned == recovery.FetchPlan(start=LATEST)


def test_files_that_nothing_leads_to_are_left_out() -> None:
    """A file that does not follow the batch's start is not part of the batch."""
    orphan = part(NEXT, LATER, first_ordinal=5)
    assert recovery.plan(found(parts=(orphan,))) == recovery.FetchPlan(start=ReplayPoint(HERE))


def test_a_staged_batch_is_reused() -> None:
    """A batch with a manifest is reused, and nothing is fetched."""
    assert recovery.plan(found(manifest=MANIFEST)) == recovery.ReusePlan(manifest=MANIFEST)


def test_a_landed_batch_is_only_committed() -> None:
    """A batch whose receipt adds up is committed without a new Spark job."""
    landed = found(manifest=MANIFEST, receipt=RECEIPT)
    assert recovery.plan(landed) == recovery.CommitPlan(manifest=MANIFEST, receipt=RECEIPT)


@pytest.mark.parametrize(
    "receipt",
    [
        replace(RECEIPT, quarantined=0),
        replace(RECEIPT, batch_id="e1-2"),
        replace(RECEIPT, tables={}),
    ],
    ids=["a row short", "of another batch", "without tables"],
)
def test_a_receipt_that_does_not_add_up_lands_again(receipt: Receipt) -> None:
    """A receipt counts only if its rows and quarantined events equal the manifest's events."""
    landed = found(manifest=MANIFEST, receipt=receipt)
    assert recovery.plan(landed) == recovery.ReusePlan(manifest=MANIFEST)
    with pytest.raises(NotLandedError, match="does not prove that batch e1-3 landed"):
        recovery.require_landed(MANIFEST, receipt, "here")


def test_a_manifest_for_another_place_is_refused() -> None:
    """A batch that was staged from another replay id than the position's is refused."""
    with pytest.raises(PositionConflictError, match="staged from 0a, but the position is at 0d"):
        recovery.plan(found(position_start=LATER, start=ReplayPoint(LATER), manifest=MANIFEST))


def test_after_a_loss_window_files_of_before_are_left() -> None:
    """After a loss window, a batch keeps only files that begin at the user's choice."""
    kept = part("earliest", NEXT)
    planned = recovery.plan(found(start=EARLIEST, parts=(part(HERE, LATER), kept)))
    assert planned == recovery.FetchPlan(start=EARLIEST, kept=(kept,))


def test_a_batch_after_a_loss_window_is_reused() -> None:
    """A staged batch after a loss window is reused: its manifest has the position's replay id."""
    manifest = replace(MANIFEST, start="earliest")
    planned = recovery.plan(found(start=EARLIEST, manifest=manifest))
    assert planned == recovery.ReusePlan(manifest=manifest)


def test_duplicates_count_as_landed() -> None:
    """Duplicates count as landed when a receipt is added up."""
    assert recovery.is_landed(MANIFEST, replace(RECEIPT, tables={"t": 2}, duplicates=2))
    assert not recovery.is_landed(MANIFEST, replace(RECEIPT, duplicates=2))
    assert not recovery.is_landed(MANIFEST, None)


def test_another_form_of_the_batch_that_landed_counts_as_it_landed() -> None:
    """A receipt with another end, of another staging area, is judged by its own count."""
    other = replace(RECEIPT, events=3, end="0b", tables={"t": 3}, quarantined=0)
    assert recovery.is_landed(MANIFEST, other)
    landed = recovery.as_landed(MANIFEST, other)
    assert (landed.end, landed.events, landed.start) == ("0b", 3, HERE)
    assert not recovery.is_landed(MANIFEST, replace(other, tables={"t": 2}))
    assert recovery.as_landed(MANIFEST, replace(RECEIPT, end=NEXT)) == MANIFEST


def test_the_count_of_what_landed_counts_though_it_ended_at_the_same_event() -> None:
    """A landed form with the same end and another count replaces the manifest's count."""
    at = "2026-01-01T00:00:00+00:00"
    manifest = replace(MANIFEST, begun_at=at, last_event_at=at)
    landed = recovery.as_landed(manifest, replace(RECEIPT, end=NEXT, events=4))
    assert (landed.events, landed.end, landed.begun_at, landed.last_event_at) == (4, NEXT, "", "")
