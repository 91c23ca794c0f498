from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_sfevents.batches import restart
from airflow_provider_sfevents.exceptions import NotLanded, PositionConflict
from airflow_provider_sfevents.staging.manifest import LossWindow, Manifest, Part, Receipt

HERE, ANCHOR, NEXT, LATER = "0a", "0b", "0c", "0d"


def part(start: str, end: str, first_ordinal: int = 0, events: int = 5, claim: int = 1) -> Part:
    return Part(
        path=f"attempts/{claim:04d}/part-{first_ordinal:010d}.parquet",
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
    sequence=3,
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
    """With an empty folder the batch begins where the position stands."""
    assert restart.plan(restart.Found(position_start=HERE)) == restart.Fetch(start=HERE)


def test_anchor_is_the_start_when_nothing_was_kept() -> None:
    """A quiet topic goes on from its keepalive's replay id, so that the position cannot expire; its file still begins at the position."""
    planned = restart.plan(restart.Found(position_start=HERE, anchor=ANCHOR))
    assert planned == restart.Fetch(start=HERE, anchor=ANCHOR)
    assert (planned.ask, planned.resume) == (ANCHOR, HERE)


@pytest.mark.parametrize("anchor", ["", ANCHOR], ids=["no anchor", "an anchor that leads nowhere"])
def test_closed_files_are_kept_and_the_fetch_goes_on_after_them(anchor: str) -> None:
    """What was paid for is not fetched again, also when the anchor was written by somebody else meanwhile."""
    kept = (part(HERE, NEXT), part(NEXT, LATER, first_ordinal=5, events=2, claim=2))
    found = restart.Found(position_start=HERE, anchor=anchor, parts=kept[::-1])
    planned = restart.plan(found)
    assert planned == restart.Fetch(start=HERE, kept=kept)
    assert (planned.ask, planned.events, planned.bytes) == (LATER, 7, 70)


def test_files_that_start_at_the_anchor_are_kept() -> None:
    """An earlier release, which went on from an anchor, has left files that begin there."""
    kept = (part(ANCHOR, NEXT),)
    assert restart.plan(
        restart.Found(position_start=HERE, anchor=ANCHOR, parts=kept)
    ) == restart.Fetch(start=ANCHOR, kept=kept)


def test_an_anchor_moves_on_without_leaving_files_behind() -> None:
    """Files begin where the position stands, whichever anchor was subscribed at and whichever there is now."""
    kept = (part(HERE, NEXT),)
    found = restart.Found(position_start=HERE, anchor=ANCHOR, parts=kept)
    planned = restart.plan(found)
    assert planned == restart.Fetch(start=HERE, kept=kept)
    assert (planned.ask, planned.resume) == (NEXT, NEXT)


def test_an_anchor_after_kept_files_is_where_to_subscribe() -> None:
    """A wait that has some events and then hears only keepalives for days goes on from these."""
    kept = (part(HERE, NEXT),)
    found = restart.Found(position_start=HERE, anchor=ANCHOR, anchor_after=NEXT, parts=kept)
    planned = restart.plan(found)
    assert planned == restart.Fetch(start=HERE, kept=kept, anchor=ANCHOR)
    assert (planned.ask, planned.resume) == (ANCHOR, NEXT)


@pytest.mark.parametrize("after", [NEXT, LATER], ids=["a file that is lost", "an end of before"])
def test_an_anchor_after_other_files_does_not_count(after: str) -> None:
    """What lies between the files there are and such an anchor is not known, so nothing is skipped for it."""
    assert restart.plan(
        restart.Found(position_start=HERE, anchor=ANCHOR, anchor_after=after)
    ) == restart.Fetch(start=HERE)


def test_files_that_nothing_leads_to_are_left_out() -> None:
    """A file that does not join the start is not part of the batch."""
    found = restart.Found(position_start=HERE, parts=(part(NEXT, LATER, first_ordinal=5),))
    assert restart.plan(found) == restart.Fetch(start=HERE)


def test_a_staged_batch_is_adopted() -> None:
    """With a manifest nothing is fetched."""
    assert restart.plan(restart.Found(position_start=HERE, manifest=MANIFEST)) == restart.Adopt(
        manifest=MANIFEST
    )


def test_a_landed_batch_is_only_committed() -> None:
    """With a receipt that adds up Spark is not started again."""
    found = restart.Found(position_start=HERE, manifest=MANIFEST, receipt=RECEIPT)
    assert restart.plan(found) == restart.Commit(manifest=MANIFEST, receipt=RECEIPT)


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
    """A receipt counts only when its rows and quarantined equal the manifest's events."""
    found = restart.Found(position_start=HERE, manifest=MANIFEST, receipt=receipt)
    assert restart.plan(found) == restart.Adopt(manifest=MANIFEST)
    with pytest.raises(NotLanded, match="does not prove that batch e1-3 landed"):
        restart.require_landed(MANIFEST, receipt, "here")


def test_no_receipt_is_not_landed() -> None:
    """A job that succeeded without a receipt has landed nothing."""
    with pytest.raises(NotLanded, match=r"no receipt at lake/landed\.json.*position\s+stays"):
        restart.require_landed(MANIFEST, None, "lake/landed.json")


def test_a_manifest_for_another_place_is_refused() -> None:
    """A replay id changed by hand within its epoch never silently adopts what was fetched from elsewhere."""
    with pytest.raises(PositionConflict, match="staged from 0a, but the position stands at 0d"):
        restart.plan(restart.Found(position_start=LATER, manifest=MANIFEST))


def test_a_loss_window_stands_in_the_positions_stead() -> None:
    """After the bus has refused the position, the batch begins where the user chose, with what was kept there."""
    loss = LossWindow(after=HERE, start="earliest", at="now", why="expired")
    kept = part("earliest", NEXT)
    found = restart.Found(position_start=HERE, loss=loss, parts=(part(HERE, LATER), kept))
    assert restart.plan(found) == restart.Fetch(start="earliest", kept=(kept,), loss=loss)


def test_duplicates_count_as_landed() -> None:
    """An event that was left out, since its like has landed, is accounted for."""
    assert restart.is_landed(MANIFEST, replace(RECEIPT, tables={"t": 2}, duplicates=2))
    assert not restart.is_landed(MANIFEST, replace(RECEIPT, duplicates=2))
    assert not restart.is_landed(MANIFEST, None)


def test_another_form_of_the_batch_that_landed_counts_as_it_landed() -> None:
    """A receipt of another end, from a worker with a staging area of its own, is judged by its own count."""
    other = replace(RECEIPT, events=3, end="0b", tables={"t": 3}, quarantined=0)
    assert restart.is_landed(MANIFEST, other)
    landed = restart.as_landed(MANIFEST, other)
    assert (landed.end, landed.events, landed.start) == ("0b", 3, HERE)
    assert not restart.is_landed(MANIFEST, replace(other, tables={"t": 2}))
    assert restart.as_landed(MANIFEST, replace(RECEIPT, end=NEXT)) == MANIFEST
