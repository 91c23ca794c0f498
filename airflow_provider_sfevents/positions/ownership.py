"""Refusals of a position that is another org's, another API's or another task's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.positions.record import task_of
from airflow_provider_sfevents.positions.record_text import Whose

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.stores import PositionStore
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


def check_transport(position: Position, transport: str, store: PositionStore) -> None:
    """Refuse a position of the other API: its replay ids mean nothing there.

    :raises PositionConflictError: the APIs differ.
    """
    if position.transport == transport:
        return
    whose = Whose.of(store, position.consumer, position.topic)
    anew = whose.command("set", "earliest", "--transport", transport)
    raise PositionConflictError(
        f"{store.where} has replay ids of transport {position.transport!r}, and this task reads by "
        f"{transport!r}. Give the task transport={position.transport!r}; or go over to the other "
        f"API, which begins anew: {anew} (events that have landed do not land again), or `latest` "
        "without those that are pending."
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


def _host(url: str) -> str:
    """Return the host without its port, because an emulator restarts on another port."""
    return urlsplit(url).hostname or url


def tasks_of(position: Position) -> tuple[str, ...]:
    """Return the ids of the tasks that fetch and commit; empty if a command wrote the position."""
    by = position.committed_by
    if not by.dag:
        return ()
    return tuple(dict.fromkeys((position.owner.removeprefix(f"{by.dag}."), by.task)))
