"""What all faces of one emulator share: orgs, sessions, clock, knobs, the book, failures to come."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.allocations import PublishAllocation
from airflow_provider_sfevents.emulator.cometd_clients import Clients
from airflow_provider_sfevents.emulator.delivery_faults import DeliveryFaults
from airflow_provider_sfevents.emulator.faults import Faults
from airflow_provider_sfevents.emulator.protection import Protection
from airflow_provider_sfevents.emulator.records import Records
from airflow_provider_sfevents.emulator.running import RunningStreams
from airflow_provider_sfevents.emulator.sessions import Sessions

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator.bus import Bus
    from airflow_provider_sfevents.emulator.clock import Clock
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.managed.registry import ManagedRegistry
    from airflow_provider_sfevents.emulator.oauth import Tenant


@dataclass(slots=True, kw_only=True)
class State:
    """One emulator's state; its parts lock for themselves.

    :param publishing: what clients published in the last hour.
    :param managed: managed subscriptions, by org.
    :param defects: errors of the emulator itself, which must fail the test that met them.
    :param carries: told of each call: from which peer, of which RPC.
    """

    clock: Clock
    knobs: Knobs
    sessions: Sessions
    faults: Faults
    delivery: DeliveryFaults
    publishing: PublishAllocation
    protection: Protection
    running: RunningStreams = field(default_factory=RunningStreams)
    records: Records = field(default_factory=Records)
    cometd: Clients = field(default_factory=Clients)
    tenants: list[Tenant] = field(default_factory=list)
    buses: dict[str, Bus] = field(default_factory=dict)
    managed: dict[str, ManagedRegistry] = field(default_factory=dict)
    defects: list[BaseException] = field(default_factory=list)
    carries: Callable[[str, str], None] = lambda _peer, _rpc: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def new(cls, *, clock: Clock, knobs: Knobs) -> State:
        return cls(
            clock=clock,
            knobs=knobs,
            sessions=Sessions(clock=clock, idle_hours=knobs.token_idle_hours),
            faults=Faults(knobs),
            delivery=DeliveryFaults(knobs),
            publishing=PublishAllocation(clock=clock, knobs=knobs),
            protection=Protection(
                calls_per_second=knobs.calls_per_second, max_clients=knobs.max_clients
            ),
        )

    def bus(self, org_id: str) -> Bus:
        return self.buses[org_id]

    def add(self, tenant: Tenant, bus: Bus, managed: ManagedRegistry) -> None:
        with self._lock:
            self.buses[tenant.identity.org_id] = bus
            self.managed[tenant.identity.org_id] = managed
            self.tenants.append(tenant)

    def defect(self, error: BaseException) -> None:
        with self._lock:
            self.defects.append(error)
