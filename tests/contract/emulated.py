"""The emulator's org for the contract suite, with everything that the suite needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.contract.orgs import TEXT

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator


class Furnished(NamedTuple):
    """Contents of the org, by the names of `OrgUnderTest`."""

    topic: str
    channel: str
    entity: str
    managed: str


def furnish(emulator: Emulator) -> Furnished:
    """Define the event, a channel, an object with change events, and a managed subscription."""
    topic = emulator.define_event("Contract__e", {TEXT: "Text"})
    emulator.define_channel("/event/Contract__chn", (topic,))
    emulator.define_object("Account")
    emulator.define_managed_subscription(
        "Contract", topic, default_replay="EARLIEST", error_recovery_replay="EARLIEST"
    )
    return Furnished(topic, "/event/Contract__chn", "Account", "Contract")
