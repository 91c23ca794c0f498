"""Secrets in logs of failing logins and calls, and in local variables of their frames.

`tests/dags/test_secrets.py` searches everything that a whole Airflow leaves behind.
"""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.hooks.connection import AUTHS, ConnectionFields, settings_from
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.rest import org_limits
from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
from airflow_provider_sfevents.pubsub.schema_cache import SchemaCache
from tests.harness.leaks import Secrets, recorded
from tests.integration.pubsub.test_every_login import REFUSALS
from tests.integration.pubsub.test_login import encrypted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.pubsub.conftest import LoginServer

pytestmark = pytest.mark.anyio
NOWHERE = "http://127.0.0.1:1"
USED: list[Secrets] = []


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No log of any level holds a secret of the connections that a test uses."""
    caplog.set_level(logging.DEBUG)
    USED.clear()
    yield
    for secrets in USED:
        assert secrets.found_in(caplog.text) == []


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    with Emulator() as bus:
        yield bus


async def fails(
    connection: dict[str, Any], extra: dict[str, str], *, within_seconds: float = 9.0, **over: Any
) -> SfEventsError:
    """The error of a connection with other values, from reading it to the first call."""
    values = {**connection, **over, "conn_id": "sf", "extra": {**connection["extra"], **extra}}
    USED.append(Secrets.of_connection(values))

    async def use() -> None:
        given = SimpleNamespace(**values, extra_dejson=values["extra"])  # its `repr` tells all
        settings = settings_from(ConnectionFields(given))
        async with PubSubClient(settings, sessions=SessionCache(), schemas=SchemaCache()) as client:
            await client.check(within_seconds)
            await client.get_topic("/event/NotThere__e")

    with pytest.raises(SfEventsError) as raised:
        await use()
    return raised.value


def secrets_in(text: str, connection: dict[str, Any], extra: dict[str, str]) -> list[str]:
    """Secrets of a connection in a text, by the names of their fields; tokens by their shape."""
    return Secrets.of_connection(connection, **extra).found_in(text)


@pytest.mark.parametrize(
    ("auth", "knobs", "changes"), [row[1:4] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
async def test_refused_logins(
    bus: Emulator, auth: str, knobs: dict[str, Any], changes: dict[str, str]
) -> None:
    """A refused login shows neither the right nor the wrong secret."""
    with Emulator(knobs=Knobs(**knobs)) as own:
        connection = own.connection(auth)
        standard = {"host", "login", "password"}
        over: dict[str, Any] = {name: changes[name] for name in standard & changes.keys()}
        extra = {name: value for name, value in changes.items() if name not in over}
        error = await fails(connection, extra, **over)
    assert recorded(error)
    assert secrets_in(recorded(error), {**connection, **over}, extra) == []


@pytest.mark.parametrize("auth", AUTHS)
@pytest.mark.parametrize(
    "host",
    [
        pytest.param(NOWHERE, id="no server"),
        pytest.param("https://127.0.0.1:{port}", id="tls to a plain port"),
        pytest.param("http://acme.example", id="no https"),
        pytest.param("", id="no host"),
    ],
)
async def test_hosts_that_do_not_answer(bus: Emulator, auth: str, host: str) -> None:
    """No login shows a secret if its host is wrong."""
    connection = bus.connection(auth)
    host = host.format(port=bus.my_domain_url.rpartition(":")[2])
    opaque = {"session_token": "eyJ0.opaque", "org_id": "", "instance_url": ""}
    extra = opaque if auth == "session" else {}
    error = await fails(connection, extra, host=host)
    assert secrets_in(recorded(error), connection, extra) == []


@pytest.mark.parametrize(
    "changes",
    [{"conn_type": "http"}, {"extra": "s3cret"}, {"extra": '["s3cret"]'}, {"host": "ftp://x"}],
    ids=str,
)
def test_connections_of_airflow(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]) -> None:
    """The `repr` of an Airflow connection shows its password, and no frame of the hook has one."""
    connection = {"conn_type": "sfevents", "host": "x", "login": "k", "password": "s3cret"}
    monkeypatch.setenv("AIRFLOW_CONN_SF_TEST", json.dumps({**connection, **changes}))
    with pytest.raises(SfEventsError) as raised:
        SfEventsHook("sf_test").settings()
    assert "s3cret" not in recorded(raised.value)


@pytest.mark.parametrize("auth", AUTHS)
@pytest.mark.parametrize("ca_file", ["", __file__], ids=["untrusted", "no certificates"])
async def test_certificates(auth: str, ca_file: str) -> None:
    """No login shows a secret when the host's certificate is not trusted."""
    with Emulator(tls=True) as own:
        connection, extra = own.connection(auth), {"ca_file": ca_file}
        error = await fails(connection, extra)
    assert secrets_in(recorded(error), connection, extra) == []


