"""The org under test: the emulator or a real org. Tests differ only in their budget."""

from __future__ import annotations

import io
import json
import os
import ssl
import time
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import fastavro
import httpx
import pytest
from typing_extensions import override

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.contract import wire
from tests.contract.signing_in import Door

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECTION = "SFEVENTS_ORG_CONNECTION"
TOPIC = "SFEVENTS_ORG_TOPIC"
CHANNEL = "SFEVENTS_ORG_CHANNEL"
ENTITY = "SFEVENTS_ORG_ENTITY"
MANAGED = "SFEVENTS_ORG_MANAGED"
PATIENT = "SFEVENTS_ORG_PATIENT"
HOST, PORT = "api.pubsub.salesforce.com", 7443
ENDPOINT = f"{HOST}:{PORT}"
_LONG_SECONDS = 30.0
_BEGUN_SECONDS = 5.0
TEXT = "Marker__c"
"""The one field that the throw-away event must have: Text(255), not required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Durations of the suite: documented ones on a real org, shorter ones on the emulator."""

    keepalive: float = 270.0
    idle_close: float = 60.0
    half_close: float = 10.0
    publish_idle: float = 1800.0
    publish_keepalive: float = 270.0
    commit_deadline: float = 1800.0
    slot_hold: float = 15.0
    propagation: float = 300.0
    slack: float = 30.0
    """Tolerance of a time, in seconds."""


QUICK = Times(
    keepalive=0.4,
    idle_close=1.0,
    half_close=0.05,
    publish_idle=0.8,
    publish_keepalive=0.3,
    commit_deadline=2.0,
    slot_hold=0.1,
    propagation=0.0,
    slack=10.0,
)
_KNOBS: dict[str, Any] = {
    "keepalive_seconds": QUICK.keepalive,
    "idle_close_seconds": QUICK.idle_close,
    "half_close_seconds": QUICK.half_close,
    "publish_idle_seconds": QUICK.publish_idle,
    "publish_keepalive_seconds": QUICK.publish_keepalive,
    "commit_deadline_seconds": QUICK.commit_deadline,
    "commit_response_seconds": 0.05,
    "slot_hold_seconds": QUICK.slot_hold,
    "managed_propagation_seconds": QUICK.propagation,
}


