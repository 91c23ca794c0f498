"""Waits that cannot write or share the staging area, or are killed, and their extra deliveries."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.waiting import batch_status, listen
from airflow_provider_sfevents.waiting.wait_result import WaitResult
from tests.integration.batches.conftest import TOPIC, publish, staged_ids, until

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.next_batch import NextBatch
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.batches.conftest import Consumer, Waiter


@pytest.fixture
def apart(waiter: Waiter) -> Waiter:
    """Make a triggerer's staging area unwritable, by a file instead of its folders."""
    root = waiter.consumer.root.with_name("apart")
    next_batch = waiter.next_batch()
    folder = root / next_batch.folder(waiter.area).folder.relative_to(waiter.consumer.root)
    folder.mkdir(parents=True)
    (folder / "leases").write_text("in the way")
    return replace(waiter, root=root)


def _delivered(bus: Emulator, count: int) -> bool:
    return bus.deliveries(TOPIC) == count


async def awaited(bus: Emulator, waiter: Waiter, next_batch: NextBatch, count: int) -> WaitResult:
    """Run a wait, and publish so many events one after another once it listens."""
    listening = asyncio.create_task(waiter.wait(next_batch))
    await until(lambda: bus.open_streams == 1)
    for number in range(1, count + 1):
        publish(bus, number, 1)
        await until(partial(_delivered, bus, number))
    return await listening


