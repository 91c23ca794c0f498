"""Arguments of a watcher, checked when the DAG is parsed."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger


class Store:
    """A user's own store."""

    def get(self, key: str) -> str | None:
        return None

    def set(self, key: str, value: str) -> None:
        """Forget the record."""


def watch(**arguments: Any) -> SfEventsWatchTrigger:
    return SfEventsWatchTrigger(**{"topic": "/event/Order__e", "consumer": "orders", **arguments})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "Order__e"}, "'Order__e' is no topic"),
        ({"topic": "/event/{{ params.event }}"}, "is no topic"),
        ({"topic": None}, "topic is None. Give text."),
        ({"conn_id": 3}, "conn_id is 3. Give text."),
        ({"staging": 4}, "staging is 4. Give text, or leave it out."),
        ({"max_events": "x"}, "max_events is 'x'. Give a whole number."),
        ({"consumer": "a/b"}, "consumer='a/b'"),
        ({"consumer": ""}, "consumer=''"),
        ({"consumer": None}, "consumer is None. Give text."),
        ({"initial_replay": "yesterday"}, "'yesterday'"),
        ({"position_store": "xcom"}, "'xcom' is for tasks only"),
        ({"position_store": "managed"}, "needs managed_subscription"),
        ({"position_store": {}}, "position_store={} cannot be sent to the triggerer"),
        ({"position_store": Store}, "cannot be sent to the triggerer"),
        ({"position_store": ""}, "position_store=''"),
        ({"position_store": "nosuch.module.Store"}, "'nosuch.module.Store' is not a store"),
        ({"max_events": 0}, "max_events=0"),
        ({"max_wait": -1}, "max_wait=-1"),
        ({"again_after": 0}, "again_after=0"),
        ({"notifier": "nowhere.Pager"}, "'nowhere.Pager' names no notifier"),
        ({"notifier": print}, "Give text, or leave it out."),
    ],
    ids=lambda one: (
        "-".join(f"{name}={value}" for name, value in one.items()) if isinstance(one, dict) else ""
    ),
)
def test_what_cannot_work(arguments: dict[str, Any], said: str) -> None:
    """A wrong argument is refused at parse time, with its value and valid values."""
    with pytest.raises(ConfigurationError) as raised:
        watch(**arguments)
    assert said in str(raised.value)
    assert "SfEventsWatchTrigger" in str(raised.value)


def test_a_refusal_does_not_stop_the_triggerer() -> None:
    """A wrong argument is a `TypeError`, the only error that a triggerer survives there."""
    with pytest.raises(TypeError):
        watch(position_store="nosuch.module.Store")


@pytest.mark.parametrize("store", ["variable", "asset", f"{__name__}.Store"])
def test_stores_that_a_triggerer_can_open(store: str, request: pytest.FixtureRequest) -> None:
    """Airflow's own stores, and those that can be imported, are accepted."""
    if store == f"{__name__}.Store":
        store = "collections.UserDict"
    assert watch(position_store=store).position_store == store


def test_an_argument_that_there_is_not_is_refused() -> None:
    """A misspelled argument is refused at parse time; Airflow's own base class would ignore it."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'positionstore'"):
        watch(positionstore="asset")
