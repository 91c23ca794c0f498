"""The staging area of a position: its next batch, and what changes only under that batch's lease.

1. The staging area is that of the task that fetches, whose argument Airflow's database has. It
   counts only if it has the id that the position records: an empty folder of this machine would
   show no lease.
2. If the area is not seen from here, `UnseenError` has the reason, and the page shows commands,
   which have to run on a machine that sees it.
3. Looking writes nothing. The history alone is written without a lease: a move takes the last
   commits out of the record, and no task decides by them.
"""

from __future__ import annotations

import logging
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.commands import next_run, staged_batches
from airflow_provider_sfevents.commands.command_context import Reached
from airflow_provider_sfevents.commands.position import (
    acknowledge_held,
    forget_held,
    in_hand,
    keep_known,
)
from airflow_provider_sfevents.commands.stores import open_row
from airflow_provider_sfevents.exceptions import (
    PositionConflictError,
    SfEventsError,
    StagingError,
)
from airflow_provider_sfevents.hooks.staging_access import staging_root
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.lease_holder import LeaseState

if TYPE_CHECKING:
    from airflow_provider_sfevents.commands.staged_batches import BatchOverview
    from airflow_provider_sfevents.commands.tasks.stored_tasks import StoredTask
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.ui.position_views import Kept


log = logging.getLogger(__name__)


class UnseenError(SfEventsError):
    """The staging area of a position is not seen from this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPosition:
    """A position with its staging area.

    :param args: arguments of the commands on it.
    """

    args: Namespace
    reached: Reached

    def look(self, position: Position, *, after: int = 1) -> BatchOverview:
        """Read the batch after the position; with `after` 0, the one that it is at."""
        number = position.batch_number + after
        return staged_batches.look(self.reached.folder, position.epoch, number)


def arguments(kept: Kept, position: Position, task: StoredTask | None) -> Namespace:
    """Return the arguments of commands on a position, as far as they are known."""
    try:
        staging = task.argument("staging") if task else None
    except LookupError:
        staging = None
    return Namespace(
        consumer=position.consumer,
        topic=position.topic,
        position_store=kept.store,
        staging=staging,
        conn_id=None,
        abandon_staged=False,
    )


def reach(
    kept: Kept, position: Position, task: StoredTask | None, *, moved: bool = False
) -> StagedPosition:
    """Open the staging area of a position.

    :param task: the one that fetches.
    :param moved: accept a position that records no staging area, as after a move, if that area has
        the epoch before; to read, and to add to the history.
    :raises UnseenError: it is not seen from here.
    """
    if task is None:
        raise UnseenError(
            f"The staging area is not known: task {position.owner or '?'} is not in Airflow."
        )
    try:
        area = StagingArea(staging_root(task.argument("staging")))
        found = area.existing_id()
    except LookupError as error:
        raise UnseenError(f"The staging area is not known: {error}.") from error
    except (SfEventsError, OSError) as error:
        raise UnseenError(
            f"Airflow's API server does not reach the staging area: {error}"
        ) from error
    expected = position.staging_id or (found if moved else "")
    if not found or found != expected:
        raise UnseenError(
            f"Airflow's API server does not see the staging area of this position: {area.root}, "
            f"seen from there, {'is another one' if found else 'is empty'}."
        )
    folder = area.topic(position.org_id, position.consumer, position.topic)
    if not position.staging_id and folder.origin(position.previous_epoch) is None:
        raise UnseenError(
            f"Airflow's API server does not see the staging area of this position: {area.root}, "
            f"seen from there, has nothing of its epoch {position.previous_epoch or '?'}."
        )
    store = open_row(
        kept.store, org_id=position.org_id, consumer=position.consumer, topic=position.topic
    )
    return StagedPosition(
        args=arguments(kept, position, task),
        reached=Reached(
            store=store,
            area=area,
            folder=folder,
            org_id=position.org_id,
            session=None,
            record=store.get(),
            position=position,
        ),
    )


def release(staged: StagedPosition, position: Position) -> str:
    """Release the lease of the batch after the position; returns a sentence with the result.

    Blocks for half a minute if only the lease's heartbeat can show whether its holder lives.

    :raises PositionConflictError: the holder is at work.
    """
    batch = staged.reached.folder.batch(position.epoch, position.batch_number + 1)
    seen = leases.watch(batch.folder)
    if seen is None or seen.state is LeaseState.FREE:
        return f"Batch {batch.batch_id} is not held."
    if seen.state is LeaseState.ALIVE:
        raise PositionConflictError(
            f"Batch {batch.batch_id} is held by {seen.holder.describe()}, which is at work. "
            "Nothing was changed. Let it finish, or end the task."
        )
    leases.let_go(batch.folder, seen.number)
    return f"Batch {batch.batch_id} is released. The next run takes it."


def keep_history(kept: Kept, position: Position, task: StoredTask | None) -> None:
    """Add to the history before a move, if the staging area is seen; an error only warns."""
    try:
        keep_known(reach(kept, position, task, moved=True).reached.folder, position)
    except UnseenError:
        pass
    except StagingError as error:
        log.warning(
            "Epoch %s of %s is moved, and its beginning is not kept in the history: %s",
            position.epoch,
            position.topic,
            error,
        )


def forget(staged: StagedPosition) -> str:
    """Delete the position, on purpose; returns a sentence with the result.

    :raises ConfigurationError: a task is at work on the batch after it, or it is staged and has
        not landed.
    """
    with in_hand(staged.args, staged.reached, ("forget",)):
        forget_held(staged.reached)
    return f"{staged.reached.store.where} is forgotten. {FORGETTING[1]}"


def acknowledge(staged: StagedPosition) -> str:
    """Acknowledge the position's loss windows; returns a sentence with the result.

    :raises ConfigurationError: a task is at work on the batch after it.
    """
    with in_hand(staged.args, staged.reached, ("acknowledge",), moves=False):
        acknowledge_held(staged.reached)
    return f"The loss windows of {staged.reached.store.where} are acknowledged."


FORGETTING = (
    "The position is deleted, on purpose.",
    "The next run is a first run, and begins at its `initial_replay`.",
    next_run.LANDS_ONCE,
)
