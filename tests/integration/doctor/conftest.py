"""Orgs with and without faults, and connections to them in Airflow's environment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.doctor.org_checks import OrgChecks
from airflow_provider_sfevents.emulator import ChannelMember, Emulator, Knobs
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.doctor.findings import Finding

Look = Callable[..., "list[Finding]"]

FILTERED = "/data/Filtered__chn"
HEALTHY = (
    "/event/Order__e",
    "/event/Sales__chn",
    "/data/AccountChangeEvent",
    "/data/ChangeEvents",
    FILTERED,
)


@pytest.fixture(scope="session")
def org() -> Iterator[Emulator]:
    """An org with topics of every kind, and some that cannot be read or send nothing."""
    with Emulator(sample=True) as bus:
        bus.define_event("Secret__e", {"City__c": "Text"}, can_subscribe=False)
        bus.define_entity("Case", {"Subject": "Text"}, selected=False)
        account = ChannelMember(topic="Account", enriched_fields=("Name",), filter="Name != null")
        bus.define_channel(FILTERED, [account])
        bus.define_channel("/event/Empty__chn", [])
        yield bus
        bus.check()


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """Check an org by a connection in the environment; returns the lines."""

    def look(
        connection: dict[str, Any] | str | None,
        *,
        extra: dict[str, Any] | None = None,
        fields: dict[str, Any] | None = None,
        seconds: float = 30.0,
        environ: dict[str, str] | None = None,
        **checks: Any,
    ) -> list[Finding]:
        """Check by a connection with other fields and extras, or by a text, or by none."""
        if isinstance(connection, dict):
            merged = {**connection["extra"], **(extra or {})}
            connection = json.dumps({**connection, **(fields or {}), "extra": merged})
        if connection is not None:
            monkeypatch.setenv("AIRFLOW_CONN_OF_THE_DOCTOR", connection)
        made = OrgChecks(
            SfEventsHook("of_the_doctor").settings, seconds=seconds, environ=environ or {}, **checks
        )
        return asyncio.run(made.run())

    return look


@pytest.fixture(scope="session")
def with_knobs() -> Iterator[Callable[..., Emulator]]:
    """Start an emulator with these knobs; it is stopped with the session."""
    started: dict[tuple[Any, ...], Emulator] = {}

    def start(*, tls: bool = False, **knobs: Any) -> Emulator:
        key = (tls, *sorted(knobs.items()))
        if key not in started:
            started[key] = Emulator(tls=tls, sample=True, knobs=Knobs(**knobs)).start()
        return started[key]

    yield start
    for one in started.values():
        one.stop()
