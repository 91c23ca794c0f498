"""`position_store="managed"`: whether the arguments of a task, a sensor or a watcher belong together."""

from __future__ import annotations

from typing import Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.managed.managed_rules import check_reference

MANAGED = "managed"


def check_managed(
    position_store: Any,
    managed_subscription: Any,
    *,
    allow_latest_recovery: bool,
    initial_replay: str = "earliest",
    replay_fallback: str = "fail",
    is_rendered: bool = True,
) -> str:
    """The managed subscription to fetch from; empty: none.

    :param is_rendered: `managed_subscription` is as it will be used, and no template.
    :raises ConfigurationError: the arguments contradict each other.
    """
    if position_store != MANAGED:
        _refuse_without(managed_subscription, allow_latest_recovery=allow_latest_recovery)
        return ""
    if not managed_subscription:
        raise ConfigurationError(
            "position_store='managed' needs managed_subscription: the developer name or the id (18x...) of the managed event subscription whose "
            "place Salesforce is to keep."
        )
    if initial_replay != "earliest":
        raise ConfigurationError(
            f"initial_replay={initial_replay!r} means nothing with position_store='managed': Salesforce keeps the place, and where it starts "
            "without one is the subscription's defaultReplay. Leave initial_replay out."
        )
    if replay_fallback != "fail":
        raise ConfigurationError(
            f"replay_fallback={replay_fallback!r} means nothing with position_store='managed': where it goes on when the place has left the bus "
            "is the subscription's errorRecoveryReplay. Leave replay_fallback out."
        )
    return check_reference(managed_subscription) if is_rendered else str(managed_subscription)


def _refuse_without(managed_subscription: Any, *, allow_latest_recovery: bool) -> None:
    if managed_subscription:
        raise ConfigurationError(
            f"managed_subscription={managed_subscription!r} is used with position_store='managed' only: give both, or neither."
        )
    if allow_latest_recovery:
        raise ConfigurationError(
            "allow_latest_recovery is about managed subscriptions: it needs position_store='managed'."
        )
