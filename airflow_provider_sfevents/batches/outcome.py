"""Request for a batch, and its outcome. Values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.topic_names import TransportName
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.batches.open_transaction import OpenTransaction
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.leases import Lease
    from airflow_provider_sfevents.staging.manifest import LossWindow, Manifest, Receipt

LEARN_SECONDS = 280.0
"""Seconds for which `idle_seconds` does not end a batch that has no replay id yet.

The service sends a keepalive within 270 s (Pub/Sub API, Subscribe RPC); 10 s are added for the
network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """Request of a task for a batch.

    :param initial_replay: where the first run starts: `earliest`, `latest` or a replay id in hex.
    :param replay_fallback: where to continue when the bus refuses the replay id: `fail`, `earliest`
        or `latest`.
    :param announced_batch: id of the batch whose events were announced to the task; empty: none.
    :param run: the task.
    :param cleared: the run was cleared.
    :param backfill: the run belongs to a backfill.
    :param learn_seconds: as `LEARN_SECONDS`.
    :param managed: id or developer name of the managed subscription to fetch from; empty: subscribe
        to the topic at the position's replay id.
    :param allow_latest_recovery: accept a managed subscription that recovers at LATEST, which may
        lose events silently.
    :param transport: API that the topic is read by: a value of `TransportName`.
    :param owns: the task fetches and owns the position; a wait neither checks the owner nor becomes
        it.
    """

    topic: str
    consumer: str
    bounds: Bounds = field(default_factory=Bounds)
    announced_batch: str = ""
    run: Run = field(default_factory=Run)
    initial_replay: str = "earliest"
    replay_fallback: str = "fail"
    cleared: bool = False
    backfill: bool = False
    learn_seconds: float = LEARN_SECONDS
    owns: bool = True
    managed: str = ""
    allow_latest_recovery: bool = False
    transport: str = TransportName.PUBSUB.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """End of a fetch.

    :param ended_by: name of a bound, `stopped`, `lost` or `error`.
    :param latest_replay_id: of the last event or keepalive, hex; empty when nothing came.
    :param short_silence: as in the manifest.
    :param beyond_bound: number of events beyond the batch that memory had no room for.
    :param beyond: events beyond the batch.
    """

    ended_by: str
    latest_replay_id: str = ""
    last_event_at: str = ""
    error: str = ""
    short_silence: bool = False
    beyond_bound: int = 0
    beyond: tuple[Delivery, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A staged batch, whose lease this process holds until `release`.

    :param staging_id: of the staging area that holds it.
    :param reused: the batch was reused: an earlier attempt had staged it, and nothing was fetched.
    :param landed: it has a receipt that adds up; only its commit is missing.
    :param rerun: a rerun lands its own batch again; the position is beyond it and stays.
    """

    manifest: Manifest
    topic_folder: TopicFolder
    folder: BatchFolder
    lease: Lease
    store: PositionStore
    staging_id: str
    reused: bool = False
    landed: bool = False
    rerun: bool = False

    def extra_deliveries(self) -> dict[str, int]:
        """Return the extra deliveries by cause, also those counted after the manifest. Blocks."""
        return self.folder.extra_deliveries_of(self.manifest)

    def release(self) -> None:
        self.lease.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """Outcome of a fetch without events; nothing was staged.

    :param position: the position that the batch would follow.
    :param start: replay point after which no event came.
    :param open_transaction: batch whose open transaction can be flushed now; None: none. If there
        is one, the next batch's lease is held until `release`.
    """

    batch_id: str
    position: Position
    start: str
    ended_by: str
    open_transaction: OpenTransaction | None = None

    def release(self) -> None:
        if self.open_transaction is not None:
            self.open_transaction.lease.release()

    def result(self) -> dict[str, Any]:
        batch_number = self.position.batch_number + 1
        return _result(self.position, self.batch_id, batch_number, ended_by=self.ended_by)


def result(
    manifest: Manifest,
    manifest_url: str,
    receipt: Receipt | None,
    *,
    extra_deliveries: Mapping[str, int],
    reused: bool,
    rerun: bool = False,
) -> dict[str, Any]:
    """Build a task's result for the tasks after it; plain JSON, without a secret.

    :param extra_deliveries: extra deliveries by cause.
    :param receipt: of the landed batch, with the counts of its tables and columns; without one they
        are empty. The receipt of an applied batch adds `applied`.
    """
    return _result(
        manifest,
        manifest.batch_id,
        manifest.batch_number,
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
        extra_deliveries=extra_deliveries,
        reused=reused,
        rerun=rerun,
    )


def _result(
    of: Manifest | Position,
    batch_id: str,
    batch_number: int,
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
    extra_deliveries: Mapping[str, int] | None = None,
    reused: bool = False,
    rerun: bool = False,
) -> dict[str, Any]:
    return {
        "org_id": of.org_id,
        "topic": of.topic,
        "consumer": of.consumer,
        "batch_id": batch_id,
        "batch_number": batch_number,
        "manifest": manifest,
        "events": events,
        "bytes": size,
        "ended_by": ended_by,
        "quarantined": quarantined,
        "duplicates": duplicates,
        "tables": dict(tables or {}),
        "drift": [dict(change) for change in drift],
        "losses": [asdict(window) for window in losses],
        "extra_deliveries": dict(extra_deliveries or {}),
        "reused": reused,
        "rerun": rerun,
        **({} if applied is None else {"applied": dict(applied)}),
    }
