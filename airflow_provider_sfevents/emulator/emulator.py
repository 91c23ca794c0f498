"""The emulator itself: puts orgs, buses and servers together, and answers the test that runs it."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import override

from airflow_provider_sfevents.emulator.bus import Bus
from airflow_provider_sfevents.emulator.clock import Clock
from airflow_provider_sfevents.emulator.connections import connection
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.extras import require
from airflow_provider_sfevents.emulator.fault_verbs import FaultVerbs
from airflow_provider_sfevents.emulator.folder import read_orgs, write_orgs
from airflow_provider_sfevents.emulator.guard import own_names
from airflow_provider_sfevents.emulator.hosting import Hosting
from airflow_provider_sfevents.emulator.identities import Identity
from airflow_provider_sfevents.emulator.journal import open_log
from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.managed.registry import ManagedRegistry
from airflow_provider_sfevents.emulator.oauth import Tenant, TokenEndpoint
from airflow_provider_sfevents.emulator.org import Org
from airflow_provider_sfevents.emulator.remote import TOKEN_VARIABLE, Whereabouts
from airflow_provider_sfevents.emulator.state import State
from airflow_provider_sfevents.emulator.verbs import OrgVerbs, Parts

if TYPE_CHECKING:
    from types import TracebackType

    from airflow_provider_sfevents.emulator.records import Call
    from airflow_provider_sfevents.emulator.server import HttpHost


class Emulator(OrgVerbs, FaultVerbs):
    """A stand-in for Salesforce: the Pub/Sub API over gRPC, the logins over HTTP, in a thread of its own.

    Use it as a context manager, or call `start` and `stop`. Its verbs (`define_event`, `publish` ...) are those of its
    first org, `org`; those of `FaultVerbs` (`fail_next`, `freeze` ...) are about all orgs.

    :param tls: serve both faces over TLS; clients must trust `ca_file`.
    :param folder: where events, schemas, orgs and ports are kept, so that they are there again after a restart.
    :param clock: moves retention and token life; made where it is not given.
    :param sample: begin with a realistic org: orders, accounts, contacts.
    :param http_port: port of the first org's My Domain; 0 for the one in the folder, or a free one.
    :param login_port: port of the login host for all orgs, likewise; `grpc_port` likewise.
    :param host: address to listen on.

    `token` is that of its own face over HTTP, which hands out the orgs' secrets: from the
    environment variable SFEVENTS_EMULATOR_TOKEN, otherwise a random one.
    """

    def __init__(
        self,
        *,
        tls: bool = False,
        folder: str | Path | None = None,
        knobs: Knobs | None = None,
        clock: Clock | None = None,
        sample: bool = False,
        grpc_port: int = 0,
        http_port: int = 0,
        login_port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        self.clock = clock or Clock()
        self.knobs = knobs or Knobs()
        self._tls = tls
        self._folder = Path(folder).resolve() if folder else None
        self._sample = sample
        self._ports = {"grpc_port": grpc_port, "http_port": http_port, "login_port": login_port}
        self._host = host
        self.token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)
        self._hosting: Hosting | None = None
        self._login: HttpHost | None = None
        self._state = State.new(clock=self.clock, knobs=self.knobs)
        self._orgs: list[Org] = []

    # --- start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen; returns when both faces answer.

        :raises EmulatorError: when a port is taken, an extra is not installed, or the folder is not an emulator's.
        """
        if self._hosting:
            raise EmulatorError(f"this emulator runs already, at {self.endpoint}")
        for module in ("grpc", "grpc_reflection", "fastavro", "starlette", "uvicorn", "jwt"):
            require(module)
        self._state = State.new(clock=self.clock, knobs=self.knobs)
        self._orgs = []
        self._hosting = Hosting(host=self._host, folder=self._folder, tls=self._tls)
        try:
            self._open(self._hosting)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Close every stream and port; what clients did can still be asked."""
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

    # --- where it is -------------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """`host:port` of the Pub/Sub API."""
        return self._here().endpoint

    @property
    def login_url(self) -> str:
        """The login host for all orgs, as login.salesforce.com; client credentials are refused there."""
        if self._login is None:
            raise EmulatorError("the emulator was never started")
        return self._here().url(self._login)

    @property
    def my_domain_url(self) -> str:
        """The first org's own host, and its instance URL."""
        return self.org.instance_url

    @property
    def ca_file(self) -> str:
        """Path of the certificate to trust; empty without TLS."""
        return self._here().ca_file

    @property
    def whereabouts(self) -> Whereabouts:
        """All that the command line needs to find it; `write` makes a state file of it."""
        return Whereabouts(
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
        """Another org with a bus, an app and a My Domain of its own."""
        org = self._add(Identity.new(name or f"org{len(self._orgs) + 1}"))
        self._save()
        return org

    def connection(
        self, auth: str = "client_credentials", org: Org | None = None
    ) -> dict[str, Any]:
        """Airflow connection to an org: `conn_type`, `host`, `login`, `password` and `extra`.

        :param auth: `client_credentials`, `jwt_bearer`, `refresh_token`, `password`, `soap`, or `session` with a token
            that is issued now.
        """
        where = {"login_url": self.login_url, "endpoint": self.endpoint, "ca_file": self.ca_file}
        return connection(auth, org or self.org, sessions=self._state.sessions, **where)

    def connection_json(self, auth: str = "client_credentials", org: Org | None = None) -> str:
        """Give the connection as the text for `AIRFLOW_CONN_SFEVENTS_DEFAULT` or `airflow connections add --conn-json`."""
        return json.dumps(self.connection(auth, org))

    # --- what clients did --------------------------------------------------------------------------------------------

    @property
    def requests(self) -> tuple[Call, ...]:
        """Every RPC and login request so far, of all orgs, also those refused for their headers."""
        return self._state.records.calls()

    @property
    def open_streams(self) -> int:
        """Subscribe streams open now, of all orgs."""
        return self._state.records.open_streams()

    @property
    def streams_by_connection(self) -> list[int]:
        """HTTP/2 streams open on each connection, with those of calls under way."""
        return self._here().network(lambda relay: relay.streams())

    @property
    def connections(self) -> int:
        """HTTP/2 connections of clients open now; a client opens another one when it has too many streams for one."""
        return self._here().network(lambda relay: relay.connections)

    def wait_open_streams(self, count: int, timeout: float = 60.0) -> None:
        """Wait until exactly so many streams are open, each at its place.

        A server sees a client leave a moment after it left.

        :raises TimeoutError: when that does not come true.
        """
        if not self._state.records.wait_open_streams(count, timeout):
            raise TimeoutError(
                f"{self.open_streams} streams are open after {timeout} s, not {count}"
            )

    def check(self) -> None:
        """Raise what went wrong inside the emulator, if anything did: such an error must fail the test.

        :raises EmulatorError: from the first one.
        """
        if self._state.defects:
            first = self._state.defects[0]
            raise EmulatorError(
                f"{len(self._state.defects)} errors in the emulator, first {first!r}"
            ) from first

    # --- inside ------------------------------------------------------------------------------------------------------

    @property
    @override
    def _parts(self) -> Parts:
        return self.org.parts

    def _open(self, hosting: Hosting) -> None:
        from airflow_provider_sfevents.emulator.apps import login_app
        from airflow_provider_sfevents.emulator.servicer import Servicer

        saved = read_orgs(self._folder) if self._folder else {}
        self._login = hosting.bind(self._port("login_port", saved))
        hosting.mount(
            self._login,
            login_app(self._state, self._endpoint(self._state.tenants, my_domain=False)),
        )
        known = [Identity.from_json(value) for value in saved.get("orgs", ())]
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
            from airflow_provider_sfevents.emulator.sample import define_sample

            define_sample(self.org)

    def _add(self, identity: Identity) -> Org:
        """Make an org on a port of its own; it answers when the others do, or at once if they do."""
        from airflow_provider_sfevents.emulator.apps import my_domain_app

        hosting = self._here()
        asked = self._ports["http_port"] if not self._orgs else 0
        http = hosting.bind(asked or identity.http_port)
        tenant = Tenant(identity=identity, instance_url=hosting.url(http))
        bus = self._bus(identity.org_id)
        managed = self._managed(identity.org_id, bus)
        parts = Parts(
            identity=identity,
            bus=bus,
            clock=self.clock,
            records=self._state.records,
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
