"""Flush of an open transaction: `idle_seconds` without an event show that it is complete.

`spark/apply.py` holds back the last transaction of a batch, because a bound may have cut it. It
applies the transaction when an event of another key comes, or when a batch ends by `idle_seconds`.
An announced batch ends so, too, after `settle_seconds` without an event (`pubsub/bounds.py`). A
batch without events is not staged, so its end is applied to the batch before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import NotLandedError

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.leases import Lease
    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

_SILENCE = "idle_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A batch that has been applied except for its last transaction, which is complete now.

    :param lease: lease of the batch after it; while it is held, no other task applies that one.
    """

    manifest: Manifest
    folder: BatchFolder
    lease: Lease


def is_due(ended_by: str, newest: Receipt | None) -> bool:
    """Return whether an empty fetch allows a flush.

    :param ended_by: how the fetch ended; only `idle_seconds` shows that the transaction is
        complete.
    :param newest: receipt of the batch that the position is at.
    """
    return ended_by == _SILENCE and newest is not None and newest.open_events > 0


def require_flushed(manifest: Manifest, receipt: Receipt | None, where: str) -> None:
    """Check that the job has applied the open transaction.

    :raises NotLandedError: the receipt still counts events that are held back; the next empty fetch
        tries again.
    """
    if receipt is None or receipt.open_events:
        raise NotLandedError(
            f"The Spark job ended, but the receipt at {where} does not say that the open "
            f"transaction of batch {manifest.batch_id} has been applied. Nothing is lost; run the "
            "task again."
        )
