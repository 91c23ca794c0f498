"""Decide what an attempt at a batch does with its content in the staging area. Pure.

1. A receipt that matches the manifest: the batch has landed; only its commit is missing.
2. A manifest: the batch is staged; reuse it, fetch nothing, land it (again).
3. Closed files without a manifest: keep the longest chain of them and continue after it.
4. Nothing: begin at the position.
5. A keepalive point of this position that follows exactly the last file kept, or the start of the
   batch: subscribe after it. There is no event in between. So the next file still begins where the
   one before it ended, however often the keepalive point moves.
6. An event pinned the position, and no file holds it: the task that received it died before it
   closed the file. The bus delivers only later events, so the batch records a loss window.

A manifest must begin at the position's replay id. Otherwise the position was moved by hand within
its epoch, and the attempt is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.command_lines import command_line
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import NotLandedError, PositionConflictError
from airflow_provider_sfevents.pubsub.bounds import StagedProgress
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint
from airflow_provider_sfevents.staging.parts.part_chain import chain

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
    from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchContents:
    """Content of the folder of the batch after the position.

    :param position_start: the position's replay id, or `earliest` or `latest`.
    :param start: replay point at which the batch begins.
    :param keepalive_points: keepalive points of this position, the freshest first.
    :param pinned_by_event: `start` is the replay id of the batch's first event.
    """

    position_start: str
    start: ReplayPoint
    keepalive_points: tuple[KeepalivePoint, ...] = ()
    pinned_by_event: bool = False
    manifest: Manifest | None = None
    receipt: Receipt | None = None
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """The batch has landed: move the position."""

    manifest: Manifest
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusePlan:
    """The batch is staged: launch Spark on it."""

    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlan:
    """Fetch the events after `resume`; the batch begins at `start` with `kept`.

    :param keepalive_points: fresher replay points than `resume`, with no event in between; the
        freshest first.
    :param until_reached: the last of the kept events was created at or after the time that ends the
        batch.
    :param lacks_first: the event with the replay id `start` belongs to the batch, and is in no
        file.
    """

    start: ReplayPoint
    kept: tuple[Part, ...] = ()
    keepalive_points: tuple[ReplayPoint, ...] = ()
    lacks_first: bool = False
    until_reached: bool = False

    def within(self, max_events: int) -> tuple[FetchPlan, tuple[Part, ...]]:
        """Return the plan with no more events than a batch may have, and the files beyond.

        A file is kept whole, and the first one always.
        """
        count = 0
        for at, part in enumerate(self.kept):
            count += part.events
            if at and count > max_events:
                return replace(self, kept=self.kept[:at], keepalive_points=()), self.kept[at:]
        return self, ()

    @property
    def resume(self) -> ReplayPoint:
        """Replay point at which the next file begins."""
        return ReplayPoint.from_text(self.kept[-1].end) if self.kept else self.start

    @property
    def subscribe_at(self) -> ReplayPoint:
        """Replay point at which to subscribe."""
        return self.keepalive_points[0] if self.keepalive_points else self.resume

    @property
    def progress(self) -> StagedProgress:
        """Share of the batch's bounds that is staged already."""
        return StagedProgress(
            events=self.events, bytes=self.bytes, until_reached=self.until_reached
        )

    @property
    def events(self) -> int:
        return sum(part.events for part in self.kept)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.kept)


def plan(found: BatchContents) -> CommitPlan | ReusePlan | FetchPlan:
    """Return the next step.

    :raises PositionConflictError: the manifest begins at another replay id than the position's.
    """
    if found.manifest is None:
        return _fetch(found)
    if found.manifest.position_start != found.position_start:
        raise PositionConflictError(
            f"batch {found.manifest.batch_id} is staged from {found.manifest.position_start}, but "
            f"the position is at {found.position_start}: it was changed by hand. `airflow sfevents "
            f"position set {found.manifest.consumer} {found.manifest.topic} <replay id> "
            "--abandon-staged` begins a new epoch and abandons that batch; or put "
            f"{found.manifest.position_start} back."
        )
    if found.receipt is not None and not mismatch(found.manifest, found.receipt):
        return CommitPlan(manifest=found.manifest, receipt=found.receipt)
    return ReusePlan(manifest=found.manifest)


