"""A managed subscription allows one client: a wait gives way to a task that holds the lease."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import claims

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.staging.batch_folder import BatchFolder

LOOK_SECONDS = 3.0
"""Seconds between two looks at the lease.

A task that needs the subscription waits that long, and then until the service has closed the
stream."""


async def until_wanted(folder: BatchFolder, only_listens: Callable[[], bool]) -> None:
    """Return once another process, which may be alive, holds the batch's lease.

    :param only_listens: returns whether the wait could give up the subscription now.
    """
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if only_listens() and await asyncio.to_thread(_is_held, folder) and only_listens():
            return


def _is_held(folder: BatchFolder) -> bool:
    try:
        seen = claims.glance(folder.folder)
    except StagingError:
        return False
    return seen is not None and seen.may_be_alive
