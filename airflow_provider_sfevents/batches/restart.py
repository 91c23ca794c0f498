"""What an attempt at a batch finds in the staging area, and what it does about it. Values in, a plan out.

1. A receipt that matches the manifest: the batch is landed; only its commit is missing.
2. A manifest: the batch is staged; adopt it, fetch nothing, land it (again).
3. Closed files without a manifest: keep the longest chain of them and go on after it.
4. Nothing: start at the position.
5. A loss window: as 3 and 4, but in the position's stead stands the place that was chosen when the bus refused it.
6. An anchor of this position that follows the last file kept, or the position itself: subscribe there. Nothing lies in between, so the
   next file still begins where the one before it ended, however often the anchor moves on meanwhile.

Whatever was found must stem from where the position stands now; otherwise somebody moved it by hand within its
epoch, and nothing is safe to assume.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import NotLanded, PositionConflict
from airflow_provider_sfevents.staging.chain import chain

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.manifest import LossWindow, Manifest, Part, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the folder of the batch after the position holds.

    :param position_start: where the position stands, in text form.
    :param anchor: replay id of a keepalive that counts for this very position, hex, or empty.
    :param anchor_after: end of the last file that was kept when the keepalive came, hex, or empty.
    :param loss: the bus refused the position's replay id, and the batch begins elsewhere.
    """

    position_start: str
    anchor: str = ""
    anchor_after: str = ""
    loss: LossWindow | None = None
    manifest: Manifest | None = None
    receipt: Receipt | None = None
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The batch is landed: move the position."""

    manifest: Manifest
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """The batch is staged: launch Spark on it."""

    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Ask the bus for what comes after `resume`; the batch begins at `start` with `kept`, and after `loss`.

    :param anchor: a fresher place than `resume`, with nothing in between; hex, or empty.
    """

    start: str
    kept: tuple[Part, ...] = ()
    loss: LossWindow | None = None
    anchor: str = ""

    @property
    def resume(self) -> str:
        """Where the next file begins."""
        return self.kept[-1].end if self.kept else self.start

    @property
    def ask(self) -> str:
        """Where to subscribe."""
        return self.anchor or self.resume

    @property
    def events(self) -> int:
        return sum(part.events for part in self.kept)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.kept)


def plan(found: Found) -> Commit | Adopt | Fetch:
    """What to do next.

    :raises PositionConflict: when a manifest was made for another place than the position's.
    """
    if found.manifest is None:
        return _fetch(found)
    if found.manifest.position_start != found.position_start:
        raise PositionConflict(
            f"batch {found.manifest.batch_id} is staged from {found.manifest.position_start}, but the position stands at "
            f"{found.position_start}: it was changed by hand. `airflow sfevents position set "
            f"{found.manifest.consumer} {found.manifest.topic} <replay id> --abandon-staged` begins a new epoch and leaves that batch behind; "
            f"or put {found.manifest.position_start} back."
        )
    if found.receipt is not None and not mismatch(found.manifest, found.receipt):
        return Commit(manifest=found.manifest, receipt=found.receipt)
    return Adopt(manifest=found.manifest)


def is_landed(manifest: Manifest, receipt: Receipt | None) -> bool:
    """Whether there is a receipt, and it adds up."""
    return receipt is not None and not mismatch(manifest, receipt)


def mismatch(manifest: Manifest, receipt: Receipt) -> str:
    """Why the receipt does not prove that the batch landed; empty when it does."""
    if receipt.batch_id != manifest.batch_id:
        return f"it is for batch {receipt.batch_id}"
    staged = as_landed(manifest, receipt).events
    rows = sum(receipt.tables.values())
    if rows + receipt.quarantined + receipt.duplicates != staged:
        return (
            f"{rows} rows landed, {receipt.quarantined} quarantined and {receipt.duplicates} duplicates do not add up to the "
            f"{staged} events staged"
        )
    return ""


def as_landed(manifest: Manifest, receipt: Receipt) -> Manifest:
    """The batch as it has landed: with the end and the count of the form that landed first, should that be another one.

    Two workers with staging areas of their own may each have fetched the batch, and ended at different events. What lies beyond the
    end of the one that landed belongs to the next batch.
    """
    if not receipt.end or (receipt.end, receipt.events) == (manifest.end, manifest.events):
        return manifest
    return replace(manifest, end=receipt.end, events=receipt.events, last_event_at="")


def require_landed(manifest: Manifest, receipt: Receipt | None, where: str) -> Receipt:
    """:raises NotLanded: without a receipt that adds up; a job that only succeeded has landed nothing."""
    if receipt is None:
        raise NotLanded(
            f"the Spark job left no receipt at {where}, so batch {manifest.batch_id} counts as not landed and the "
            "position stays. A job of your own writes one with airflow_provider_sfevents.spark.write_receipt."
        )
    if why := mismatch(manifest, receipt):
        raise NotLanded(
            f"the receipt at {where} does not prove that batch {manifest.batch_id} landed: {why}. "
            "The position stays; mend the job and run the task again."
        )
    return receipt


def _fetch(found: Found) -> Fetch:
    """Go on where something was kept already, so that it is not delivered a second time."""
    place = found.loss.start if found.loss else found.position_start
    longest = Fetch(start=place, kept=chain(place, found.parts), loss=found.loss)
    if found.anchor and not found.anchor_after:
        # Files that were staged before 6. was the rule begin at the anchor of their time.
        old = Fetch(start=found.anchor, kept=chain(found.anchor, found.parts), loss=found.loss)
        longest = max(longest, old, key=lambda fetch: fetch.events)
    end = longest.kept[-1].end if longest.kept else ""
    return replace(longest, anchor=found.anchor) if found.anchor_after == end else longest
