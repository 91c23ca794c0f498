"""Peak memory of a worker's process for a task over Spark Connect, beside its imports alone.

The task is `SfEventsToSparkOperator` in a process of its own; bus and server are others. One batch
of 10,000 events of 1 kB is landed; 100,000 change events are landed and applied.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import Emulator, Knobs
from benchmarks.staging_memory import MAXRSS_PER_MIB
from scripts.local_spark_connect import LocalSparkConnect
from tests.harness.jars import Jars
from tests.harness.spark import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT_MIB = 350
EVENTS, CHANGES, AT_ONCE = 10_000, 100_000, 1_000
TOPIC = "/event/Wide__e"


def task(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Execute the operator in this process; returns its figures and the peak."""
    import pytest

    from tests.integration.operators.conftest import Task

    imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MAXRSS_PER_MIB
    folder = Path(arguments["folder"])
    with pytest.MonkeyPatch.context() as patch:
        done = Task(staging=folder / "staging", monkeypatch=patch).execute(**arguments["task"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MAXRSS_PER_MIB
    return {"events": done["events"], "peak_mib": peak, "imported_mib": imported}


def apart(bus: Emulator, server: LocalSparkConnect, folder: Path, **options: Any) -> dict[str, Any]:
    """Execute the operator in a process of its own."""
    folder.mkdir()
    settings = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW_CONN_SFEVENTS_DEFAULT": json.dumps(bus.connection()),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(server.connection()),
        "AIRFLOW__SFEVENTS__SPARK_CONNECT_CHECK_SECONDS": "300",
    }
    said = {"folder": str(folder), "task": {"table_format": "delta", **options}}
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.connect_memory", json.dumps(said)],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main() -> int:
    jars = [str(one) for one in Jars().delta]
    environ = {**os.environ, **environment(), "PYTHONPATH": str(Path(__file__).parents[1])}
    with (
        tempfile.TemporaryDirectory() as made,
        Emulator(knobs=Knobs(delivery_allocation=None)) as bus,
        LocalSparkConnect.running(Path(made), environ, jars=jars) as server,
    ):
        bus.define_event("Wide__e", {"Text__c": "LongTextArea"})
        for _ in range(EVENTS // AT_ONCE):
            bus.publish(TOPIC, [{"Text__c": "x" * 1_000}] * AT_ONCE)
        found = apart(bus, server, Path(made) / "events", topic=TOPIC, max_events=EVENTS)
        within = report(f"{EVENTS:,} events of 1 kB landed", found)
        changes = bus.define_object("Wide__c", {"Text__c": "Text"})
        for _ in range(CHANGES // AT_ONCE):
            with bus.transaction() as transaction:
                for number in range(AT_ONCE):
                    transaction.create("Wide__c", {"Text__c": f"{number}, a text"})
        lake = Path(made) / "changes" / "state"
        options = {"topic": changes, "max_events": CHANGES, "current_state": str(lake)}
        found = apart(bus, server, Path(made) / "changes", **options)
        within &= report(f"{CHANGES:,} change events landed and applied", found)
    return 0 if within else 1


def report(title: str, found: Mapping[str, Any]) -> bool:
    print(
        f"  {title:40}  {found['events']:,} events  imports {found['imported_mib']:.0f} MiB  "
        f"peak {found['peak_mib']:.0f} MiB (limit: {LIMIT_MIB} MiB)",
        flush=True,
    )
    return bool(found["peak_mib"] <= LIMIT_MIB)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(task(json.loads(sys.argv[1]))))
    else:
        sys.exit(main())
