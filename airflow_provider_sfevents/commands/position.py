"""`airflow sfevents position`: show, set, forget, acknowledge.

The commands that change the position take effect in this order, because the process may die between
any two steps:

1. The lease of the batch after the position is taken, so that no task works on it in the meantime;
   only then is the user asked.
2. set: the last commits are added to the history; then the new epoch's origin is written to the
   staging area, then the position to its store, and read back.
3. acknowledge: only the position is written.
4. forget: the last commits are added to the history; then the position is deleted, then the sidecar
   file is written that says it was on purpose. Without that file the next run is refused.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any

from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_sfevents.batches.position import replay_id_age
from airflow_provider_sfevents.batches.position.open_position import begun_epochs
from airflow_provider_sfevents.batches.position.position_writes import write_origin
from airflow_provider_sfevents.commands import next_run, position_rows, staged_batches
from airflow_provider_sfevents.commands.command_context import (
    HeldBatch,
    Reached,
    log_in,
    now,
    reach,
    require_staging,
    require_topic,
)
from airflow_provider_sfevents.commands.output import (
    command,
    invocation,
    is_for_programs,
    say,
    show_one,
    show_rows,
)
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, LeaseHeldError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.staging_access import staging_root
from airflow_provider_sfevents.positions import history, record, stores
from airflow_provider_sfevents.positions.record_text import PREFIX
from airflow_provider_sfevents.pubsub.topic_names import check_transport, transport_for
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import Run
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.manifest import LossWindow


@suppress_logs_and_warning
@providers_configuration_loaded
@command
def show(args: Namespace) -> None:
    """Show one position, or list all; exit with code 1 if one is older than `--fail-older-than`."""
    ages = _show_one(args) if args.topic else _show_all(args)
    limit = args.fail_older_than
    if limit is not None and (old := next_run.too_old(ages, limit)):
        raise SystemExit(old)


def _show_all(args: Namespace) -> list[tuple[str, float | None]]:
    """List positions; returns their ages, infinite for records named so that are no position."""
    area = StagingArea(staging_root(args.staging))
    now_ = datetime.fromisoformat(now())

    def age_of(position: Position) -> float | None:
        folder = area.topic(position.org_id, position.consumer, position.topic)
        return next_run.age_hours(
            position, replay_id_age.keepalive_point_of(folder, position), now_
        )

    rows = position_rows.rows(position_rows.found(), age_of, consumer=args.consumer)
    show_rows(rows, args.output)
    ages = [
        (f"{row['consumer']} {row['topic']}", row["age_hours"])
        for row in rows
        if not row["problem"]
    ]
    named = f"{PREFIX}{args.consumer or ''}"
    return ages + [
        (row["kept_in"], inf) for row in rows if row["problem"] and named in row["kept_in"]
    ]


def _show_one(args: Namespace) -> list[tuple[str, float | None]]:
    """Show a position and what the next run will do; returns its age."""
    reached = reach(args)
    next_run, warning = foresee(args, reached)
    fields = _fields(reached)
    if is_for_programs(args.output):
        show_one(fields | {"warning": warning or None, "next_run": next_run}, args.output)
    else:
        show_one(fields | _for_people(reached), args.output)
        say("\n".join(filter(None, (warning, next_run))))
    return [(f"{args.consumer} {args.topic}", fields.get("age_hours"))]


@action_cli
@providers_configuration_loaded
@command
def set_(args: Namespace) -> None:
    """Begin a new epoch at a given replay point."""
    start = ReplayPoint.given(args.start).to_text()
    check_transport(args.topic, args.transport)
    reached = reach(args, mend=True, may_log_in=True)
    is_first = not (reached.position or reached.last_begun() or reached.record)
    if is_first:
        conn_id = args.conn_id or SfEventsHook.default_conn_name
        require_topic(conn_id, args.topic, args.transport)
    position = _begin(args, reached, start)
    stands = f", which stands at {reached.position.start}," if reached.position else ""
    option = ("--transport", args.transport) if args.transport else ()
    with in_hand(args, reached, ("set", start, *option)) as held:
        held.confirm(
            args,
            *(next_run.first_of(args.consumer, args.topic) if is_first else []),
            f"{reached.store.where}{stands} will continue at {start!r}, in a new epoch.",
            *([f"It is replaced: {reached.unreadable}"] if reached.unreadable else []),
            *next_run.meaning(start, is_first=is_first),
            *next_run.loss_of_move(reached.position, start),
            *next_run.left_behind(held.batch),
        )
        folder = reached.area.topic(position.org_id, args.consumer, args.topic)
        if reached.position:
            keep_known(reached.folder, reached.position)
        write_origin(folder, position)
        stores.write(reached.store, position)
    say(f"{reached.store.where} is written: epoch {position.epoch}, at {start!r}.")
    say(foresee(args, replace(reached, position=position, folder=folder))[0])


@action_cli
@providers_configuration_loaded
@command
def forget(args: Namespace) -> None:
    """Delete the position, on purpose."""
    reached = reach(args, mend=True)
    with in_hand(args, reached, ("forget",)) as held:
        held.confirm(
            args,
            f"{reached.store.where} will be deleted, on purpose: the next run is a first run and "
            "begins at its `initial_replay`.",
            next_run.LANDS_ONCE,
            *next_run.left_behind(held.batch),
        )
        forget_held(reached)
    say(f"{reached.store.where} is forgotten.")
    say(foresee(args, replace(reached, position=None, unreadable=""))[0])


@action_cli
@providers_configuration_loaded
@command
def acknowledge(args: Namespace) -> None:
    """Acknowledge the position's loss windows, so that they are no alert any more."""
    reached = reach(args)
    if reached.position is None:
        raise ConfigurationError(
            f"{reached.store.where} does not exist, so no loss window was acknowledged. If the "
            "task keeps its position elsewhere, give `--position-store`."
        )
    with in_hand(args, reached, ("acknowledge",), moves=False) as held:
        windows = reached.position.new_losses
        if not windows:
            say(f"{reached.store.where} has no loss window that is not acknowledged.")
            return
        held.confirm(args, *(describe_loss(one) for one in windows), ACKNOWLEDGING)
        acknowledge_held(reached)
    say(f"{reached.store.where}: {counted(len(windows), 'loss window')} acknowledged.")


