"""Checks of a watcher's arguments when the DAG is parsed."""

from __future__ import annotations

from typing import Any

from airflow_provider_sfevents.batches.managed.managed_arguments import MANAGED, check_managed
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.outgoing.notifiers import find_notifier
from airflow_provider_sfevents.positions.record_text import check_consumer
from airflow_provider_sfevents.positions.store_choice import check_spec
from airflow_provider_sfevents.positions.stores import find_own
from airflow_provider_sfevents.pubsub.topic_names import check_topic, check_transport
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.waiting.watch_rules import Rules

_STORES = ("variable", "asset", MANAGED)


class ArgumentRefusedError(ConfigurationError, TypeError):
    """An argument of a watcher is wrong.

    It is a `TypeError`, too, because Airflow's triggerer (3.3) survives no other error when it
    makes a trigger from its stored arguments. They were checked at parse time by the same rules,
    but another release, or a triggerer without the user's store, may decide otherwise.
    """


def check_watch(trigger: Any) -> Rules:
    """Check a watcher's arguments, which are its attributes; returns the rules for announcements.

    :raises ArgumentRefusedError: the message names the argument, its value and its valid values.
    """
    try:
        check_types(trigger, type(trigger))
        check_transport(check_topic(trigger.topic), trigger.transport)
        check_consumer(trigger.consumer)
        ReplayPoint.given(trigger.initial_replay)
        _check_store(trigger.position_store)
        check_managed(
            trigger.position_store,
            trigger.managed_subscription,
            allow_latest_recovery=trigger.allow_latest_recovery,
            initial_replay=trigger.initial_replay,
        )
        if trigger.notifier is not None:
            find_notifier(trigger.notifier)
        return Rules(
            max_events=trigger.max_events,
            max_wait=trigger.max_wait,
            again_after=trigger.again_after,
        )
    except ConfigurationError as error:
        raise ArgumentRefusedError(f"SfEventsWatchTrigger: {error}") from None


def _check_store(position_store: Any) -> None:
    if position_store in _STORES:
        return
    if position_store == "xcom":
        raise ConfigurationError(
            "position_store='xcom' is for tasks only: no XCom can be read outside of a task. Give "
            "'variable' or 'asset', also to the task that fetches."
        )
    if not isinstance(position_store, str):
        raise ConfigurationError(
            f"position_store={position_store!r} cannot be sent to the triggerer. Give 'variable', "
            "'asset', or your store's dotted path as text."
        )
    check_spec(position_store)
    find_own(position_store)
