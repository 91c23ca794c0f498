"""The emulator: it combines orgs, buses and servers, and serves the test that runs it."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import override

from airflow_provider_sfevents.emulator.airflow_connection import connection
from airflow_provider_sfevents.emulator.bus.event_bus import Bus
from airflow_provider_sfevents.emulator.bus.journal import open_log
from airflow_provider_sfevents.emulator.cli.remote import TOKEN_VARIABLE, EmulatorAddress
from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.extras import require
from airflow_provider_sfevents.emulator.fault_verbs import FaultVerbs
from airflow_provider_sfevents.emulator.http.admin.admin_guard import own_names
from airflow_provider_sfevents.emulator.http.logins.oauth_tokens import TokenEndpoint
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry
from airflow_provider_sfevents.emulator.network.hosting import Hosting
from airflow_provider_sfevents.emulator.org.org import Org
from airflow_provider_sfevents.emulator.org.org_verbs import OrgParts, OrgVerbs
from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState
from airflow_provider_sfevents.emulator.state.org_identity import Identity, Tenant
from airflow_provider_sfevents.emulator.state_folder import read_orgs, write_orgs

if TYPE_CHECKING:
    from types import TracebackType

    from airflow_provider_sfevents.emulator.network.servers import HttpHost
    from airflow_provider_sfevents.emulator.state.call_log import RecordedCall


class Emulator(OrgVerbs, FaultVerbs):
    """A stand-in for Salesforce: Pub/Sub API, REST and logins, served by a thread of its own.

    Use it as a context manager, or call `start` and `stop`. Its verbs (`define_event`, `publish`
    ...) apply to its first org, `org`; those of `FaultVerbs` (`fail_next`, `freeze` ...) apply to
    all orgs.

    `token` is the token of its admin API, which returns the orgs' secrets: from the environment
    variable SFEVENTS_EMULATOR_TOKEN, otherwise random.

    :param tls: serve gRPC and HTTP over TLS; clients must trust `ca_file`.
    :param folder: folder that keeps events, schemas, orgs and ports for the next start.
    :param clock: clock of retention and token life; created if not given.
    :param sample: define a realistic org: orders, accounts, contacts.
    :param http_port: port of the first org's My Domain; 0: the port from the folder, or a free one.
    :param login_port: port of the login host of all orgs, likewise; `grpc_port` likewise.
    :param host: address to listen on.
    """

    def __init__(
        self,
        *,
        tls: bool = False,
        folder: str | Path | None = None,
        knobs: Knobs | None = None,
        clock: EmulatorClock | None = None,
        sample: bool = False,
        grpc_port: int = 0,
        http_port: int = 0,
        login_port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.clock = clock or EmulatorClock()
        self.knobs = knobs or Knobs()
        self._tls = tls
        self._folder = Path(folder).resolve() if folder else None
        self._sample = sample
        self._ports = {"grpc_port": grpc_port, "http_port": http_port, "login_port": login_port}
        self._host = host
        self.token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)
        self._hosting: Hosting | None = None
        self._login: HttpHost | None = None
        self._state = EmulatorState.new(clock=self.clock, knobs=self.knobs)
        self._orgs: list[Org] = []

    # --- start and stop ---------------------------------------------------------------------------

    def start(self) -> Self:
        """Start listening; return when gRPC and HTTP answer.

        :raises EmulatorError: a port is in use, an extra is not installed, or the folder is not an
            emulator's.
        """
        if self._hosting:
            raise EmulatorError(f"this emulator runs already, at {self.endpoint}")
        for module in ("grpc", "grpc_reflection", "fastavro", "starlette", "uvicorn", "jwt"):
            require(module)
        self._state = EmulatorState.new(clock=self.clock, knobs=self.knobs)
        self._orgs = []
        self._hosting = Hosting(host=self._host, folder=self._folder, tls=self._tls)
        try:
            self._open(self._hosting)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Close every stream and port; the call log stays readable."""
        hosting, self._hosting = self._hosting, None
        self._state.cometd.close()
        if hosting:
            hosting.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- addresses --------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """`host:port` of the Pub/Sub API."""
        return self._here().endpoint

    @property
    def login_url(self) -> str:
        """URL of the login host of all orgs, as login.salesforce.com.

        Refuses client credentials.
        """
        if self._login is None:
            raise EmulatorError("the emulator was never started")
        return self._here().url(self._login)

    @property
    def my_domain_url(self) -> str:
        """URL of the first org's My Domain, which is its instance URL."""
        return self.org.instance_url

    @property
    def ca_file(self) -> str:
        """Path of the certificate to trust; empty without TLS."""
        return self._here().ca_file

    @property
    def address(self) -> EmulatorAddress:
        """Address for the command line; `write` saves it as a state file."""
        return EmulatorAddress(
            url=self.my_domain_url,
            endpoint=self.endpoint,
            login_url=self.login_url,
            org_id=self.org.org_id,
            ca_file=self.ca_file,
            pid=os.getpid(),
            token=self.token,
        )

    @property
    def org(self) -> Org:
        """The first org."""
        if not self._orgs:
            raise EmulatorError(
                "the emulator was never started; use `with Emulator() as bus:` or call start()"
            )
        return self._orgs[0]

    @property
    def orgs(self) -> tuple[Org, ...]:
        return tuple(self._orgs)

    def add_org(self, name: str = "") -> Org:
        """Add an org with its own bus, connected app and My Domain."""
        org = self._add(Identity.new(name or f"org{len(self._orgs) + 1}"))
        self._save()
        return org

    def connection(
        self, auth: str = "client_credentials", org: Org | None = None
    ) -> dict[str, Any]:
        """Airflow connection to an org: `conn_type`, `host`, `login`, `password` and `extra`.

        :param auth: `client_credentials`, `jwt_bearer`, `refresh_token`, `password`, `soap`, or
            `session` with a newly issued token.
        """
        where = {"login_url": self.login_url, "endpoint": self.endpoint, "ca_file": self.ca_file}
        return connection(auth, org or self.org, sessions=self._state.sessions, **where)

    def connection_json(self, auth: str = "client_credentials", org: Org | None = None) -> str:
        """Airflow connection as JSON text.

        For `AIRFLOW_CONN_SFEVENTS_DEFAULT` or `airflow connections add --conn-json`.
        """
        return json.dumps(self.connection(auth, org))

    # --- call log ---------------------------------------------------------------------------------

    @property
    def requests(self) -> tuple[RecordedCall, ...]:
        """Every RPC and login request so far, of all orgs, also those refused for their headers."""
        return self._state.call_log.calls()

    @property
    def open_streams(self) -> int:
        """Number of open Subscribe streams of all orgs."""
        return self._state.call_log.open_streams()

    @property
    def streams_by_connection(self) -> list[int]:
        """Number of open HTTP/2 streams per connection, including calls in progress."""
        return self._here().network(lambda relay: relay.streams())

    @property
    def connections(self) -> int:
        """Number of open HTTP/2 connections; a client opens another one when the first is full."""
        return self._here().network(lambda relay: relay.connections)

    def wait_open_streams(self, count: int, timeout: float = 60.0) -> None:
        """Wait until exactly `count` streams are open and started.

        A server notices the departure of a client a moment later.

        :raises TimeoutError: the number was not reached in time.
        """
        if not self._state.call_log.wait_open_streams(count, timeout):
            raise TimeoutError(
                f"{self.open_streams} streams are open after {timeout} s, not {count}"
            )

    def check(self) -> None:
        """Raise the first error inside the emulator, if any: such an error must fail the test.

        :raises EmulatorError: chained to the first error.
        """
        if self._state.defects:
            first = self._state.defects[0]
            raise EmulatorError(
                f"{len(self._state.defects)} errors in the emulator, first {first!r}"
            ) from first

    # --- inside -----------------------------------------------------------------------------------

    @property
    @override
    def _parts(self) -> OrgParts:
        return self.org.parts

    def _known(self, saved: dict[str, Any]) -> list[Identity]:
        """Read the saved orgs.

        :raises EmulatorError: they are none.
        """
        try:
            return [Identity.from_json(value) for value in saved.get("orgs", ())]
        except (TypeError, KeyError, AttributeError) as error:
            raise EmulatorError(
                f"the orgs in {self._folder} are not an emulator's: {error!r}; name another "
                "folder, or remove it"
            ) from error

    def _open(self, hosting: Hosting) -> None:
        from airflow_provider_sfevents.emulator.grpc.servicer import Servicer
        from airflow_provider_sfevents.emulator.http_apps import login_app

        saved = read_orgs(self._folder) if self._folder else {}
        self._login = hosting.bind(self._port("login_port", saved))
        hosting.mount(
            self._login,
            login_app(self._state, self._endpoint(self._state.tenants, my_domain=False)),
        )
        known = self._known(saved)
        for identity in known or [Identity.new("acme")]:
            self._add(identity)
        self._state.carries = hosting.carries
        hosting.serve(
            Servicer(self._state).handler(),
            self._port("grpc_port", saved),
            rst_error=self.knobs.rst_stream_error,
            half_open_seconds=self.knobs.half_open_seconds,
            streams_per_connection=self.knobs.max_streams_per_connection,
            connection_age=self.knobs.max_connection_age_seconds,
        )
        self._save()
        if self._sample and not self.org.bus.topics:
            from airflow_provider_sfevents.emulator.org.sample_org import define_sample

            define_sample(self.org)

    def _add(self, identity: Identity) -> Org:
        """Create an org on a port of its own.

        It answers together with the others, or at once if they answer already.
        """
        from airflow_provider_sfevents.emulator.http_apps import my_domain_app

        hosting = self._here()
        asked = self._ports["http_port"] if not self._orgs else 0
        http = hosting.bind(asked or identity.http_port)
        tenant = Tenant(identity=identity, instance_url=hosting.url(http))
        bus = self._bus(identity.org_id)
        managed = self._managed(identity.org_id, bus)
        parts = OrgParts(
            identity=identity,
            bus=bus,
            clock=self.clock,
            call_log=self._state.call_log,
            managed=managed,
        )
        bus.sweep()
        org = Org(parts=parts, instance_url=tenant.instance_url)
        self._state.add(tenant, bus, managed)
        self._orgs.append(org)
        endpoint = self._endpoint([tenant], my_domain=True)
        app = my_domain_app(
            self._state,
            endpoint,
            org,
            connect=self.connection,
            faults=self,
            token=self.token,
            names=own_names(self._host),
        )
        hosting.mount(http, app)
        return org

    def _bus(self, org_id: str) -> Bus:
        bus = Bus(name=org_id, clock=self.clock, knobs=self.knobs)
        if self._folder:
            journal = open_log(bus, self._folder / org_id / "bus.log")
            self._here().on_close(journal.close)
        return bus

    def _managed(self, org_id: str, bus: Bus) -> ManagedRegistry:
        path = self._folder / org_id / "managed.json" if self._folder else None
        return ManagedRegistry(bus=bus, clock=self.clock, path=path)

    def _endpoint(self, tenants: list[Tenant], *, my_domain: bool) -> TokenEndpoint:
        return TokenEndpoint(
            tenants=lambda: tenants,
            my_domain=my_domain,
            audiences=lambda: (self.login_url,),
            sessions=self._state.sessions,
            clock=self.clock,
            knobs=self.knobs,
        )

    def _save(self) -> None:
        if not self._folder or self._login is None:
            return
        orgs = [
            {**org.identity.to_json(), "http_port": int(org.instance_url.rpartition(":")[2])}
            for org in self._orgs
        ]
        ports = {"grpc_port": self._here().grpc_port, "login_port": self._login.port}
        write_orgs(self._folder, {**ports, "orgs": orgs})

    def _port(self, name: str, saved: dict[str, Any]) -> int:
        return self._ports[name] or int(saved.get(name, 0))

    @property
    @override
    def _runs(self) -> bool:
        return self._hosting is not None

    @override
    def _here(self) -> Hosting:
        if self._hosting is None:
            raise EmulatorError(
                "the emulator is not running; use `with Emulator() as bus:` or call start()"
            )
        return self._hosting
