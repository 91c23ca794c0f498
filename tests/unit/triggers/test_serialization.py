"""Triggers in Airflow's database: unchanged after reading, and without a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.models.trigger import Trigger
from airflow.sdk import DAG, AssetWatcher
from airflow.sdk._shared.module_loading import import_string
from airflow.serialization.encoders import encode_trigger
from airflow.serialization.serialized_objects import DagSerialization
from airflow.triggers.base import BaseEventTrigger, BaseTrigger

from airflow_provider_sfevents.positions.asset import topic_asset
from airflow_provider_sfevents.triggers.sfevents import SfEventsTrigger, SfEventsWatchTrigger

COMING = {
    "org_id": "00D000000000001EAA",
    "consumer": "orders",
    "topic": "/event/Order__e",
    "epoch": "e1",
    "batch_number": 4,
    "start": "0a1b",
}


class OwnWatch(SfEventsWatchTrigger):
    """A user's own watcher."""


TRIGGERS: dict[str, BaseTrigger] = {
    "waits": SfEventsTrigger(
        next_batch=COMING,
        conn_id="sandbox",
        staging=None,
        min_events=3,
        until="2026-01-01T00:00:00+00:00",
        run={"dag": "orders", "run": "r", "task": "wait", "map_index": -1, "try_number": 1},
    ),
    "watches": SfEventsWatchTrigger(
        "/event/Order__e",
        "orders",
        conn_id="sandbox",
        position_store="asset",
        staging="s3://aws_default@staging/sfevents",
        initial_replay="latest",
        max_events=7,
        max_wait=0.5,
        again_after=60,
    ),
    "watches a managed subscription": SfEventsWatchTrigger(
        "/event/Order__e",
        "orders",
        position_store="managed",
        managed_subscription="Orders",
        allow_latest_recovery=True,
        notifier="tests.unit.hooks.test_notifiers.Pager",
    ),
    "a class of a user": OwnWatch("/event/Order__e", "orders"),
}


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_trigger_is_made_again_from_what_is_stored(name: str) -> None:
    """Class and arguments survive Airflow's encoding, and make an equal trigger."""
    trigger = TRIGGERS[name]
    path, arguments = trigger.serialize()
    stored = Trigger._decrypt_kwargs(Trigger.encrypt_kwargs(arguments))
    again = import_string(path)(**stored)
    assert type(again) is type(trigger)
    assert again.serialize() == (path, arguments)


def test_every_argument_of_a_watcher_is_stored() -> None:
    """Each argument of a watcher is stored, and none falls back to its default."""
    _, arguments = TRIGGERS["watches"].serialize()
    _, defaults = SfEventsWatchTrigger("/event/Order__e", "orders").serialize()
    assert {name for name in arguments if arguments[name] == defaults[name]} == {
        "topic",
        "consumer",
    }


def test_a_watcher_is_known_by_its_arguments() -> None:
    """Airflow identifies a watcher by class and arguments, in DAG file and database."""
    path, arguments = TRIGGERS["watches"].serialize()
    encoded: dict[str, Any] = encode_trigger(TRIGGERS["watches"])
    stored = Trigger._decrypt_kwargs(Trigger.encrypt_kwargs(arguments))
    assert BaseEventTrigger.hash(path, arguments) == BaseEventTrigger.hash(path, stored)
    assert BaseEventTrigger.hash(encoded["classpath"], encoded["kwargs"]) == BaseEventTrigger.hash(
        path, arguments
    )
    assert json.dumps(encoded)


def test_a_dag_scheduled_by_a_watched_topic_is_stored() -> None:
    """Airflow stores the watcher with the asset, under its own name."""
    watcher = AssetWatcher(name="orders", trigger=TRIGGERS["watches"])
    orders = topic_asset("00D000000000001EAA", "/event/Order__e", watchers=[watcher])
    with DAG("orders", schedule=[orders]) as dag:
        pass
    stored = json.dumps(DagSerialization.to_dict(dag))
    assert SfEventsWatchTrigger.__name__ in stored
    assert orders.name in stored


def test_a_watcher_is_no_trigger_for_a_task() -> None:
    """A watcher is declared as one that schedules DAGs: a task would wait without end."""
    assert issubclass(SfEventsWatchTrigger, BaseEventTrigger)
    assert not issubclass(SfEventsTrigger, BaseEventTrigger)
