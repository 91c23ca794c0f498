"""Every login, by a connection as Airflow stores it: its session and its refusals."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import AuthenticationError, ConfigurationError
from airflow_provider_sfevents.hooks.connection import AUTHS, ConnectionFields, settings_from
from airflow_provider_sfevents.hooks.stock_connection import stock_settings
from airflow_provider_sfevents.pubsub.auth.login import log_in
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import RefreshToken, Settings, SoapLogin
from airflow_provider_sfevents.pubsub.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.pubsub.auth.session import Session
    from tests.integration.pubsub.conftest import LoginServer

pytestmark = pytest.mark.anyio
ORG_ID = "00D000000000001EAA"


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    with Emulator() as bus:
        yield bus
        bus.check()


def given(connection: dict[str, Any], extra: dict[str, Any], over: dict[str, Any]) -> Any:
    """A connection as the hook reads it, with other values over its own."""
    values = {"port": None, **connection, **over, "conn_id": "sf_test"}
    return SimpleNamespace(**values, extra_dejson={**connection["extra"], **extra})


async def session_by(bus: Emulator, auth: str, /, **changes: str) -> Session:
    """Log in by a connection of the emulator with changed fields and extras."""
    over: dict[str, Any] = {
        name: changes.pop(name) for name in ("host", "login", "password") if name in changes
    }
    found = settings_from(ConnectionFields(given(bus.connection(auth), changes, over)))
    return await log_in(found, Clock())


@pytest.mark.parametrize("auth", AUTHS)
async def test_every_login_leads_to_the_org(bus: Emulator, auth: str) -> None:
    """Each login returns token, host and 18-character org id, by one request at most."""
    before = len(bus.requests)
    session = await session_by(bus, auth)
    assert (session.org_id, session.instance_url) == (bus.org.org_id, bus.org.instance_url)
    assert session.token.reveal().startswith(bus.org.org_id[:15] + "!")
    assert session.user_id == ("" if auth == "session" else bus.org.user_id)
    assert len(bus.requests) - before == (auth != "session")


@pytest.mark.parametrize("auth", [one for one in AUTHS if one != "session"])
async def test_every_login_goes_to_the_orgs_own_host_too(bus: Emulator, auth: str) -> None:
    """Every login works on the org's own host; client credentials work there only."""
    assert (await session_by(bus, auth, host=bus.my_domain_url)).org_id == bus.org.org_id


async def test_a_refresh_token_without_the_secret(bus: Emulator) -> None:
    """A refresh token works without a secret if the app does not require one."""
    assert (await session_by(bus, "refresh_token", password="")).org_id == bus.org.org_id


