"""`airflow sfevents position`: show, set, forget.

The order of effects of the latter two, since the process may die between any two of them:

1. The batch after the position is claimed, so that no task works on it meanwhile; only then is the user asked.
2. set: the new epoch's origin is written to the staging area, then the position to its store, and read back.
3. forget: the position is deleted, then the mark is left that says it was on purpose. Without the mark the next run is refused.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_sfevents.batches import age
from airflow_provider_sfevents.batches.opening import begun_epochs, write_origin
from airflow_provider_sfevents.commands import listing, looking, outlook
from airflow_provider_sfevents.commands.reaching import Reached, log_in, now, reach, require_staging
from airflow_provider_sfevents.commands.telling import (
    command,
    confirm,
    invocation,
    say,
    show_one,
    show_rows,
)
from airflow_provider_sfevents.exceptions import BatchClaimed, ConfigurationError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.positions import record, stores
from airflow_provider_sfevents.pubsub.start import check_start
from airflow_provider_sfevents.staging import durable
from airflow_provider_sfevents.staging.holders import Holder
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

    from airflow_provider_sfevents.commands.looking import Batch
    from airflow_provider_sfevents.positions.record import Position


@suppress_logs_and_warning
@providers_configuration_loaded
@command
def show(args: Namespace) -> None:
    """Show one position, or list all."""
    if not args.topic:
        rows = listing.rows(listing.found(), consumer=args.consumer)
        show_rows(rows, args.output)
        return
    reached = reach(args)
    next_run, warning = foresee(args, reached)
    fields = _fields(reached)
    if args.output not in ("table", "plain"):
        fields |= {"warning": warning, "next_run": next_run}
    show_one(fields, args.output)
    if args.output in ("table", "plain"):
        say("\n".join(filter(None, (warning, next_run))))


@action_cli
@providers_configuration_loaded
@command
def set_(args: Namespace) -> None:
    """Begin a new epoch elsewhere."""
    start = check_start(args.start)
    reached = reach(args, mend=True, may_log_in=True)
    position = _begin(args, reached, start)
    stands = f", which stands at {reached.position.start}," if reached.position else ""
    with _in_hand(args, reached, ("set", start)) as batch:
        confirm(
            args,
            f"{reached.store.where}{stands} will go on at {start!r}, in a new epoch.",
            *([f"It is replaced: {reached.unreadable}"] if reached.unreadable else []),
            *outlook.meaning(start),
            *outlook.left_behind(batch),
        )
        folder = reached.area.topic(position.org_id, args.consumer, args.topic)
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
    with _in_hand(args, reached, ("forget",)) as batch:
        confirm(
            args,
            f"{reached.store.where} will be deleted, on purpose: the next run is a first run and begins at its `initial_replay`.",
            outlook.LANDS_ONCE,
            *outlook.left_behind(batch),
        )
        reached.store.delete()
        _require_gone(reached)
        reached.folder.forget(now())
    say(f"{reached.store.where} is forgotten.")
    say(foresee(args, replace(reached, position=None, unreadable=""))[0])


def foresee(args: Namespace, reached: Reached) -> tuple[str, str]:
    """What the next run will do, and a warning if there is one."""
    position, where = reached.position, reached.store.where
    if position is None:
        begun = begun_epochs(reached.folder)
        says = outlook.without_position(reached.landed, begun, args.consumer, args.topic, where)
        return says, ""
    batch = looking.look(reached.folder, position.epoch, position.sequence + 1)
    anchor = age.anchor_of(reached.folder, position)
    found = looking.find(reached.folder, position, batch, anchor)
    says = outlook.with_position(position, reached.landed, batch, found, where)
    return says, outlook.worry(position, anchor, datetime.fromisoformat(now()))


def _fields(reached: Reached) -> dict[str, Any]:
    landed = reached.landed
    fields = {
        "kept_in": reached.store.where,
        "org_id": reached.org_id,
        "staged_in": durable.url(reached.folder.folder),
        "newest_receipt": f"{landed.epoch}-{landed.sequence}" if landed else "",
        "forgotten_at": reached.folder.forgotten_at(),
    }
    return fields | (_of_position(reached, reached.position) if reached.position else {})


def _of_position(reached: Reached, position: Position) -> dict[str, Any]:
    anchor = age.anchor_of(reached.folder, position)
    batch = looking.look(reached.folder, position.epoch, position.sequence + 1)
    by = position.committed_by
    return {
        "instance_url": position.instance_url,
        "epoch": position.epoch,
        "sequence": position.sequence,
        "replay_id": position.replay_id,
        "age": outlook.aged(position, anchor, datetime.fromisoformat(now())),
        "last_event_at": position.last_event_at,
        "events_total": position.events_total,
        "owner": position.owner,
        "committed_at": position.committed_at,
        "committed_by": f"{by.dag}.{by.task}, run {by.run}, try {by.try_number}" if by.dag else "",
        "recent": [
            f"{one.batch_id}: {one.events} events to {one.replay_id} at {one.at}"
            for one in position.recent
        ],
        "losses": [
            f"after {one.after} (last event {one.after_event_at or 'unknown'}), on at {one.start} since {one.at}: {one.why}"
            for one in position.losses
        ],
        "anchor": f"{anchor.replay_id}, heard at {anchor.seen_at}" if anchor else "",
        "next_batch": batch.batch_id,
        "next_batch_state": looking.state(batch, position),
        "next_batch_events": batch.events,
        "next_batch_held_by": batch.describe_holder(),
    }


@contextmanager
def _in_hand(args: Namespace, reached: Reached, words: Sequence[str]) -> Iterator[Batch | None]:
    """Hold the batch after the position: no task works on it meanwhile, and a living one is not disturbed.

    :param words: of this command, to be named in refusals.
    :raises ConfigurationError: somebody else is at work on it, it would be left behind, or the position moved before it was ours.
    """
    require_staging(args, reached)
    batch = reached.next_batch()
    if batch is None:
        yield None
        return
    folder = reached.folder.batch(batch.epoch, batch.sequence)
    try:
        claim = folder.claim(Holder.here(Run(), now()))
    except BatchClaimed as error:
        holder = looking.look(reached.folder, batch.epoch, batch.sequence).holder
        who = holder.describe() if holder else "somebody"
        release = invocation(args, "batches", "release", batch.batch_id)
        raise ConfigurationError(
            f"Batch {batch.batch_id}, the one after the position, is held by {who}, and that is at work. Nothing was changed. Let it finish, "
            f"or end the task; then give the command again. If it is gone in truth: {release}"
        ) from error
    with claim:
        if reached.store.get() != reached.record:
            raise ConfigurationError(
                f"{reached.store.where} was moved by somebody else just now. Nothing was changed; look at it, then give the command again."
            )
        held = looking.look(reached.folder, batch.epoch, batch.sequence)
        again = invocation(args, "position", *words, "--abandon-staged")
        outlook.refuse_to_abandon(held, again, abandon=args.abandon_staged)
        yield held


def _begin(args: Namespace, reached: Reached, start: str) -> Position:
    """The new position; what there is no position to tell, the last epoch's origin does, or the connection."""
    at = now()
    known = reached.position or reached.last_begun()
    session = reached.session or (None if known else log_in(SfEventsHook.default_conn_name))
    org = session or known
    assert org is not None  # noqa: S101 - without `known` somebody has logged in
    begun = record.begin(
        org_id=org.org_id,
        instance_url=org.instance_url,
        topic=args.topic,
        consumer=args.consumer,
        start=start,
        at=at,
        by=Run(),
        losses=outlook.losses_after(reached.position, start, at) if reached.position else (),
    )
    return replace(begun, owner=known.owner if known else "")


def _require_gone(reached: Reached) -> None:
    """:raises ConfigurationError: the store still answers."""
    if reached.store.get() is not None:
        raise ConfigurationError(
            f"{reached.store.where} is still read after it was deleted. {reached.store.advice} Then give the command again."
        )
