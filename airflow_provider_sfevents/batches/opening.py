"""The position a batch comes after: read, checked against org, task and staging area, or begun.

A missing position is a first run only when nothing of this consumer and topic has landed; otherwise somebody lost it,
and starting again would land everything twice, or skip what came meanwhile.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import PositionConflict
from airflow_provider_sfevents.positions import record, stores
from airflow_provider_sfevents.pubsub.start import check_start
from airflow_provider_sfevents.staging.marks import Origin

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.outcome import BatchRequest
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.pubsub.session import Session
    from airflow_provider_sfevents.staging.area import TopicFolder

log = logging.getLogger(__name__)


def open_position(
    request: BatchRequest, session: Session, folder: TopicFolder, store: PositionStore
) -> Position:
    """Where the next batch begins.

    :raises PositionConflict: of another org or task, missing or old while later batches have landed.
    :raises ConfigurationError: what is stored is no position, or `initial_replay` no start.
    """
    position = stores.read(store)
    newest = folder.newest_receipt()
    if position is None:
        refuse_lost(newest, store.where, request.initial_replay)
        return _begin(request, session, folder, store)
    record.check_org(position, session.org_id, session.instance_url, store.where)
    record.check_owner(position, request.run, store.where)
    refuse_stale(position, newest, store.where)
    refuse_second_in_run(position, request, store.where)
    return position


def refuse_lost(newest: tuple[str, int] | None, where: str, initial_replay: str) -> None:
    """:raises PositionConflict: there is no position, and yet a batch has landed."""
    if newest is None:
        return
    raise PositionConflict(
        f"{where} is missing, but batch {newest[0]}-{newest[1]} of this consumer and topic has landed: this is no first run, "
        f"and starting at {initial_replay!r} would land events twice or leave some out. Put the position back (the receipt's "
        "batch tells where it stood), or name another `consumer` to begin anew beside what has landed."
    )


def refuse_stale(position: Position, newest: tuple[str, int] | None, where: str) -> None:
    """:raises PositionConflict: more has landed than the position, and the one batch after it, can account for."""
    if newest is None or newest[0] != position.epoch or newest[1] <= position.sequence + 1:
        return
    raise PositionConflict(
        f"{where} stands at sequence {position.sequence}, but batch {newest[0]}-{newest[1]} has landed: an older position was put "
        "in its place. Put the newer one back; its replay id is the `end` of that batch's manifest."
    )


def refuse_second_in_run(position: Position, request: BatchRequest, where: str) -> None:
    """:raises PositionConflict: another mapped instance of this task has committed to the same position in this very run."""
    by, run = position.committed_by, request.run
    if (
        position.sequence
        and run.run
        and (by.dag, by.run, by.task) == (run.dag, run.run, run.task)
        and by.map_index != run.map_index
    ):
        raise PositionConflict(
            f"{where}: mapped task {run.task} has topic {request.topic} twice, at map index {by.map_index} and {run.map_index}. "
            "Name each topic once, or use a task of its own with another `consumer`."
        )


def _begin(
    request: BatchRequest, session: Session, folder: TopicFolder, store: PositionStore
) -> Position:
    """Write the position at sequence 0, before the first event is asked for.

    A first run that died, or whose store forgets with the try (XCom), goes on in the epoch that it began.
    """
    start = check_start(request.initial_replay)
    for origin in folder.origins():
        begun = record.Position.from_json(
            origin.position, f"The origin of epoch {origin.epoch} in {folder.folder}"
        )
        if begun.start == start:
            stores.write(store, begun)
            return begun
    position = record.begin(
        org_id=session.org_id,
        instance_url=session.instance_url,
        topic=request.topic,
        consumer=request.consumer,
        start=start,
        at=datetime.now(UTC).isoformat(),
        by=request.run,
    )
    write_origin(folder, position)
    stores.write(store, position)
    log.info(
        "First run of %s for consumer %s: starting at %s.", request.topic, request.consumer, start
    )
    return position


def write_origin(folder: TopicFolder, position: Position) -> None:
    """Say in the staging area how the position's epoch began; a second time changes nothing."""
    folder.write_origin(
        Origin(epoch=position.epoch, created_at=position.committed_at, position=position.to_json())
    )
