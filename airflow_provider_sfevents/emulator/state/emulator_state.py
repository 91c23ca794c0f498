"""State shared by all APIs of an emulator: orgs, sessions, clock, knobs, call log, faults."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.faults.delivery_faults import DeliveryFaults
from airflow_provider_sfevents.emulator.faults.fault_orders import FaultOrders
from airflow_provider_sfevents.emulator.state.call_log import CallLog
from airflow_provider_sfevents.emulator.state.client_limits import ClientLimits
from airflow_provider_sfevents.emulator.state.cometd_clients import CometdClients
from airflow_provider_sfevents.emulator.state.open_streams import OpenEventStreams
from airflow_provider_sfevents.emulator.state.org_sessions import OrgSessions
from airflow_provider_sfevents.emulator.state.publish_allocation import PublishAllocation

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry
    from airflow_provider_sfevents.emulator.state.org_identity import Tenant


@dataclass(slots=True, kw_only=True)
class EmulatorState:
    """State of one emulator; its parts have locks of their own.

    :param publishing: events published by clients in the last hour.
    :param managed: managed subscriptions, by org.
    :param defects: errors of the emulator itself, which must fail the current test.
    :param carries: called for each call with its peer and RPC.
    """

    clock: EmulatorClock
    knobs: Knobs
    sessions: OrgSessions
    faults: FaultOrders
    delivery: DeliveryFaults
    publishing: PublishAllocation
    protection: ClientLimits
    running: OpenEventStreams = field(default_factory=OpenEventStreams)
    call_log: CallLog = field(default_factory=CallLog)
    cometd: CometdClients = field(default_factory=CometdClients)
    tenants: list[Tenant] = field(default_factory=list)
    buses: dict[str, Bus] = field(default_factory=dict)
    managed: dict[str, ManagedRegistry] = field(default_factory=dict)
    defects: list[BaseException] = field(default_factory=list)
    carries: Callable[[str, str], None] = lambda _peer, _rpc: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def new(cls, *, clock: EmulatorClock, knobs: Knobs) -> EmulatorState:
        return cls(
            clock=clock,
            knobs=knobs,
            sessions=OrgSessions(clock=clock, idle_hours=knobs.token_idle_hours),
            faults=FaultOrders(knobs),
            delivery=DeliveryFaults(knobs),
            publishing=PublishAllocation(clock=clock, knobs=knobs),
            protection=ClientLimits(
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
