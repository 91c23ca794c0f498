"""Writes the last error of a watcher to an Airflow Variable, for the page and the doctor.

It is written with a new error and when the watcher listens again, not with each try. A failure to
write it does not stop the watcher.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow.sdk import Variable
from airflow.sdk.log import redact

from airflow_provider_sfevents.positions.watch_error import WatchError, watch_error_key

if TYPE_CHECKING:
    from datetime import datetime

log = logging.getLogger(__name__)


def keep_watch_error(consumer: str, topic: str, message: str, at: datetime) -> None:
    """Keep the error of a watcher, or that it listens again. Blocks.

    :param message: empty: it listens again.
    """
    key = watch_error_key(consumer, topic)
    try:
        if message:
            error = WatchError.of(str(redact(message)), at.isoformat())
        else:
            before = WatchError.from_json(Variable.get(key, default="") or "")
            if before is None or before.ended_at:
                return
            error = replace(before, ended_at=at.isoformat())
        Variable.set(
            key, error.to_json(), description=f"Last error of a watcher of {topic} (sfevents)"
        )
    except Exception as failure:  # noqa: BLE001 - the watcher must go on
        log.warning("The watcher's state could not be kept in Variable %s: %s", key, failure)
