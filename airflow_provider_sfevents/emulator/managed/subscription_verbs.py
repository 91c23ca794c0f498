"""The test's side of managed subscriptions. What is done here the service knows at once; over REST it takes a while."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedConfig
    from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry


class ManagedVerbs(ABC):
    """What a test does to an org's managed subscriptions. Safe to use from any thread."""

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

        :param name: its developer name.
        :param default_replay: `LATEST` or `EARLIEST`: where it starts while nothing is committed.
        :param error_recovery_replay: likewise, when what was committed has become invalid.
        :param state: `RUN` or `STOP`.
        :raises ManagedRefusedError: for what the org would refuse.
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

        :param changes: `state`, `label`, `default_replay`, `error_recovery_replay`. `state="STOP"` forgets the committed
            replay id.
        :raises ManagedRefusedError: for what the org would refuse.
        """
        return self.managed.update(name_or_id, at_once=True, **changes)

    def delete_managed_subscription(self, name_or_id: str) -> None:
        """Remove a managed subscription with its committed replay id; its running stream ends.

        :raises ManagedRefusedError: when there is none.
        """
        self.managed.delete(name_or_id, at_once=True)

    @property
    def managed_subscriptions(self) -> tuple[ManagedConfig, ...]:
        """All of them, with what is committed now."""
        return self.managed.all()
