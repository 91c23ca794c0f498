"""`airflow sfevents batches`: list, release, reland."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_sfevents.commands import staged_batches
from airflow_provider_sfevents.commands.command_context import reach
from airflow_provider_sfevents.commands.output import (
    command,
    confirm,
    invocation,
    is_for_programs,
    say,
    show_rows,
)
from airflow_provider_sfevents.commands.position import foresee
from airflow_provider_sfevents.commands.tasks import task_clearing
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.staging_access import put_job, staging_root
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.lease_holder import LeaseState
from airflow_provider_sfevents.staging.storage.staging_location import spark_url

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_provider_sfevents.commands.command_context import Reached
    from airflow_provider_sfevents.commands.staged_batches import BatchOverview
    from airflow_provider_sfevents.positions.record import Position


@suppress_logs_and_warning
@providers_configuration_loaded
@command
def list_(args: Namespace) -> None:
    """List the batches that are kept, oldest first."""
    reached = reach(args)
    epochs = reached.folder.epochs_in_order()
    batches = [
        staged_batches.look(reached.folder, epoch, batch_number)
        for epoch in epochs
        for batch_number in reached.folder.batch_numbers(epoch)
    ]
    rows = [row(one, reached.position) for one in batches]
    if is_for_programs(args.output):
        show_rows(rows, args.output)
    else:
        show_rows([one | {"staged_by": in_words(one["staged_by"])} for one in rows], args.output)
        says, warning = foresee(args, reached)
        say("\n".join(filter(None, (warning, says))))


@action_cli
@providers_configuration_loaded
@command
def release(args: Namespace) -> None:
    """Release another task's lease."""
    reached = reach(args)
    epoch, batch_number = parse_batch_id(args.batch_id)
    folder = reached.folder.batch(epoch, batch_number).folder
    seen = leases.observe(folder)
    at = reached.position
    is_next = at is not None and (epoch, batch_number) == (at.epoch, at.batch_number + 1)
    if seen is None and not is_next and batch_number not in reached.folder.batch_numbers(epoch):
        raise ConfigurationError(
            f"There is no batch {args.batch_id}. {invocation(args, 'batches', 'list')} lists those "
            "that are kept."
        )
    if seen is None or seen.state is LeaseState.FREE:
        say(f"Batch {args.batch_id} is not held.")
        say(foresee(args, reached)[0])
        return
    say(f"Batch {args.batch_id} is held by {seen.holder.describe()}.")
    if seen.state is LeaseState.WATCH:
        say(
            "That process cannot be seen from this machine; watching its lease heartbeat for half "
            "a minute."
        )
        seen = leases.watch(folder) or seen
    if seen.state is LeaseState.ALIVE and not args.force:
        raise ConfigurationError(
            "The holder is at work. Nothing was changed. Let it finish, or end the task; or take "
            "the batch from it: "
            f"{invocation(args, 'batches', 'release', args.batch_id, '--force')}"
        )
    if seen.state is LeaseState.ALIVE:
        confirm(
            args,
            "The holder is at work. It gives way at its next step after another task has taken the "
            "batch; the events that it has staged by then are kept.",
        )
    leases.let_go(folder, seen.number)
    say(f"Batch {args.batch_id} is released.")
    say(foresee(args, reached)[0])


@action_cli
@providers_configuration_loaded
@command
def reland(args: Namespace) -> None:
    """Clear the task that staged a batch."""
    reached = reach(args)
    batch = staged_batches.look(reached.folder, *parse_batch_id(args.batch_id))
    listed = invocation(args, "batches", "list")
    task_clearing.refuse(batch, reached.position, listed)
    try:
        assert batch.manifest is not None  # noqa: S101 - `refuse` has checked it
        run = batch.manifest.run
        clearing = task_clearing.find(run, batch.batch_id, downstream=args.downstream)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} {_by_hand(args, reached, batch)}") from error
    say(clearing.describe())
    if args.dry_run:
        return
    confirm(
        args,
        f"The task lands batch {batch.batch_id} ({counted(batch.events, 'event')}) again, which "
        "replaces the rows that it landed before. Nothing is fetched, and the position stays.",
    )
    say(clearing.clear())


def row(batch: BatchOverview, position: Position | None) -> dict[str, Any]:
    """Return a batch's row of the list, by column."""
    manifest, receipt = batch.manifest, batch.receipt
    run = manifest.run if manifest else None
    return {
        "epoch": batch.epoch,
        "batch_number": batch.batch_number,
        "batch_id": batch.batch_id,
        "state": staged_batches.state(batch, position),
        "events": batch.events,
        "bytes": batch.size,
        "created_at": manifest.created_at if manifest else None,
        "staged_by": asdict(run) if run and run.dag else None,
        "quarantined": receipt.quarantined if receipt else None,
        "duplicates": receipt.duplicates if receipt else None,
        "losses": len(manifest.losses) if manifest else None,
        "extra_deliveries": sum(batch.extra_deliveries.values()) if manifest else None,
    }


def in_words(run: dict[str, Any] | None) -> str:
    """Describe a run for people: DAG, task and run id."""
    return f"{run['dag']}.{run['task']} {run['run']}" if run else ""


def parse_batch_id(batch_id: str) -> tuple[str, int]:
    """Split a batch id into epoch and batch number.

    :raises ConfigurationError: it is no batch id.
    """
    epoch, _, batch_number = batch_id.rpartition("-")
    if not epoch or not batch_number.isdecimal():
        raise ConfigurationError(
            f"{batch_id!r} is no batch id; give it as `airflow sfevents batches list` shows it: "
            "<epoch>-<batch number>."
        )
    return epoch, int(batch_number)


def _by_hand(args: Namespace, reached: Reached, batch: BatchOverview) -> str:
    applied = batch.receipt is not None and batch.receipt.applied is not None
    job = put_job(staging_root(args.staging), "apply" if applied else "land")
    manifest = spark_url(reached.folder.batch(batch.epoch, batch.batch_number).manifest_url)
    command = ["spark-submit", "--py-files", job.py_files, job.application, "--manifest", manifest]
    return (
        f"By hand, with the task's table and Spark settings: {shlex.join(command)} --table <table> "
        f"--format <format>{' --current-state <tables of records>' if applied else ''}"
    )
