"""What silence settles: after it the last transaction of the batch before is whole, though a bound may have cut it.

`spark/apply.py` holds such a transaction until an event of another key comes, or until a batch ends by silence. A batch without events is not
staged, so its silence is told of the batch before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import NotLanded

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.claims import Claim
    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

_SILENCE = "idle_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """A batch that has been applied but for its last transaction, which is whole.

    :param claim: of the batch after it: as long as it is held, nobody applies that one.
    """

    manifest: Manifest
    folder: BatchFolder
    claim: Claim


def is_due(ended_by: str, newest: Receipt | None) -> bool:
    """Whether an empty fetch has something to release.

    :param ended_by: how the fetch ended; a bound says nothing about what may still come.
    :param newest: receipt of the batch that the position stands at.
    """
    return ended_by == _SILENCE and newest is not None and newest.held > 0


def require_settled(manifest: Manifest, receipt: Receipt | None, where: str) -> None:
    """Make sure that the job has done it.

    :raises NotLanded: the receipt still says that something is held; the next silence tries again.
    """
    if receipt is None or receipt.held:
        raise NotLanded(
            f"The Spark job ended, but the receipt at {where} does not say that what is held of batch {manifest.batch_id} has been applied. "
            "Nothing is lost by it; run the task again."
        )
