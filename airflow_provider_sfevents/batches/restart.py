"""What an attempt at a batch finds in the staging area, and what it does about it. Values in, a plan out.

1. A receipt that matches the manifest: the batch is landed; only its commit is missing.
2. A manifest: the batch is staged; adopt it, fetch nothing, land it (again).
3. Closed files without a manifest: keep the longest chain of them and go on after it.
4. Nothing: start at the anchor while it is this position's, else at the position.

Whatever was found must stem from where the position stands now; otherwise somebody moved it by hand within its
epoch, and nothing is safe to assume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import NotLanded, PositionConflict
from airflow_provider_sfevents.staging.chain import chain

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.manifest import Manifest, Part, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the folder of the batch after the position holds.

    :param position_start: where the position stands, in text form.
    :param anchor: replay id of a keepalive that counts for this very position, hex, or empty.
    """

    position_start: str
    anchor: str = ""
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
    """Ask the bus for what comes after `resume`; the batch begins at `start` with `kept`."""

    start: str
    kept: tuple[Part, ...] = ()

    @property
    def resume(self) -> str:
        return self.kept[-1].end if self.kept else self.start

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
            f"{found.position_start}: it was changed by hand. Write it with a new `epoch` (any new word), which leaves "
            "that batch behind, or put the old replay id back."
        )
    if found.receipt is not None and not mismatch(found.manifest, found.receipt):
        return Commit(manifest=found.manifest, receipt=found.receipt)
    return Adopt(manifest=found.manifest)


def mismatch(manifest: Manifest, receipt: Receipt) -> str:
    """Why the receipt does not prove that the batch landed; empty when it does."""
    if receipt.batch_id != manifest.batch_id:
        return f"it is for batch {receipt.batch_id}"
    rows = sum(receipt.tables.values())
    if rows + receipt.quarantined != manifest.events:
        return (
            f"{rows} rows landed and {receipt.quarantined} quarantined do not add up to the "
            f"{manifest.events} events staged"
        )
    return ""


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
    """Start where something was kept already, so that it is not delivered a second time."""
    starts = [start for start in (found.anchor, found.position_start) if start]
    chains = [Fetch(start=start, kept=chain(start, found.parts)) for start in starts]
    return max(chains, key=lambda fetch: fetch.events)
