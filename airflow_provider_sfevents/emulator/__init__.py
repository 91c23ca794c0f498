"""A stand-in for Salesforce's Pub/Sub API and its logins, for tests of this package and of yours.

    with Emulator() as bus:
        bus.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        bus.publish("/event/Order__e", [{"Order_Number__c": "A-1", "Amount__c": 12.5}])

The names below are loaded when they are first used: pytest imports this room in every session.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.emulator import Emulator
    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.errors import EmulatorError
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.managed.subscription_config import (
        ManagedConfig,
        ManagedRefusedError,
    )
    from airflow_provider_sfevents.emulator.org.channels.channel_members import ChannelMember
    from airflow_provider_sfevents.emulator.org.org import Org

__all__ = [
    "ChannelMember",
    "Emulator",
    "EmulatorClock",
    "EmulatorError",
    "Knobs",
    "ManagedConfig",
    "ManagedRefusedError",
    "Org",
]

_MODULES = {
    "ChannelMember": "org.channels.channel_members",
    "EmulatorClock": "emulator_clock",
    "Emulator": "emulator",
    "EmulatorError": "errors",
    "Knobs": "knobs",
    "ManagedConfig": "managed.subscription_config",
    "ManagedRefusedError": "managed.subscription_config",
    "Org": "org.org",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