def described(topic: str, plan: FetchPlan, bounds: Bounds) -> str:
    """Describe a fetch for the log, before its first event: the replay point, and the bounds."""
    where = f"{'after' if plan.subscribe_at.is_replay_id else 'from'} {plan.subscribe_at}"
    first = f" ({bounds.learn_seconds:g} s for the first)" if bounds.learn_seconds else ""
    staged = f"; {plan.events} staged already" if plan.kept else ""
    silence = bounds.silence_seconds(plan.events)
    announced = (
        " (a sensor or watcher has announced the batch)" if silence < bounds.idle_seconds else ""
    )
    return (
        f"Fetching {topic} {where}, until nothing comes for {silence:g} s{announced}{first}, "
        f"{counted(bounds.max_events, 'event')} or {bounds.max_seconds:.4g} s at most{staged}."
    )


OFTEN = 4
"""Lease of a batch from which its task warns: three tries have ended without a commit."""


def tried_often(manifest: Manifest, lease: int, *, landed: bool) -> str:
    """Build the warning of a batch that no try has committed; empty if there were few.

    :param lease: number of this try's lease: each try takes one, and so does a wait.
    """
    if lease < OFTEN:
        return ""
    what = "its commit" if landed else "its landing"
    return (
        f"Batch {manifest.batch_id} was staged at {manifest.created_at} and is not committed after "
        f"{lease - 1} tries: {what} fails each time. The cause is in the logs of the tasks that "
        f"failed. Check the set-up: `{command_line('doctor', '--topic', manifest.topic)}`; see the "
        f"batch: `{command_line('batches', 'list', manifest.consumer, manifest.topic)}`. The "
        "events stay staged; Salesforce keeps the ones after them for a limited time only."
    )


def is_landed(manifest: Manifest, receipt: Receipt | None) -> bool:
    """Return whether there is a receipt that adds up."""
    return receipt is not None and not mismatch(manifest, receipt)


def mismatch(manifest: Manifest, receipt: Receipt) -> str:
    """Return why the receipt does not prove that the batch landed; empty if it does."""
    if receipt.batch_id != manifest.batch_id:
        return f"it is for batch {receipt.batch_id}"
    staged = as_landed(manifest, receipt).events
    rows = sum(receipt.tables.values())
    if rows + receipt.quarantined + receipt.duplicates != staged:
        return (
            f"{counted(rows, 'row')} landed, {receipt.quarantined} quarantined and "
            f"{counted(receipt.duplicates, 'duplicate')} do not add up to the "
            f"{counted(staged, 'event')} staged"
        )
    return ""


def as_landed(manifest: Manifest, receipt: Receipt) -> Manifest:
    """Return the batch as it has landed: with end and event count of the form that landed first.

    Two workers with separate staging areas may each have fetched the batch, and ended at different
    events. Events beyond the end of the landed form belong to the next batch. The beginning of its
    fetch and the time of its last event are unknown then, and empty.
    """
    if not receipt.end or (receipt.end, receipt.events) == (manifest.end, manifest.events):
        return manifest
    return replace(manifest, end=receipt.end, events=receipt.events, begun_at="", last_event_at="")


def require_landed(manifest: Manifest, receipt: Receipt | None, where: str) -> Receipt:
    """Return the receipt that proves the landing.

    :raises NotLandedError: it is missing or does not add up; a job that only succeeded has landed
        nothing.
    """
    if receipt is None:
        raise NotLandedError(
            f"the Spark job left no receipt at {where}, so batch {manifest.batch_id} counts as not "
            "landed and the position stays. A job of your own writes one with "
            "airflow_provider_sfevents.spark.write_receipt."
        )
    if why := mismatch(manifest, receipt):
        raise NotLandedError(
            f"the receipt at {where} does not prove that batch {manifest.batch_id} landed: {why}. "
            "The position stays; fix the job and run the task again."
        )
    return receipt


def _fetch(found: BatchContents) -> FetchPlan:
    """Continue after the files that are there, so that their events are not delivered twice.

    A file that starts at `latest` holds the event whose replay id the position got; a file that
    starts after that id does not. So if there is such a file, the batch begins with it. If the
    position was read at `latest`, that file is newer than the position: it is not used, and the
    task gives way when it pins.
    """
    from_pin: tuple[Part, ...] = ()
    kept: tuple[Part, ...] = ()
    if found.start != LATEST:
        from_pin = chain(LATEST.to_text(), found.parts)
        kept = from_pin or chain(found.start.to_text(), found.parts)
    lacks_first = found.pinned_by_event and not from_pin
    fetch = FetchPlan(start=found.start, kept=kept, lacks_first=lacks_first)
    resume = fetch.resume.to_text()
    here = [
        ReplayPoint.from_text(one.replay_id)
        for one in found.keepalive_points
        if one.after == resume
    ]
    return replace(fetch, keepalive_points=tuple(dict.fromkeys(here)))