@dataclass(kw_only=True, repr=False)
class OrgUnderTest:
    """An org, and the means of a test.

    :param connection: as Airflow knows it.
    :param topic: of the throw-away platform event.
    :param channel: a custom channel that carries it; empty where there is none.
    :param entity: API name of an object whose changes are captured; empty where there is none.
    :param managed: developer name of a managed subscription to `topic`.
    :param patient: whether rules of many minutes may be waited for.
    :param emulator: None for a real org.
    :param knobs: that the emulator has beside the shortened waits.
    """

    connection: Mapping[str, Any]
    topic: str
    channel: str
    entity: str
    managed: str
    times: Times
    patient: bool
    emulator: Emulator | None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    counter: wire.Counter = field(default_factory=wire.Counter)
    _open: ExitStack = field(default_factory=ExitStack)

    @override
    def __repr__(self) -> str:
        """Without secrets: failures of tests show it."""
        return f"<{'org' if self.emulator is None else 'emulator'} with {self.topic}>"

    def close(self) -> None:
        self._open.close()

    # --- ways in ----------------------------------------------------------------------------------

    @cached_property
    def door(self) -> Door:
        return Door.of(self.connection)

    @cached_property
    def http(self) -> httpx.Client:
        return self._open.enter_context(self.browser())

    def browser(self, **options: Any) -> httpx.Client:
        """HTTP client with cookies of its own."""
        ca_file = (self.connection.get("extra") or {}).get("ca_file")
        return httpx.Client(timeout=wire.ANSWER_SECONDS, verify=_trusting(ca_file), **options)

    @cached_property
    def headers(self) -> dict[str, str]:
        """The three headers, from one login for the whole run."""
        return self.door.headers(self.http)

    @property
    def endpoint(self) -> str:
        """`host:port` of the Pub/Sub API."""
        address = str((self.connection.get("extra") or {}).get("pubsub_endpoint") or HOST)
        return address if ":" in address else f"{address}:{self.connection.get('port') or PORT}"

    @property
    def plaintext(self) -> bool:
        """True if the API is reached without TLS, which an emulator allows."""
        return bool((self.connection.get("extra") or {}).get("plaintext"))

    @cached_property
    def client(self) -> wire.Client:
        extra = self.connection.get("extra") or {}
        ca_file = extra.get("ca_file")
        channel = wire.opened(
            self.endpoint,
            plaintext=self.plaintext,
            trusted=Path(ca_file).read_bytes() if ca_file else None,
        )
        self._open.enter_context(channel)
        return wire.Client(channel, self.headers, self.counter)

    @property
    def bearer(self) -> dict[str, str]:
        """Header of HTTP requests."""
        return {"authorization": f"Bearer {self.headers['accesstoken']}"}

    def rest(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Call the org's REST API; `path` begins after the version."""
        url = f"{self.headers['instanceurl']}/services/data/v62.0/{path}"
        return self.http.request(method, url, json=body, headers={**self.bearer, **headers})

    def query(self, soql: str) -> list[dict[str, Any]]:
        """Records found by the Tooling API."""
        answer = self.rest("GET", f"tooling/query/?q={quote(soql)}")
        assert answer.status_code == 200, answer.text
        return list(answer.json()["records"])

    # --- events -----------------------------------------------------------------------------------

    @cached_property
    def schema_id(self) -> str:
        return str(self.client.get_topic(self.topic).schema_id)

    @cached_property
    def schema(self) -> Any:
        return json.loads(self.client.get_schema(self.schema_id).schema_json)

    @cached_property
    def user_id(self) -> str:
        url = f"{self.headers['instanceurl']}/services/oauth2/userinfo"
        return str(self.http.get(url, headers=self.bearer).json()["user_id"])

    def event(
        self, text: str = "", *, size: int = 0, created: int = 0, **fields: Any
    ) -> pb.ProducerEvent:
        """Event for the throw-away topic, with a UUID of its own.

        :param size: make the payload so many bytes at least, whatever the field allows.
        :param created: what it says in CreatedDate; now, in milliseconds, where it is 0.
        :param fields: of the message in place of what it would have.
        """
        record = {
            "CreatedDate": created or int(time.time() * 1000),
            "CreatedById": self.user_id,
            TEXT: "x" * size or text or "contract",
        }
        raw = io.BytesIO()
        fastavro.schemaless_writer(raw, fastavro.parse_schema(dict(self.schema)), record)
        values = {"id": str(uuid.uuid4()), "schema_id": self.schema_id, "payload": raw.getvalue()}
        return pb.ProducerEvent(**{**values, **fields})

    def publish(self, *events: pb.ProducerEvent) -> list[bytes]:
        """Publish events, check their results and return the replay ids."""
        answer = self.client.publish(self.topic, *events)
        assert not [one.error.msg for one in answer.results if one.HasField("error")]
        return [one.replay_id for one in answer.results]

    def base(self) -> bytes:
        """Replay id after everything on the topic so far, of an event that no test reads."""
        return self.publish(self.event("base"))[0]

    def after(self, replay_id: bytes, num_requested: int, **more: Any) -> wire.Stream:
        """Stream of the events after a replay id."""
        return self.client.subscribe(
            topic_name=more.pop("topic", self.topic),
            replay_preset=pb.CUSTOM,
            replay_id=replay_id,
            num_requested=num_requested,
        )

    def begun(self, stream: wire.Stream) -> None:
        """Wait until a stream from LATEST has begun, and check that nothing comes.

        No response confirms the start. If the first keepalive takes long, some seconds must
        suffice.
        """
        if self.times.keepalive < _BEGUN_SECONDS:
            assert not stream.read(self.times.keepalive + self.times.slack).events
        else:
            assert stream.is_silent(_BEGUN_SECONDS)

    # --- what cannot be had everywhere ------------------------------------------------------------

    @contextmanager
    def set_up(self, why_not: str, **knobs: Any) -> Iterator[OrgUnderTest]:
        """Another org with a certain setup; on a real org the test is skipped.

        :param why_not: what it would take there.
        """
        if self.emulator is None:
            _skip(f"not on a real org: {why_not}")
        with emulated(**{**self.knobs, **knobs}) as other:
            yield other

    def staged(self, why_not: str) -> Emulator:
        """The emulator, to cause an event in its org; on a real org the test is skipped.

        :param why_not: what it would take there.
        """
        if self.emulator is None:
            _skip(f"not on a real org: {why_not}")
        return self.emulator

    def need(self, name: str) -> str:
        """Value of `channel`, `entity` or `managed`; the test is skipped where the org has none."""
        value = str(getattr(self, name))
        if not value:
            variable = {"channel": CHANNEL, "entity": ENTITY, "managed": MANAGED}[name]
            _skip(f"{variable} is not given")
        return value

    def need_grant(self, *auths: str) -> None:
        """Skip the test unless the connection logs in this way; the emulator has all ways."""
        if self.door.auth not in auths:
            _skip(f"the connection logs in by {self.door.auth}, not by {' or '.join(auths)}")

    def wait_long(self, seconds: float) -> None:
        """Skip the test unless it may wait this long."""
        if seconds > _LONG_SECONDS and not self.patient:
            _skip(f"takes {seconds / 60:.0f} minutes; {PATIENT}=1 waits for it")

    def by(self, auth: str) -> Door:
        """Another login to the emulator's org; on a real org its own, or the test is skipped."""
        if self.emulator is not None:
            return Door.of(self.emulator.connection(auth))
        self.need_grant(auth)
        return self.door


@contextmanager
def emulated(*, tls: bool = False, **knobs: Any) -> Iterator[OrgUnderTest]:
    """An org of an emulator with everything that a test can need, and shortened waits."""
    from tests.contract.emulated import furnish

    with Emulator(tls=tls, knobs=Knobs(**{**_KNOBS, **knobs})) as emulator:
        org = OrgUnderTest(
            connection=emulator.connection(),
            times=QUICK,
            patient=True,
            emulator=emulator,
            knobs=knobs,
            **furnish(emulator)._asdict(),
        )
        try:
            yield org
            emulator.check()
        finally:
            org.close()


def check_given(environment: Mapping[str, str]) -> None:
    """Check that the environment names a real org.

    :raises pytest.UsageError: when it does not, or not well.
    """
    missing = [name for name in (CONNECTION, TOPIC) if not environment.get(name)]
    if missing:
        raise pytest.UsageError(
            f"{' and '.join(missing)} must be set to run the contract suite on an org; "
            "docs/how-to/contract-suite.md says how"
        )
    try:
        connection = json.loads(environment[CONNECTION])
        known = isinstance(connection, dict) and isinstance(connection.get("extra"), dict)
    except ValueError:
        known = False
    if not known:  # never with the value, which holds secrets
        raise pytest.UsageError(
            f"{CONNECTION} is not the JSON of an Airflow connection with an `extra` object"
        )


@contextmanager
def given(environment: Mapping[str, str] = os.environ) -> Iterator[OrgUnderTest]:
    """The real org that the environment names.

    :raises pytest.UsageError: when it names none.
    """
    check_given(environment)
    org = OrgUnderTest(
        connection=json.loads(environment[CONNECTION]),
        topic=environment[TOPIC],
        channel=environment.get(CHANNEL, ""),
        entity=environment.get(ENTITY, ""),
        managed=environment.get(MANAGED, ""),
        times=Times(),
        patient=environment.get(PATIENT, "") == "1",
        emulator=None,
    )
    try:
        yield org
    finally:
        org.close()


@cache
def _trusting(ca_file: str | None) -> ssl.SSLContext:
    """Trust of HTTPS; reading the usual authorities takes 0.1 s, so clients share it."""
    return ssl.create_default_context(cafile=ca_file) if ca_file else httpx.create_ssl_context()


def _skip(why: str) -> NoReturn:
    pytest.skip(why)
