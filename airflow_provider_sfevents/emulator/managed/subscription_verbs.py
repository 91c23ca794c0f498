"""Verbs of a test for managed subscriptions.

The service knows their changes at once; changes over REST take a while.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedConfig
    from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry


class ManagedVerbs(ABC):
    """Verbs for an org's managed subscriptions. Safe to use from any thread."""

    @property
    @abstractmethod
    def managed(self) -> ManagedRegistry: ...

    def define_managed_subscription(
        self,
        name: str,
        topic: str,
        *,
        default_replay: str = "LATEST",
        error_recovery_replay: str = "LATEST",
        state: str = "RUN",
        label: str = "",
    ) -> ManagedConfig:
        """Add a managed event subscription.

        :param name: developer name.
        :param default_replay: `LATEST` or `EARLIEST`: start while nothing is committed.
        :param error_recovery_replay: likewise, if the committed replay id has become invalid.
        :param state: `RUN` or `STOP`.
        :raises ManagedRefusedError: the org would refuse it.
        """
        return self.managed.create(
            name,
            topic,
            label=label,
            default_replay=default_replay,
            error_recovery_replay=error_recovery_replay,
            state=state,
            at_once=True,
        )

    def set_managed_subscription(self, name_or_id: str, **changes: Any) -> ManagedConfig:
        """Change a managed subscription; a running stream of one that is stopped ends.

        :param changes: `state`, `label`, `default_replay`, `error_recovery_replay`. `state="STOP"`
            drops the committed replay id.
        :raises ManagedRefusedError: the org would refuse it.
        """
        return self.managed.update(name_or_id, at_once=True, **changes)

    def delete_managed_subscription(self, name_or_id: str) -> None:
        """Remove a managed subscription with its committed replay id; its running stream ends.

        :raises ManagedRefusedError: the subscription does not exist.
        """
        self.managed.delete(name_or_id, at_once=True)

    @property
    def managed_subscriptions(self) -> tuple[ManagedConfig, ...]:
        """Every managed subscription with its committed replay id."""
        return self.managed.all()
