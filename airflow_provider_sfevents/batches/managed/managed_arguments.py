"""Validation of the arguments of `position_store="managed"`, for task, sensor and watcher."""

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
    """Return the managed subscription to fetch from; empty: none.

    :param is_rendered: `managed_subscription` is a final value, not a template.
    :raises ConfigurationError: the arguments contradict each other.
    """
    if position_store != MANAGED:
        _refuse_without(managed_subscription, allow_latest_recovery=allow_latest_recovery)
        return ""
    if not managed_subscription:
        raise ConfigurationError(
            "position_store='managed' needs managed_subscription: the developer name or the id "
            "(18x...) of the managed event subscription whose replay id Salesforce keeps."
        )
    if initial_replay != "earliest":
        raise ConfigurationError(
            f"initial_replay={initial_replay!r} cannot be used with position_store='managed': "
            "Salesforce keeps the replay id, and the subscription's defaultReplay says where it "
            "starts without one. Leave initial_replay out."
        )
    if replay_fallback != "fail":
        raise ConfigurationError(
            f"replay_fallback={replay_fallback!r} cannot be used with position_store='managed': "
            "the subscription's errorRecoveryReplay says where it continues when the replay id has "
            "expired. Leave replay_fallback out."
        )
    return check_reference(managed_subscription) if is_rendered else str(managed_subscription)


def _refuse_without(managed_subscription: Any, *, allow_latest_recovery: bool) -> None:
    if managed_subscription:
        raise ConfigurationError(
            f"managed_subscription={managed_subscription!r} is used with position_store='managed' "
            "only: give both, or neither."
        )
    if allow_latest_recovery:
        raise ConfigurationError(
            "allow_latest_recovery is about managed subscriptions: it needs "
            "position_store='managed'."
        )