def test_what_cannot_be_staged_is_reported_all_the_same(
    bus: Emulator,
    consumer: Consumer,
    waiter: Waiter,
    apart: Waiter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Events that a wait cannot stage are reported, and delivered to the task once more."""
    with caplog.at_level(logging.WARNING):
        waited = asyncio.run(awaited(bus, apart, waiter.next_batch(), 1))
    assert (waited.events, waited.staged) == (1, False)
    assert "count a second time against the org's daily allowance" in caplog.text
    assert not waiter.find().enough
    pending = waiter.find(waited)
    assert (pending.enough, pending.staged, pending.events) == (True, False, 1)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (1, 2)


async def listened(
    bus: Emulator, waiter: Waiter, next_batch: NextBatch, *, until_enough: bool
) -> WaitResult:
    """Run a listener for three events with a short `max_wait`; the third comes much later."""
    async with waiter.consumer.client() as client:
        plan, bounds = batch_status.read_status(next_batch, waiter.area).plan, Bounds(max_events=3)
        listening = asyncio.create_task(
            listen.listen(
                next_batch,
                plan,
                client,
                waiter.area,
                bounds,
                run=waiter.run,
                max_wait=0.1,
                until_enough=until_enough,
            )
        )
        publish(bus, 1, 2)
        await asyncio.wait((listening,), timeout=1.0)
        publish(bus, 3, 1)
        return await listening


@pytest.mark.parametrize(
    ("until_enough", "events", "ended_by"),
    [(False, 2, "max_wait"), (True, 3, "max_events")],
    ids=["a watcher", "a wait"],
)
def test_a_stream_is_not_left_for_another_one(
    bus: Emulator, waiter: Waiter, apart: Waiter, until_enough: bool, events: int, ended_by: str
) -> None:
    """A wait that can stage nothing stays on its stream until it has enough; a watcher does not."""
    waited = asyncio.run(listened(bus, apart, waiter.next_batch(), until_enough=until_enough))
    assert (waited.events, waited.staged, waited.ended_by) == (events, False, ended_by)


def test_a_wait_that_can_close_no_file_stays_on_its_stream(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """A wait that can close no file finds that out once, and stays on its stream."""
    next_batch = waiter.next_batch()
    attempts = next_batch.folder(waiter.area).folder / "attempts"
    attempts.parent.mkdir(parents=True)
    attempts.write_text("in the way")
    waiter.min_events, waiter.gather_seconds = 3, 0.05
    publish(bus, 1, 2)

    async def run() -> WaitResult:
        listening = asyncio.create_task(waiter.wait(next_batch))
        await until(partial(_delivered, bus, 4))
        await asyncio.wait((listening,), timeout=1.0)
        publish(bus, 3, 1)
        return await listening

    waited = asyncio.run(run())
    assert (waited.events, waited.staged, bus.deliveries(TOPIC)) == (3, False, 5)


def test_a_poke_that_can_stage_nothing_and_has_too_little_fails(
    bus: Emulator, waiter: Waiter, apart: Waiter
) -> None:
    """A poke that can stage nothing and has too few events fails."""
    apart.min_events = 3
    publish(bus, 1, 2)
    with pytest.raises(StagingError, match="2 of 3 events came so far, and each poke"):
        apart.poke()


def test_files_that_only_the_triggerer_sees_are_believed(
    bus: Emulator, consumer: Consumer, waiter: Waiter, caplog: pytest.LogCaptureFixture
) -> None:
    """Events that only the triggerer sees are enough, with a warning of cost and remedy."""
    triggerer = replace(waiter, root=consumer.root.with_name("triggerer"))
    waited = asyncio.run(awaited(bus, triggerer, waiter.next_batch(), 1))
    assert waited.staged
    with caplog.at_level(logging.WARNING):
        pending = waiter.find(waited)
    assert (pending.enough, pending.staged) == (True, False)
    assert "of which this worker sees 0 in file://" in caplog.text
    assert "Give triggerer and workers one staging area" in caplog.text


@pytest.mark.parametrize(
    "change", [{"batch_id": "another-1"}, {"events": 0}], ids=["another batch", "not enough"]
)
def test_only_enough_of_this_batch_is_believed(
    bus: Emulator, waiter: Waiter, change: dict[str, object]
) -> None:
    """A trigger's result counts only for this batch, and only if it has enough events."""
    waited = WaitResult(batch_id=waiter.next_batch().batch_id, events=5)
    assert waiter.find(waited).enough
    assert not waiter.find(replace(waited, **change)).enough  # type: ignore[arg-type]


def test_a_damaged_file_is_no_event(bus: Emulator, consumer: Consumer, waiter: Waiter) -> None:
    """Events of a damaged file are fetched again, and a wait does not count them."""
    ids = publish(bus, 1, 1)
    waiter.poke()
    (file,) = consumer.root.rglob("part-*.parquet")
    file.write_bytes(file.read_bytes()[:50])
    assert not waiter.find().enough
    assert staged_ids(consumer, consumer.run_once()) == ids


_POKE = """
import asyncio, json, sys
from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.waiting.poke import poke
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.staging.area import StagingArea
from upath import UPath

given = json.loads(sys.argv[1])
url, name, secret = given["login"]
login = ClientCredentials(login_url=url, client_id=name, client_secret=Secret(secret))
settings = Settings(login=login, endpoint=given["endpoint"], plaintext=True)
bounds = Bounds(idle_seconds=60)
request = BatchRequest(topic=given["topic"], consumer="orders", bounds=bounds, owns=False)

async def run():
    async with PubSubClient(settings) as client:
        store = MappingStore(given["positions"], "orders")
        area = StagingArea(UPath(given["root"]))
        await poke(request, 10, client, area, lambda _: store, asyncio.Event())

asyncio.run(run())
"""


_WAIT = """
import asyncio, sys, tempfile, threading

loud = []
main = threading.main_thread()
sys.addaudithook(
    lambda event, given: event == "import"
    and given[0] == "pyarrow"
    and loud.append(threading.current_thread() is main)
)
from upath import UPath
from airflow_provider_sfevents.waiting.listen import listen
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.staging.area import StagingArea
from tests.unit.waiting.test_listen import COMING, SENSOR, Came, Service, plan

area = StagingArea(UPath(tempfile.mkdtemp()))
begun = plan(area)
assert not loud, "too early to tell"
heard = asyncio.run(listen(COMING, begun, Service([Came(1, 2)]), area, Bounds(), run=SENSOR))
assert heard.staged and loud
sys.exit(any(loud))
"""


def test_arrow_is_imported_beside_the_event_loop() -> None:
    """Arrow is imported in a thread, because the import takes a third of a second."""
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    subprocess.run([sys.executable, "-c", _WAIT], env=environment, check=True, timeout=60)


@pytest.mark.full
def test_a_killed_poke_costs_what_was_in_memory(
    bus: Emulator, consumer: Consumer, waiter: Waiter
) -> None:
    """After a killed poke only the events of the last seconds are delivered again."""
    waiter.next_batch()  # begins the position
    login = consumer.settings.login
    assert isinstance(login, ClientCredentials)
    given = {
        "login": [login.login_url, login.client_id, login.client_secret.reveal()],
        "endpoint": consumer.settings.endpoint,
        "topic": TOPIC,
        "positions": consumer.positions,
        "root": str(consumer.root),
    }
    command = [sys.executable, "-c", _POKE, json.dumps(given)]
    ids = publish(bus, 1, 4)
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())}) as poking:
        asyncio.run(until(lambda: list(consumer.root.rglob("part-*.parquet"))))
        ids += publish(bus, 5, 1)
        asyncio.run(until(lambda: bus.deliveries(TOPIC) == 5))
        poking.send_signal(signal.SIGKILL)
    staged = consumer.run_once()
    assert staged_ids(consumer, staged) == ids
    assert bus.deliveries(TOPIC) in (5, 6)
