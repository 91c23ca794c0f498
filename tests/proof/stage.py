"""Set up a stage, which trials share: see `world.Stage`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.harness.airflow_home import settings
from tests.harness.emulated_salesforce import EmulatedSalesforce
from tests.harness.supervised import WarmAirflow
from tests.proof.world import HERE, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

KNOBS = {
    "half_close_seconds": "0.02",  # streams end quickly; nothing else depends on it
    "response_events": "4",  # twelve events are three responses
    "slot_hold_seconds": "0",  # a managed subscription is free at once
    "commit_response_seconds": "0.05",
    "keepalive_seconds": "1.0",  # for waits on a quiet topic; a fetch is shorter
    "cometd_batch_events": "4",
    "cometd_time_scale": "0.03",  # a poll is held for 3.3 s, a killed client is lost after 1.2 s
}
AIRFLOW = {
    "AIRFLOW__CORE__DAGS_FOLDER": str(HERE / "definitions"),
    # Longest time in which a supervisor notices the end of its task, and in which it gives up
    # sockets that a killed task left open.
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    "AIRFLOW__WORKERS__SOCKET_CLEANUP_TIMEOUT": "1",
}


@contextmanager
def open_stage(folder: Path, database: Path, environment: Mapping[str, str]) -> Iterator[Stage]:
    """Start what worlds share, and end it with the block.

    :param database: a new Airflow database, which each world copies.
    :param environment: what `spark-submit` needs.
    """
    home = folder / "airflow"
    home.mkdir(parents=True)
    bus = EmulatedSalesforce(folder=folder / "salesforce", knobs=KNOBS).start()
    airflow_settings = {**settings(home), **AIRFLOW}
    airflow_settings["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{database}"
    try:
        with WarmAirflow(airflow_settings, folder / "warm-airflow.log") as airflow:
            yield Stage(
                airflow=airflow,
                bus=bus,
                database=database,
                environment={"PATH": os.environ["PATH"], **environment},
                folder=folder / "worlds",
            )
    finally:
        bus.stop()
