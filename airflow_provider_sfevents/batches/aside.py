"""A managed subscription has one slot: who only listens makes way for who has claimed the batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.staging import claims

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.staging.batch_folder import BatchFolder

LOOK_SECONDS = 3.0
"""Between two looks; whoever waits for the slot waits that long, and for the service to let go of it."""


async def until_wanted(folder: BatchFolder, only_listens: Callable[[], bool]) -> None:
    """Returns once somebody else, who may be alive, has the batch.

    :param only_listens: whether the slot could be given away now.
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