ACKNOWLEDGING = "These loss windows stay recorded, and are no alert any more."


def describe_loss(window: LossWindow) -> str:
    return f"Events after {window.after} may have been missed: {window.why}."


def acknowledge_held(reached: Reached) -> None:
    """Acknowledge all loss windows; within `in_hand`."""
    position = reached.position
    if position and position.new_losses:
        last = position.new_losses[-1].at
        stores.write(reached.store, replace(position, losses_acknowledged=last))


def forget_held(reached: Reached) -> None:
    """Delete the position, and record that it was on purpose; within `in_hand`."""
    before = reached.position
    epoch, batch_number = (before.epoch, before.batch_number) if before else reached.lost_at()
    if before:
        keep_known(reached.folder, before)
    reached.store.delete()
    _require_gone(reached)
    reached.folder.forget(now(), epoch, before.last_event_at if before else "", batch_number)


def keep_known(folder: TopicFolder, position: Position) -> None:
    """Keep beside the batches what only the record knows, before it is replaced or deleted.

    That is the recent commits; and the beginning of an epoch that the page began, since the page
    moves positions whose staging area it does not see.

    :raises StagingError: the beginning cannot be written.
    """
    history.keep(folder, position)
    if position.batch_number == 0:
        write_origin(folder, position)


def foresee(args: Namespace, reached: Reached) -> tuple[str, str]:
    """Describe the next run; returns the sentence, and a warning if there is one."""
    position, store = reached.position, reached.store
    if position is None:
        begun = begun_epochs(reached.folder)
        says = next_run.without_position(reached.landed, begun, args.consumer, args.topic, store)
        return says, ""
    batch = staged_batches.look(reached.folder, position.epoch, position.batch_number + 1)
    keepalive_point = replay_id_age.keepalive_point_of(reached.folder, position)
    found = staged_batches.find(reached.folder, position, batch)
    says = next_run.with_position(position, reached.landed, batch, found, store)
    return says, next_run.worry(position, keepalive_point, datetime.fromisoformat(now()))


def _fields(reached: Reached) -> dict[str, Any]:
    landed, forgotten = reached.landed, reached.folder.forgotten()
    fields = {
        "kept_in": reached.store.where,
        "org_id": reached.org_id,
        "staged_in": durable_files.url(reached.folder.folder),
        "newest_receipt": f"{landed.epoch}-{landed.batch_number}" if landed else None,
        "forgotten_at": forgotten.at if forgotten else None,
    }
    return fields | (_of_position(reached, reached.position) if reached.position else {})


def _of_position(reached: Reached, position: Position) -> dict[str, Any]:
    keepalive_point = replay_id_age.keepalive_point_of(reached.folder, position)
    batch = staged_batches.look(reached.folder, position.epoch, position.batch_number + 1)
    return {
        "instance_url": position.instance_url,
        "epoch": position.epoch,
        "batch_number": position.batch_number,
        "replay_id": position.replay_id,
        "age_hours": next_run.age_hours(position, keepalive_point, datetime.fromisoformat(now())),
        "last_event_at": position.last_event_at or None,
        "events_total": position.events_total,
        "owner": position.owner,
        "committed_at": position.committed_at,
        "committed_by": asdict(position.committed_by) if position.committed_by.dag else None,
        "recent": [asdict(one) for one in position.recent],
        "losses": [asdict(one) for one in position.loss_windows],
        "losses_acknowledged": position.losses_acknowledged or None,
        "staging_id": position.staging_id or None,
        "resume_after": position.resume_after or None,
        "resume_after_at": position.resume_after_at or None,
        "keepalive_point": asdict(keepalive_point) if keepalive_point else None,
        "next_batch": batch.batch_id,
        "next_batch_state": staged_batches.state(batch, position),
        "next_batch_events": batch.events,
        "next_batch_held_by": batch.describe_holder() or None,
    }


