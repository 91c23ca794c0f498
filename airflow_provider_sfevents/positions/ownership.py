"""Refusals of a position that is another org's, another task's or another consumer's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_provider_sfevents.exceptions import PositionConflict
from airflow_provider_sfevents.positions.record import task_of

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.positions.text import Whose
    from airflow_provider_sfevents.staging.manifest import Run


def check_org(position: Position, org_id: str, instance_url: str, where: str) -> None:
    """Refuse a position of another org or instance: its replay ids mean other places there, or none.

    :raises PositionConflict:
    """
    if position.org_id == org_id and _host(position.instance_url) == _host(instance_url):
        return
    raise PositionConflict(
        f"{where} is a position in org {position.org_id} at {position.instance_url}, and the connection leads to org {org_id} at "
        f"{instance_url}. Replay ids of one mean nothing in the other. Give the task a `consumer` of its own for the new one; or, if "
        f"the org was moved or refreshed for good, delete {where} and the folder of the old org in the staging area."
    )


def check_owner(position: Position, run: Run, where: str) -> None:
    """Refuse a second task on a position: each would take events away from the other.

    :raises PositionConflict:
    """
    task = task_of(run)
    if not task or not position.owner or position.owner == task:
        return
    raise PositionConflict(
        f"{where} belongs to task {position.owner}, and {task} wants to fetch from it too. Two tasks would each get half of the events: "
        f"name a `consumer` of its own for {task}. If {position.owner} was renamed to {task}, change `owner` in {where}."
    )


def check_whose(position: Position, whose: Whose, where: str) -> None:
    """Refuse a position that was copied from another consumer or topic.

    :raises PositionConflict:
    """
    if not whose.is_known or (position.consumer, position.topic) == (whose.consumer, whose.topic):
        return
    raise PositionConflict(
        f"{where} holds the position of consumer {position.consumer!r} on {position.topic}, and not of {whose.consumer!r} on "
        f"{whose.topic}: somebody copied it there. Nothing was fetched, and nothing was moved. Begin anew: {whose.command('forget')}; or "
        f"write where to go on: {whose.command('set', '<replay id>')}."
    )


def _host(url: str) -> str:
    """Host without port: an emulator comes back at another one."""
    return urlsplit(url).hostname or url