# Situation, login, the emulator's knobs, changes of the connection, what Salesforce says,
# and the remedy.
REFUSALS = [
    ("wrong password", "password", {}, {"user_password": "wr0ng"}, "invalid_grant (authentication failure)", "security token"),
    ("no security token", "password", {}, {"security_token": ""}, "invalid_grant (authentication failure)", "security token"),
    ("password flow blocked", "password", {"password_flow": False}, {}, "invalid_grant (authentication failure)", "allows OAuth username-password"),
    ("no run-as user", "client_credentials", {"client_credentials_flow": "no_user"}, {}, "invalid_grant (no client credentials user enabled)", "run-as user"),
    ("flow not enabled", "client_credentials", {"client_credentials_flow": "disabled"}, {}, "invalid_grant (client credentials flow not enabled)", "Enable the client credentials flow"),
    ("unknown consumer key", "refresh_token", {}, {"login": "3MVG9.unknown"}, "invalid_client_id (client identifier invalid)", "does not know this consumer key"),
    ("wrong secret", "password", {}, {"password": "wr0ng"}, "invalid_client (invalid client credentials)", "consumer secret is wrong"),
    ("secret asked for", "refresh_token", {"refresh_needs_secret": True}, {"password": ""}, "invalid_client (invalid client credentials)", "consumer secret is wrong"),
    ("not approved", "jwt_bearer", {"app_access": "not_approved"}, {}, "invalid_grant (user hasn't approved this consumer)", "pre-authorise"),
    ("not approved by an administrator", "jwt_bearer", {"app_access": "not_admin_approved"}, {}, "invalid_app_access (user is not admin approved to access this app)", "pre-authorise"),
    ("app not installed", "client_credentials", {"app_access": "not_installed"}, {}, "app_not_found (External client app is not installed in this org)", "Install the external client app"),
    ("wrong audience", "jwt_bearer", {}, {"jwt_audience": "https://nowhere.example"}, "invalid_grant (Audience validation failed)", "jwt_audience"),
    ("assertion expired", "jwt_bearer", {"jwt_skew_seconds": 600.0}, {}, "invalid_grant (expired authorization code)", "clock is off"),
    ("refresh token dead", "refresh_token", {}, {"refresh_token": "wr0ng"}, "invalid_grant (expired access/refresh token)", "new refresh token"),
    ("wrong password by soap", "soap", {}, {"password": "wr0ng"}, "INVALID_LOGIN (Invalid username, password, security token; or user locked out)", "security token"),
    ("soap switched off", "soap", {"soap_login": False}, {}, "INVALID_OPERATION (SOAP API login() is disabled by default", "Use client credentials or JWT bearer"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("auth", "knobs", "changes", "reason", "remedy"),
    [row[1:] for row in REFUSALS],
    ids=[row[0] for row in REFUSALS],
)
async def test_a_refusal_says_reason_and_remedy(
    bus: Emulator,
    auth: str,
    knobs: dict[str, Any],
    changes: dict[str, str],
    reason: str,
    remedy: str,
) -> None:
    """An error has Salesforce's words and the remedy, and no secret."""
    with Emulator(knobs=Knobs(**knobs)) if knobs else nullcontext(bus) as asked:
        org = asked.org
        with pytest.raises(AuthenticationError) as raised:
            await session_by(asked, auth, **changes)
    message = str(raised.value)
    assert reason in message
    assert remedy in message
    secrets = (org.consumer_secret, org.password, org.security_token, org.refresh_token, "wr0ng")
    assert not [one for one in secrets if one in message]


@pytest.mark.parametrize(
    ("auth", "said"), [("password", "authentication failure"), ("soap", "INVALID_LOGIN")]
)
async def test_a_user_that_is_locked_out(auth: str, said: str) -> None:
    """A locked user gets the error of a wrong password, whose remedy names the lock."""
    with Emulator() as bus:
        bus.lock_out(bus.org.username)
        with pytest.raises(AuthenticationError, match=f"{said}.*(is active|locked out)"):
            await session_by(bus, auth)
        assert (await session_by(bus, "client_credentials")).org_id == bus.org.org_id


async def test_a_refresh_token_that_was_revoked() -> None:
    """A revoked refresh token is an error that asks for a new one."""
    with Emulator() as bus:
        bus.revoke(bus.org.refresh_token)
        with pytest.raises(AuthenticationError, match="new refresh token"):
            await session_by(bus, "refresh_token")


async def test_client_credentials_on_the_host_for_all(bus: Emulator) -> None:
    """Client credentials on the general login host are an error that names the org's host."""
    with pytest.raises(
        AuthenticationError,
        match=r"request not supported on this domain\).*My Domain only: set the host",
    ):
        await session_by(bus, "client_credentials", host=bus.login_url)


async def test_an_unknown_grant(login_server: LoginServer) -> None:
    """A host without the flow is an error that names it."""
    login_server.refuse("unsupported_grant_type", "grant type not supported")
    login = RefreshToken(login_url=login_server.url, client_id="k", refresh_token=Secret("r"))
    with pytest.raises(AuthenticationError, match="does not offer this flow"):
        await log_in(Settings(login=login), Clock())


async def test_an_expired_password_by_soap() -> None:
    """A SOAP login with an expired password is an error."""
    with (
        Emulator(knobs=Knobs(password_expired=True)) as bus,
        pytest.raises(AuthenticationError, match=r"has expired\. Set a new one"),
    ):
        await session_by(bus, "soap")


@pytest.mark.parametrize(
    ("auth", "changes", "said"),
    [
        ("soap", {"api_version": "65.0"}, "does not exist in API 65.0"),
        ("soap", {"login": ""}, "no user name"),
        ("soap", {"password": "bell\x07"}, "cannot carry"),
        ("password", {"user_password": ""}, "no user password"),
        ("refresh_token", {"refresh_token": ""}, "no refresh token"),
        ("client_credentials", {"password": ""}, "no consumer secret"),
        ("jwt_bearer", {"private_key": "MIIE"}, "is not PEM"),
        ("session", {"session_token": ""}, "no session token"),
    ],
)
async def test_a_connection_of_the_wrong_shape_sends_nothing(
    bus: Emulator, auth: str, changes: dict[str, str], said: str
) -> None:
    """A connection that cannot work is refused before any request."""
    before = len(bus.requests)
    with pytest.raises(ConfigurationError, match=said):
        await session_by(bus, auth, **changes)
    assert len(bus.requests) == before


async def test_the_end_of_soap_is_told(bus: Emulator, caplog: pytest.LogCaptureFixture) -> None:
    """Each SOAP login warns of its end; no other login does."""
    await session_by(bus, "soap")
    assert [one.levelno for one in caplog.records if "Summer '27" in one.message] == [
        logging.WARNING
    ]
    caplog.clear()
    await session_by(bus, "password")
    assert "Summer" not in caplog.text


async def test_the_org_of_a_soap_session_without_one(login_server: LoginServer) -> None:
    """The org is read from userinfo if neither the answer nor the token names it."""
    body = (
        "<Envelope><Body><loginResponse><result>"
        f"<serverUrl>{login_server.url}/services/Soap/u/57.0/x</serverUrl><sessionId>opaque</sessionId>"
        "</result></loginResponse></Body></Envelope>"
    )
    login_server.answers = [(200, {}, body), (200, {}, {"organization_id": ORG_ID})]
    login = SoapLogin(login_url=login_server.url, username="u", password=Secret("p"))
    session = await log_in(Settings(login=login), Clock())
    assert session.org_id == ORG_ID
    assert login_server.paths == ["/services/Soap/u/57.0/", "/services/oauth2/userinfo"]


async def test_an_org_id_by_soap_that_is_none(login_server: LoginServer) -> None:
    """The answer's org id is checked like a typed one."""
    body = (
        "<Envelope><Body><loginResponse><result>"
        f"<serverUrl>{login_server.url}/services/Soap/u/57.0/x</serverUrl>"
        "<sessionId>00D000000000001!x</sessionId>"
        "<userInfo><organizationId>../../../../etc</organizationId></userInfo>"
        "</result></loginResponse></Body></Envelope>"
    )
    login_server.answers = [(200, {}, body)]
    login = SoapLogin(login_url=login_server.url, username="u", password=Secret("p"))
    with pytest.raises(ConfigurationError, match="an org id begins with 00D"):
        await log_in(Settings(login=login), Clock())


@pytest.mark.parametrize(("given_back", "warned"), [("", False), ("r", False), ("r2", True)])
async def test_a_refresh_token_that_is_used_up(
    login_server: LoginServer, caplog: pytest.LogCaptureFixture, given_back: str, warned: bool
) -> None:
    """A login that returns a new refresh token logs a warning that shows neither token."""
    login_server.grant(**({"refresh_token": given_back} if given_back else {}))
    login = RefreshToken(login_url=login_server.url, client_id="k", refresh_token=Secret("r"))
    await log_in(Settings(login=login), Clock())
    assert ("rotation" in caplog.text) is warned
    assert "r2" not in caplog.text


STOCK: dict[str, Any] = {
    "soap": lambda org: ({}, {"security_token": org.security_token}),
    "password": lambda org: (
        {},
        {"extra__salesforce__consumer_key": org.consumer_key,
         "consumer_secret": org.consumer_secret,
         "password": org.password + org.security_token},
    ),
    "jwt": lambda org: (
        {"password": ""},
        {"consumer_key": org.consumer_key, "private_key": org.private_key_pem},
    ),
    "client credentials": lambda org: (
        {"login": "", "password": ""},
        {"consumer_key": org.consumer_key, "consumer_secret": org.consumer_secret},
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", STOCK)
async def test_connections_of_the_stock_type(bus: Emulator, way: str) -> None:
    """Connections of apache-airflow-providers-salesforce log in here too."""
    over, extra = STOCK[way](bus.org)
    password = extra.pop("password", bus.org.password)
    values = {"login": bus.org.username, "password": password, "host": None, **over}
    stock = given({**values, "extra": {"instance_url": bus.org.instance_url}}, extra, {})
    assert (await log_in(stock_settings(ConnectionFields(stock)), Clock())).org_id == bus.org.org_id