def _for_people(reached: Reached) -> dict[str, Any]:
    """Return sentences in place of the fields that hold more than one value."""
    position = reached.position
    if position is None:
        return {}
    by, keepalive_point = (
        position.committed_by,
        replay_id_age.keepalive_point_of(reached.folder, position),
    )
    return {
        "committed_by": f"{by.dag}.{by.task}, run {by.run}, try {by.try_number}" if by.dag else "",
        "recent": [
            f"{one.batch_id}: {counted(one.events, 'event')} to {one.replay_id} at {one.at}"
            for one in position.recent
        ],
        "losses": [
            f"after {one.after} (last event {one.after_event_at or 'unknown'}), continued at "
            f"{one.start} since {one.at}: {one.why}"
            for one in position.loss_windows
        ],
        "keepalive_point": f"{keepalive_point.replay_id}, received at {keepalive_point.seen_at}"
        if keepalive_point
        else "",
    }


@contextmanager
def in_hand(
    args: Namespace, reached: Reached, words: Sequence[str], *, moves: bool = True
) -> Iterator[HeldBatch]:
    """Hold the lease of the batch after the position, unless a task is at work on it.

    :param words: of this command, to be named in errors.
    :param moves: the command moves the position, so that a staged batch would be left behind.
    :raises ConfigurationError: another task is at work on the batch, it would be left behind, or
        the position was moved before the lease was taken.
    """
    require_staging(args, reached)
    batch = reached.next_batch()
    if batch is None:
        yield HeldBatch(reached=reached)
        return
    folder = reached.folder.batch(batch.epoch, batch.batch_number)
    try:
        lease = folder.take_lease(LeaseHolder.here(Run(), now()))
    except LeaseHeldError as error:
        holder = staged_batches.look(reached.folder, batch.epoch, batch.batch_number).holder
        who = holder.describe() if holder else "another process"
        release = invocation(args, "batches", "release", batch.batch_id)
        raise ConfigurationError(
            f"Batch {batch.batch_id}, the one after the position, is held by {who}, which is at "
            "work. Nothing was changed. Let it finish, or end the task; then run the command "
            f"again. If you know that the holder is gone: {release}"
        ) from error
    with lease:
        reached.require_unmoved()
        found = staged_batches.look(reached.folder, batch.epoch, batch.batch_number)
        if moves:
            again = invocation(args, "position", *words, "--abandon-staged")
            next_run.refuse_to_abandon(found, again, abandon=args.abandon_staged)
        yield HeldBatch(reached=reached, batch=found, lease=lease)


def _begin(args: Namespace, reached: Reached, start: str) -> Position:
    """Return the new position.

    Without an old position, org, instance and owner come from the last epoch's origin or the
    connection.
    """
    at = now()
    known = reached.position or reached.last_begun()
    session = reached.session or (None if known else log_in(SfEventsHook.default_conn_name))
    org = session or known
    assert org is not None  # noqa: S101 - without `known` there is a session
    begun = record.begin(
        org_id=org.org_id,
        instance_url=org.instance_url,
        topic=args.topic,
        consumer=args.consumer,
        start=start,
        at=at,
        by=Run(),
        previous_epoch=known.epoch if known else "",
        losses=next_run.losses_after(reached.position, start, at) if reached.position else (),
        transport=_transport(args, known),
    )
    if known is None:
        return begun
    return replace(
        begun,
        owner=known.owner,
        previous_batch_number=known.batch_number if reached.position else reached.lost_at()[1],
        losses_acknowledged=reached.position.losses_acknowledged if reached.position else "",
    )


def _transport(args: Namespace, known: Position | None) -> str:
    """Return the API that the position's replay ids are of."""
    if known is not None:
        return transport_for(args.topic, args.transport or known.transport).value
    hook = SfEventsHook(args.conn_id or SfEventsHook.default_conn_name)
    return hook.transport_of(args.topic, args.transport)


def _require_gone(reached: Reached) -> None:
    """Check that the store no longer has the record.

    :raises ConfigurationError: it has.
    """
    if reached.store.get() is not None:
        raise ConfigurationError(
            f"{reached.store.where} is still read after it was deleted. {reached.store.advice} "
            "Then run the command again."
        )
