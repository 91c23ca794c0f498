"""Request for a batch, and its outcome. Values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.batches.settling import Settling
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.claims import Claim
    from airflow_provider_sfevents.staging.manifest import LossWindow, Manifest, Receipt

LEARN_SECONDS = 280.0
"""How long silence may not end a batch where nothing is known of its place yet. The service sends a keepalive within
270 s (Pub/Sub API, Subscribe RPC); 10 s are for the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """What a task wants of the batch it asks for.

    :param initial_replay: where the first run starts: `earliest`, `latest` or a replay id in hex.
    :param replay_fallback: where to go on when the bus refuses the replay id: `fail`, `earliest` or `latest`.
    :param run: the task that asks.
    :param cleared: somebody cleared the run.
    :param backfill: the run is one of a backfill.
    :param managed: id or developer name of the managed subscription to fetch from; empty: from the topic, at a place of our own.
    :param allow_latest_recovery: of that one; it may lose events without a word.
    :param owns: the task fetches, and the position is its own; one that only waits neither asks for the owner nor becomes it.
    """

    topic: str
    consumer: str
    bounds: Bounds = field(default_factory=Bounds)
    run: Run = field(default_factory=Run)
    initial_replay: str = "earliest"
    replay_fallback: str = "fail"
    cleared: bool = False
    backfill: bool = False
    learn_seconds: float = LEARN_SECONDS
    owns: bool = True
    managed: str = ""
    allow_latest_recovery: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A batch that is staged, and claimed for this process until `release`.

    :param staging_id: of the staging area that holds it.
    :param adopted: an earlier attempt had staged it; nothing was fetched.
    :param landed: it has a receipt that adds up; only its commit is missing.
    :param again: a run of the past lands its own batch again; the position has been beyond it for long and stays.
    """

    manifest: Manifest
    topic_folder: TopicFolder
    folder: BatchFolder
    claim: Claim
    store: PositionStore
    staging_id: str
    adopted: bool = False
    landed: bool = False
    again: bool = False

    def excess(self) -> dict[str, int]:
        """Deliveries that brought nothing, by cause; what came after the manifest was written, too. Blocks."""
        return self.folder.excess_of(self.manifest)

    def release(self) -> None:
        self.claim.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """No event came; nothing was staged.

    :param position: that the batch would come after.
    :param start: replay point that no event came after.
    :param settling: what the silence means for the batch before; None: nothing. The coming batch is claimed then, until `release`.
    """

    batch_id: str
    position: Position
    start: str
    ended_by: str
    settling: Settling | None = None

    def release(self) -> None:
        if self.settling is not None:
            self.settling.claim.release()

    def result(self) -> dict[str, Any]:
        sequence = self.position.sequence + 1
        return _result(self.position, self.batch_id, sequence, ended_by=self.ended_by)


def result(
    manifest: Manifest,
    manifest_url: str,
    receipt: Receipt | None,
    *,
    excess: Mapping[str, int],
    adopted: bool,
    again: bool = False,
) -> dict[str, Any]:
    """What a task tells those after it; plain JSON, without a secret.

    :param excess: deliveries that brought the batch nothing, by cause.
    :param receipt: of the landed batch; without one nothing is said of tables and of their columns. Of one that was applied, too, the
        counts are there.
    """
    return _result(
        manifest,
        manifest.batch_id,
        manifest.sequence,
        manifest=manifest_url,
        events=receipt.events if receipt else manifest.events,
        size=manifest.bytes,
        ended_by=manifest.ended_by,
        quarantined=receipt.quarantined if receipt else 0,
        duplicates=receipt.duplicates if receipt else 0,
        tables=receipt.tables if receipt else {},
        applied=receipt.applied if receipt else None,
        drift=receipt.drift if receipt else [],
        losses=manifest.losses,
        excess=excess,
        adopted=adopted,
        again=again,
    )


def _result(
    of: Manifest | Position,
    batch_id: str,
    sequence: int,
    *,
    ended_by: str,
    manifest: str | None = None,
    events: int = 0,
    size: int = 0,
    quarantined: int = 0,
    duplicates: int = 0,
    tables: dict[str, int] | None = None,
    applied: dict[str, int] | None = None,
    drift: Sequence[Mapping[str, Any]] = (),
    losses: tuple[LossWindow, ...] = (),
    excess: Mapping[str, int] | None = None,
    adopted: bool = False,
    again: bool = False,
) -> dict[str, Any]:
    return {
        "org_id": of.org_id,
        "topic": of.topic,
        "consumer": of.consumer,
        "batch_id": batch_id,
        "sequence": sequence,
        "manifest": manifest,
        "events": events,
        "bytes": size,
        "ended_by": ended_by,
        "quarantined": quarantined,
        "duplicates": duplicates,
        "tables": dict(tables or {}),
        "drift": [dict(change) for change in drift],
        "losses": [asdict(window) for window in losses],
        "excess": dict(excess or {}),
        "adopted": adopted,
        "again": again,
        **({} if applied is None else {"applied": dict(applied)}),
    }