@pytest.mark.parametrize("auth", [one for one in AUTHS if one != "session"])
@pytest.mark.parametrize(
    ("order", "within_seconds"),
    [
        pytest.param({"status": "UNAVAILABLE"}, 9.0, id="away"),
        pytest.param({"after_seconds": 60.0}, 0.3, id="silent"),
    ],
)
async def test_a_login_host_in_trouble(
    auth: str, order: dict[str, Any], within_seconds: float
) -> None:
    """No login shows a secret if the host answers HTTP 503 or not at all."""
    with Emulator() as own:
        own.fail_next("soap" if auth == "soap" else "token", **order)
        connection = own.connection(auth)
        error = await fails(connection, {}, within_seconds=within_seconds)
    assert secrets_in(recorded(error), connection, {}) == []


@pytest.mark.parametrize(
    ("damage", "passphrase"),
    [
        pytest.param(lambda pem: pem.replace("MII", "MIJ", 1), "", id="damaged"),
        pytest.param(encrypted, "", id="no passphrase"),
        pytest.param(encrypted, "wr0ng", id="wrong passphrase"),
        pytest.param(lambda pem: pem.partition("\n")[2], "", id="no PEM"),
    ],
)
async def test_unreadable_keys(bus: Emulator, damage: Any, passphrase: str) -> None:
    """An unreadable key is not shown, nor its passphrase."""
    connection = bus.connection("jwt_bearer")
    key = damage(connection["extra"]["private_key"])
    extra = {"private_key": key, "private_key_passphrase": passphrase}
    error = await fails(connection, extra)
    assert secrets_in(recorded(error), connection, extra) == []


@pytest.mark.parametrize(
    "answer",
    [
        {"instance_url": "https://acme.example"},
        {"instance_url": "http://acme.my.salesforce.com"},
        {"access_token": "opaque-token"},
        {"access_token": None},
    ],
    ids=str,
)
async def test_answers_that_are_not_believed(
    bus: Emulator, login_server: LoginServer, answer: dict[str, Any]
) -> None:
    """A granted token is not shown if the rest of the answer is refused."""
    token = "00D000000000001!granted"
    granted = {"access_token": token, "instance_url": login_server.url, **answer}
    login_server.answers = [(200, {}, granted), (200, {}, {"organization_id": "../../etc"})]
    connection = {**bus.connection(), "host": login_server.url}
    shown = recorded(await fails(connection, {}))
    assert secrets_in(shown, connection, {}) == []
    assert "opaque-token" not in shown


async def test_an_answer_by_soap_that_is_not_believed(
    bus: Emulator, login_server: LoginServer
) -> None:
    """A session id is not shown if the rest of the answer is refused."""
    body = (
        "<Envelope><Body><loginResponse><result>"
        "<serverUrl>https://acme.example/services</serverUrl>"
        "<sessionId>00D000000000001!granted</sessionId></result></loginResponse></Body></Envelope>"
    )
    login_server.answers = [(200, {}, body)]
    connection = {**bus.connection("soap"), "host": login_server.url}
    assert secrets_in(recorded(await fails(connection, {})), connection, {}) == []
    bell = {**connection, "password": "bell\x07"}
    assert "bell" not in recorded(await fails(bell, {}))


async def test_calls_after_the_login(bus: Emulator) -> None:
    """A failing call, over gRPC or REST, does not show the token."""
    with Emulator() as own:
        connection = own.connection()
        assert secrets_in(recorded(await fails(connection, {})), connection, {}) == []
        away = {"pubsub_endpoint": "127.0.0.1:1"}
        assert secrets_in(recorded(await fails(connection, away)), connection, away) == []
        own.fail_next("GetTopic", after_seconds=60.0)
        silent = await fails(connection, {}, within_seconds=0.3)
        assert secrets_in(recorded(silent), connection, {}) == []
        session = own.connection("session")
        own.expire_tokens()
        assert secrets_in(recorded(await fails(session, {})), session, {}) == []
        given = SimpleNamespace(**session, conn_id="sf", extra_dejson=session["extra"])
        async with RestCalls(
            settings_from(ConnectionFields(given)), sessions=SessionCache()
        ) as rest:
            with pytest.raises(SfEventsError) as raised:
                await org_limits.read_limits(rest)
    assert secrets_in(recorded(raised.value), session, {}) == []
