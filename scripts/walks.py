"""Walks of one value through the modules of this package, traced on real runs.

Run by `python -m scripts.walks`; with `--spark` the walks in Spark are traced, too.

1. The replay id of a stored position, from the Airflow Variable to the first FetchRequest.
2. An event's payload, from the FetchResponse to the row of a staged Parquet file; with `--spark`
   on to the row of an event table (Parquet).
3. With `--spark`: a change event from the staged file to the record in a current-state table
   (Delta; `SFEVENTS_LAKE_JARS` names the jars).

`walk_trace` says what a walk is. The numbers of modules have limits, and a walk beyond its limit
ends with exit code 1.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upath import UPath

from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.batches.stage import stage_batch
from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.positions.variable import VariableStore
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.spark.tables.naming import DELTA, JARS
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Run
from airflow_provider_sfevents.submit.java import find_java
from airflow_provider_sfevents.submit.preflight import quick_start
from scripts.walk_trace import COLUMN, Walk
from scripts.walk_worker import FOLDER, WANTED

if TYPE_CHECKING:
    from types import FrameType

TOPIC, CONSUMER = "/event/Order__e", "walks"
CHANGES = "/data/AccountChangeEvent"
MARK = "walked-through-every-module"  # a text in one event's payload
REPLAY_ID, PAYLOAD = "replay id", "payload"
TO_ROW = "payload, from the staged file to the row of an event table"
TO_STATE = "change event, from the staged file to the record in a current-state table"
LIMITS = {REPLAY_ID: 12, PAYLOAD: 8, TO_ROW: 17, TO_STATE: 25}
"""Numbers of modules; a payload's two parts together: 25."""

_WRITTEN = "AttemptWriter._write"

Walks = dict[str, list[str]]


def walks_of_a_fetch() -> Walks:
    """Fetch one batch after a stored position from the emulator; return both walks."""
    with Emulator() as bus, tempfile.TemporaryDirectory() as folder:
        bus.define_event("Order__e", {"Order_Number__c": "Text"})
        first, *_ = bus.publish(TOPIC, [{"Order_Number__c": "before"}])
        bus.publish(TOPIC, [{"Order_Number__c": MARK}])
        walks = {
            REPLAY_ID: Walk((first.hex(), first), "VariableStore.get", ("first_request",)),
            PAYLOAD: Walk((MARK.encode(),), "BidiStream.arrival", ("PartFile.write",)),
        }

        def profile(frame: FrameType, event: str, value: Any) -> None:
            for walk in walks.values():
                walk.profile(frame, event, value)

        _stage(bus, folder, TOPIC, first.hex(), Bounds(max_events=1, max_seconds=20), profile)
    return {name: list(walk.modules()) for name, walk in walks.items()}


def walks_in_spark() -> Walks:
    """Land a batch in Parquet tables, land and apply another one in Delta; return both walks."""
    jars = os.environ.get("SFEVENTS_LAKE_JARS")
    with Emulator() as bus, tempfile.TemporaryDirectory() as folder:
        bus.define_event("Order__e", {"Order_Number__c": "Text"})
        bus.publish(TOPIC, [{"Order_Number__c": MARK}])
        bus.define_object("Account")
        bus.create("Account", {"Name": "walks", "Industry": MARK})
        bounds = Bounds(max_events=10, max_seconds=60, idle_seconds=2)
        _stage(bus, folder, TOPIC, "earliest", bounds)
        _stage(bus, folder, CHANGES, "earliest", bounds)
        [orders] = Path(folder).glob("*/*/event.Order__e/*/*/manifest.json")
        [changes] = Path(folder).glob("*/*/data.AccountChangeEvent/*/*/manifest.json")
        land = ("land", "--manifest", str(orders), "--table", f"{folder}/lake")
        to_row = _in_spark("Order_Number__c", f"{_WRITTEN},publish", "Order__e/event_date=", *land)
        apply = ("apply", "--manifest", str(changes), "--table", f"{folder}/events")
        state = f"--current-state {folder}/state --format delta --new-entities empty"
        conf = ("--jars", jars) if jars else ("--packages", JARS[DELTA])
        to_state = _in_spark(
            "Industry",
            f"{_WRITTEN},view_of,StateTables._source",
            "AccountChangeEvent/event_date=",
            *apply,
            *state.split(),
            conf=conf,
        )
    return {TO_ROW: to_row, TO_STATE: to_state}


