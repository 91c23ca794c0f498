"""DAG of the proof: one task, and optionally a sensor before it.

The environment sets its topic, its position store and its job.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.positions.asset import topic_asset
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor

STORE = os.environ["PROOF_STORE"]
TOPIC = os.environ["PROOF_TOPIC"]
OPTIONS: dict[str, Any] = {"transport": os.environ["PROOF_TRANSPORT"]}
if STORE == "asset":
    OPTIONS["inlets"] = [topic_asset(os.environ["PROOF_ORG"], TOPIC)]
if STORE == "managed":
    OPTIONS["managed_subscription"] = os.environ["PROOF_MANAGED"]
if fallback := os.environ.get("PROOF_FALLBACK"):
    OPTIONS["replay_fallback"] = fallback
if initial := os.environ.get("PROOF_INITIAL"):
    OPTIONS["initial_replay"] = initial
LANDS: dict[str, Any] = {}
if most := os.environ.get("PROOF_MAX_QUARANTINED"):
    LANDS["max_quarantined"] = int(most)
if seconds := os.environ.get("PROOF_EXECUTION_TIMEOUT"):
    LANDS["execution_timeout"] = timedelta(seconds=float(seconds))
if until := os.environ.get("PROOF_UNTIL"):
    LANDS["until"] = until

with DAG("proof", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
    wait = SfEventsSensor(
        task_id="wait",
        topic=TOPIC,
        position_store=STORE,
        staging=os.environ["PROOF_STAGING"],
        min_events=int(os.environ.get("PROOF_MIN_EVENTS", "6")),
        idle_seconds=float(os.environ.get("PROOF_IDLE_SECONDS", "0.3")),
        deferrable="PROOF_DEFERRABLE" in os.environ,
        poke_interval=0.1,
        timeout=float(os.environ.get("PROOF_WAIT_SECONDS", "240")),
        **OPTIONS,
    )
    land = SfEventsToSparkOperator(
        task_id="land",
        topic=TOPIC,
        position_store=STORE,
        staging=os.environ["PROOF_STAGING"],
        table=os.environ["PROOF_LAKE"],
        idle_seconds=float(os.environ.get("PROOF_IDLE_SECONDS", "0.3")),
        max_events=int(os.environ.get("PROOF_MAX_EVENTS", "10000")),
        max_seconds=float(os.environ.get("PROOF_MAX_SECONDS", "30")),
        keep_batches=int(os.environ.get("PROOF_KEEP_BATCHES", "2")),
        **OPTIONS,
        **LANDS,
    )
    wait >> land
