"""A look at a position that never begins it, for a watcher that only compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches.position import open_position

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.staging.area import StagingArea


def look(
    request: BatchRequest,
    session: Session,
    area: StagingArea,
    open_store: Callable[[str], PositionStore],
) -> Position | None:
    """Read the position and check it; None: the next first run begins it. Blocks.

    :raises PositionConflictError: position, staging area and org contradict each other.
    """
    folder = area.topic(session.org_id, request.consumer, request.topic)
    store = open_store(session.org_id)
    position = open_position.read_checked(request, session, folder, store, area.known_id())
    if position is None:
        landed = open_position.newest_landed(folder)
        begun = open_position.begun_epochs(folder)
        open_position.refuse_lost(landed, begun, request, store)
    return position