def _in_spark(
    column: str, last: str, files: str, *job: str, conf: tuple[str, ...] = ()
) -> list[str]:
    """Run a job with a trace, in a local Spark of its own, and return the modules of its walk.

    :param column: in which the event table has the value.
    :param last: function that ends the walk.
    :param files: a part of the names of the files that have the value, once it is written.
    :param conf: arguments for `spark-submit`.
    """
    columns = [f"{COLUMN}{name}" for name in ("payload", column, "event_values", "events")]
    with tempfile.TemporaryDirectory() as folder:
        given = {
            **quick_start("local[1]", 0, {}),
            "spark.python.daemon.module": "scripts.walk_worker",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
        }
        options = [one for key, value in given.items() for one in ("--conf", f"'{key}={value}'")]
        submit = ["--master", "local[1]", *conf, *options, "pyspark-shell"]
        (walks := Path(folder, "walks")).mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "scripts.walk_job", last, *job],
            env={
                **os.environ,
                "JAVA_HOME": find_java().home,
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_SUBMIT_ARGS": " ".join(submit),
                FOLDER: str(walks),
                WANTED: json.dumps([MARK, "manifest.json", files, *columns]),
            },
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"The job failed: {done.stdout}")
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return sorted(found, key=found.__getitem__)


def _stage(
    bus: Emulator,
    folder: str,
    topic: str,
    start: str,
    bounds: Bounds,
    profile: Any = None,
) -> None:
    """Stage one batch of a topic from a replay point on.

    :param profile: a hook for Python's profiling, for the time of the staging.
    """
    org = bus.connection()
    settings = Settings(
        login=ClientCredentials(
            login_url=org["host"], client_id=org["login"], client_secret=Secret(org["password"])
        ),
        endpoint=bus.endpoint,
        plaintext=True,
    )
    area = StagingArea(UPath(folder))
    asyncio.run(_staged(settings, topic, start, area, bounds, profile))


async def _staged(
    settings: Settings, topic: str, start: str, area: StagingArea, bounds: Bounds, profile: Any
) -> None:
    run = Run(dag="walks", run="r1", task="land")
    async with PubSubClient(settings) as client:
        session = await client.session()
        position = record.begin(
            org_id=session.org_id,
            instance_url=session.instance_url,
            topic=topic,
            consumer=CONSUMER,
            start=start,
            at=datetime.now(UTC).isoformat(),
            by=run,
            staging_id=area.staging_id(),
        )
        position = replace(position, initial_replay="earliest")
        os.environ[f"AIRFLOW_VAR_{variable_key(CONSUMER, topic).upper()}"] = position.to_json()
        request = BatchRequest(topic=topic, consumer=CONSUMER, run=run, bounds=bounds)
        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            staged = await stage_batch(
                request, client, area, lambda _: VariableStore(CONSUMER, topic), asyncio.Event()
            )
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        staged.release()


def main() -> int:
    walks = walks_of_a_fetch()
    if "--spark" in sys.argv[1:]:
        walks |= walks_in_spark()
    for name, modules in walks.items():
        print(f"{name}: {len(modules)} modules (limit: {LIMITS[name]})")
        print("".join(f"  {number:2} {module}\n" for number, module in enumerate(modules, 1)))
    return int(any(not 0 < len(modules) <= LIMITS[name] for name, modules in walks.items()))


if __name__ == "__main__":
    sys.exit(main())
