"""Refusals of a position that is another org's, another task's or another consumer's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_provider_sfevents.command_lines import command_line
from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.positions.record import Position, task_of
from airflow_provider_sfevents.positions.record_text import asset_key, variable_key

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record_text import Whose
    from airflow_provider_sfevents.staging.manifest import Run


def check_org(position: Position, org_id: str, instance_url: str, where: str) -> None:
    """Refuse a position of another org or instance: its replay ids mean nothing there.

    :raises PositionConflictError: org or instance differ.
    """
    if position.org_id == org_id and _host(position.instance_url) == _host(instance_url):
        return
    raise PositionConflictError(
        f"{where} is a position in org {position.org_id} at {position.instance_url}, and the "
        f"connection leads to org {org_id} at {instance_url}. Replay ids of one mean nothing in "
        "the other. Give the task a `consumer` of its own for the new one; or, if the org was "
        f"moved or refreshed permanently, delete {where} and the folder of the old org in the "
        "staging area."
    )


def check_transport(position: Position, transport: str, where: str) -> None:
    """Refuse a position of the other API: its replay ids mean nothing there.

    :raises PositionConflictError: the APIs differ.
    """
    if position.transport == transport:
        return
    command = command_line("position", "set", position.consumer, position.topic)
    raise PositionConflictError(
        f"{where} has replay ids of transport {position.transport!r}, and this task reads by "
        f"{transport!r}. Give the task transport={position.transport!r}; or go over to the other "
        f"API, which begins anew: `{command} earliest --transport {transport}` (events that have "
        "landed do not land again), or `latest` without those that are pending."
    )


def check_owner(position: Position, run: Run, where: str) -> None:
    """Refuse a second task on a position: each task would take events from the other.

    :raises PositionConflictError: the position belongs to another task.
    """
    task = task_of(run)
    if not task or not position.owner or position.owner == task:
        return
    raise PositionConflictError(
        f"{where} belongs to task {position.owner}, and {task} wants to fetch from it too. Two "
        f"tasks would each get half of the events: name a `consumer` of its own for {task}. If "
        f"{position.owner} was renamed to {task}, change `owner` in {where}."
    )


def check_whose(position: Position, whose: Whose, where: str) -> None:
    """Refuse a position that was copied from another consumer or topic.

    :raises PositionConflictError: consumer or topic differ.
    """
    if not whose.is_known or (position.consumer, position.topic) == (whose.consumer, whose.topic):
        return
    raise PositionConflictError(
        f"{where} holds the position of consumer {position.consumer!r} on {position.topic}, and "
        f"not of {whose.consumer!r} on {whose.topic}: it was copied there. Nothing was fetched, "
        f"and the position was not moved. Begin anew: {whose.command('forget')}; or set the replay "
        f"id to continue from: {whose.command('set', '<replay id>')}."
    )


def read_listed(record: str, where: str) -> Position:
    """Read a record that was found by its name among all Variables or states of assets.

    :raises ConfigurationError: it is no position, or a copy under a name that no task reads.
    """
    position = Position.from_json(record, where)
    kept_as = [asset_key(position.consumer), variable_key(position.consumer, position.topic)]
    if not any(f" {key!r}" in where for key in kept_as):
        raise ConfigurationError(
            f"{where} holds a copy of the position of consumer {position.consumer!r} on "
            f"{position.topic}, which no task reads. Delete it."
        )
    return position


def _host(url: str) -> str:
    """Return the host without its port, because an emulator restarts on another port."""
    return urlsplit(url).hostname or url


def tasks_of(position: Position) -> tuple[str, ...]:
    """Return the ids of the tasks that fetch and commit; empty if a command wrote the position."""
    by = position.committed_by
    if not by.dag:
        return ()
    return tuple(dict.fromkeys((position.owner.removeprefix(f"{by.dag}."), by.task)))
