"""Run triggers as Airflow's triggerer does, in a process that can be killed at any step.

The trigger of a deferred task comes from Airflow's database, and its event goes there. The
announcements of a watcher go to the report; the test that reads them plays the scheduler. Airflow's
own triggerer is killed in `tests/airflow/`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.harness import stops
from tests.proof.world import DAG, OWN, STORES

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


def main(report: str) -> int:
    """Run until the deferred task has its event, or until SIGTERM.

    A watcher ends only by SIGTERM, as in a triggerer that is stopped.
    """
    return asyncio.run(_run(report))


async def _run(report: str) -> int:
    at_work = asyncio.create_task(_watch(report) if "PROOF_WATCH" in os.environ else _fire(report))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, at_work.cancel)
    try:
        await at_work
    except asyncio.CancelledError:
        return 0
    return 1 if "PROOF_WATCH" in os.environ else 0


async def _fire(report: str) -> None:
    number, trigger = await asyncio.to_thread(_deferred)
    async for event in trigger.run():
        await asyncio.to_thread(_submit, number, event)
        stops.say(report, fired=event.payload)
        return


async def _watch(report: str) -> None:
    from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger

    watcher = SfEventsWatchTrigger(
        os.environ["PROOF_TOPIC"],
        DAG,
        position_store=STORES[OWN],
        staging=os.environ["PROOF_STAGING"],
        initial_replay=os.environ.get("PROOF_INITIAL", "earliest"),
        max_events=int(os.environ.get("PROOF_MIN_EVENTS", "6")),
        max_wait=0.5,
        transport=os.environ["PROOF_TRANSPORT"],
    )
    async for event in watcher.run():
        stops.say(report, announced=event.payload)


def _deferred() -> tuple[int, BaseTrigger]:
    """Load the trigger of the task that was deferred last."""
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        row: Any = session.scalars(select(Trigger).order_by(Trigger.id.desc())).first()
        module, _, name = row.classpath.rpartition(".")
        return row.id, getattr(import_module(module), name)(**row.kwargs)


def _submit(number: int, event: Any) -> None:
    from airflow.models.trigger import Trigger

    Trigger.submit_event(number, event)
