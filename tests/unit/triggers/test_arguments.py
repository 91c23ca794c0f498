"""What a watcher takes, and what it refuses when the DAG is parsed."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger


class Store:
    """A store of a user's own."""

    def get(self, key: str) -> str | None:
        return None

    def set(self, key: str, value: str) -> None:
        """Forgets it."""


def watch(**arguments: Any) -> SfEventsWatchTrigger:
    return SfEventsWatchTrigger(**{"topic": "/event/Order__e", "consumer": "orders", **arguments})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "Order__e"}, "'Order__e' is no topic"),
        ({"topic": "/event/{{ params.event }}"}, "is no topic"),
        ({"topic": None}, "topic=None"),
        ({"consumer": "a/b"}, "consumer='a/b'"),
        ({"consumer": ""}, "consumer=''"),
        ({"consumer": None}, "consumer=None"),
        ({"initial_replay": "yesterday"}, "'yesterday'"),
        ({"position_store": "xcom"}, "'xcom' is for tasks only"),
        ({"position_store": "managed"}, "needs managed_subscription"),
        ({"position_store": {}}, "position_store={} cannot be handed to the triggerer"),
        ({"position_store": Store}, "cannot be handed to the triggerer"),
        ({"position_store": ""}, "position_store=''"),
        ({"position_store": "nosuch.module.Store"}, "'nosuch.module.Store' is not a store"),
        ({"max_events": 0}, "max_events=0"),
        ({"max_wait": -1}, "max_wait=-1"),
        ({"again_after": 0}, "again_after=0"),
    ],
    ids=lambda one: (
        "-".join(f"{name}={value}" for name, value in one.items()) if isinstance(one, dict) else ""
    ),
)
def test_what_cannot_work(arguments: dict[str, Any], said: str) -> None:
    """It is refused when the DAG is parsed, with the argument, its value and what it may be."""
    with pytest.raises(ConfigurationError) as raised:
        watch(**arguments)
    assert said in str(raised.value)
    assert "SfEventsWatchTrigger" in str(raised.value)


def test_a_refusal_does_not_stop_the_triggerer() -> None:
    """Airflow's triggerer lives on over a TypeError when it makes a trigger, and over nothing else."""
    with pytest.raises(TypeError):
        watch(position_store="nosuch.module.Store")


@pytest.mark.parametrize("store", ["variable", "asset", f"{__name__}.Store"])
def test_stores_that_a_triggerer_can_open(store: str, request: pytest.FixtureRequest) -> None:
    """Airflow's own, and whatever can be imported there."""
    if store == f"{__name__}.Store":
        store = "collections.UserDict"
    assert watch(position_store=store).position_store == store
