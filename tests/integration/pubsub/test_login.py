"""Login: parts of a session, number of requests, and errors of refusals."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.login import log_in
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import (
    ClientCredentials,
    JwtBearer,
    Login,
    SessionToken,
    Settings,
)
from airflow_provider_sfevents.pubsub.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.pubsub.auth.session import Session
    from tests.integration.pubsub.conftest import LoginServer

LoginT = TypeVar("LoginT", ClientCredentials, JwtBearer)
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    with Emulator() as bus:
        yield bus
        bus.check()


def by_secret(bus: Emulator, **changes: str) -> ClientCredentials:
    known = ClientCredentials(
        login_url=bus.my_domain_url,
        client_id=bus.org.consumer_key,
        client_secret=Secret(bus.org.consumer_secret),
    )
    return changed(known, changes)


def by_key(bus: Emulator, **changes: str) -> JwtBearer:
    known = JwtBearer(
        login_url=bus.login_url,
        client_id=bus.org.consumer_key,
        username=bus.org.username,
        private_key=Secret(bus.org.private_key_pem),
    )
    return changed(known, changes)


def changed(known: LoginT, changes: dict[str, str]) -> LoginT:
    """A login with other values, secrets among them."""
    values: dict[str, Any] = {
        name: Secret(value) if isinstance(getattr(known, name), Secret) else value
        for name, value in changes.items()
    }
    return replace(known, **values)


async def session_of(login: Login, clock: Clock | None = None) -> Session:
    return await log_in(Settings(login=login), clock or Clock())


async def test_a_key_pasted_into_json_is_read(bus: Emulator) -> None:
    """A key whose line breaks became two characters is readable."""
    pasted = bus.org.private_key_pem.replace("\n", "\\n")
    assert (await session_of(by_key(bus, private_key=pasted))).org_id == bus.org.org_id


async def test_an_encrypted_key_is_read_with_its_passphrase(bus: Emulator) -> None:
    """An encrypted key is read with its passphrase."""
    login = by_key(bus, private_key=encrypted(bus.org.private_key_pem), passphrase="open")
    assert (await session_of(login)).org_id == bus.org.org_id


def encrypted(pem: str) -> str:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pem.encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"open"),
    ).decode()


async def test_a_key_of_another_app(bus: Emulator) -> None:
    """A readable key of another app has another error than an unreadable key."""
    other = bus.add_org().private_key_pem
    with pytest.raises(AuthenticationError, match="certificate uploaded to the app"):
        await session_of(by_key(bus, private_key=other))


@pytest.mark.parametrize(
    ("minutes", "said"), [(-10, "behind"), (10, "ahead of")], ids=["behind", "ahead"]
)
async def test_a_skewed_clock(bus: Emulator, minutes: int, said: str) -> None:
    """A clock that is off makes assertions invalid; the message names the skew."""
    clock = Clock(now=lambda: datetime.now(UTC) + timedelta(minutes=minutes))
    with pytest.raises(AuthenticationError, match=rf"clock is (59|60)\d s {said} the server"):
        await session_of(by_key(bus), clock)


@pytest.mark.parametrize(
    ("change", "passphrase", "said"),
    [
        pytest.param(lambda pem: "MIIEpAIBAAKCAQEA", "", "is not PEM", id="no pem"),
        pytest.param(lambda pem: pem[:200] + pem[300:], "", "copy the whole file", id="cut"),
        pytest.param(encrypted, "", "is encrypted", id="no passphrase"),
        pytest.param(encrypted, "shut", "with the passphrase given", id="wrong passphrase"),
        pytest.param(
            lambda pem: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            "",
            "is a certificate",
            id="certificate",
        ),
    ],
)
async def test_an_unreadable_key(bus: Emulator, change: Any, passphrase: str, said: str) -> None:
    """The error names the fault of a key without showing any of it."""
    key = change(bus.org.private_key_pem)
    with pytest.raises(ConfigurationError, match=said) as raised:
        await session_of(by_key(bus, private_key=key, passphrase=passphrase))
    assert key.splitlines()[-1][:12] not in str(raised.value).replace("-----BEGIN", "")
    assert raised.value.__cause__ is None


async def test_a_key_that_is_not_rsa(bus: Emulator) -> None:
    """A key that is not RSA is named as such, because RS256 needs one."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(ConfigurationError, match="not an RSA key"):
        await session_of(by_key(bus, private_key=key.decode()))


async def test_a_session_token_needs_no_login(bus: Emulator) -> None:
    """A classic token contains its org; for an opaque one the org is asked."""
    connection = bus.connection("session")
    token = connection["extra"]["session_token"]
    before = len(bus.requests)
    session = await session_of(SessionToken(token=Secret(token), instance_url=bus.my_domain_url))
    assert (session.org_id, len(bus.requests)) == (bus.org.org_id, before)


async def test_the_org_of_an_opaque_token_is_asked_for(login_server: LoginServer) -> None:
    """The org of a JWT access token is read from userinfo."""
    login_server.answers = [(200, {}, {"organization_id": "00D000000000001EAA"})]
    session = await session_of(
        SessionToken(token=Secret("eyJhbGciOi"), instance_url=login_server.url)
    )
    assert session.org_id == "00D000000000001EAA"
    assert login_server.paths == ["/services/oauth2/userinfo"]


@pytest.mark.parametrize("told", ["../../../../etc", "00D", "001000000000001EAA", "", None])
async def test_an_org_id_that_is_none(login_server: LoginServer, told: str | None) -> None:
    """An org id from userinfo is checked like a typed one."""
    login_server.answers = [(200, {}, {"organization_id": told})]
    with pytest.raises(ConfigurationError, match=r"an org id begins with 00D.*set org_id"):
        await session_of(SessionToken(token=Secret("eyJhbGciOi"), instance_url=login_server.url))


@pytest.mark.parametrize(
    "instance_url", ["https://acme.example", "https://salesforce.com.x.example"]
)
async def test_an_org_at_another_host(login_server: LoginServer, instance_url: str) -> None:
    """A host that only the login's answer names is refused, and nothing is sent to it."""
    login_server.answers = [(200, {}, {"access_token": "opaque", "instance_url": instance_url})]
    with pytest.raises(ConfigurationError, match="The token is not sent there"):
        await session_of(credentials(login_server))
    assert login_server.paths == ["/services/oauth2/token"]


async def test_an_org_at_an_allowed_host(login_server: LoginServer) -> None:
    """A host in `allowed_hosts` is accepted."""
    login_server.grant(instance_url="https://gateway.acme.example")
    settings = Settings(login=credentials(login_server), allowed_hosts=("gateway.acme.example",))
    session = await log_in(settings, Clock())
    assert session.instance_url == "https://gateway.acme.example"


async def test_the_user_of_a_session_token_is_asked_for_once(bus: Emulator) -> None:
    """The user of a session token is read from the org once, when it is needed."""
    extra = bus.connection("session")["extra"]
    login = SessionToken(token=Secret(extra["session_token"]), instance_url=extra["instance_url"])
    cache, settings, before = SessionCache(), Settings(login=login), len(bus.requests)
    assert (await cache.get(settings, Clock())).user_id == ""
    found = await asyncio.gather(*(cache.with_user(settings, Clock()) for _ in range(3)))
    assert {session.user_id for session in found} == {bus.org.user_id}
    assert (await cache.get(settings, Clock())).user_id == bus.org.user_id
    assert [call.rpc for call in bus.requests[before:]] == ["userinfo"]


@pytest.mark.parametrize(
    ("status", "said"),
    [(403, "Bad_OAuth_Token"), (200, {"organization_id": "00D000000000001"}), (404, "")],
)
async def test_a_user_that_is_not_told(login_server: LoginServer, status: int, said: Any) -> None:
    """A token that may not ask for its user works without one."""
    login_server.answers = [(status, {}, said)]
    login = SessionToken(token=Secret("00D000000000001!x"), instance_url=login_server.url)
    session = await SessionCache().with_user(Settings(login=login), Clock())
    assert (session.org_id, session.user_id) == ("00D000000000001EAA", "")


@pytest.mark.parametrize("status", [429, 503])
async def test_a_user_that_cannot_be_asked_for_now(login_server: LoginServer, status: int) -> None:
    """An org that is away or busy while it is asked for the user is a retryable error."""
    login_server.answers = [(status, {}, "")]
    login = SessionToken(token=Secret("00D000000000001!x"), instance_url=login_server.url)
    with pytest.raises(TransportError, match=f"userinfo answered HTTP {status}"):
        await SessionCache().with_user(Settings(login=login), Clock())


async def test_a_refused_session_token(login_server: LoginServer) -> None:
    """A refused session token is an authentication error that does not show it."""
    login_server.answers = [(403, {}, "Bad_OAuth_Token")]
    with pytest.raises(AuthenticationError, match="HTTP 403") as raised:
        await session_of(SessionToken(token=Secret("eyJhbGciOi"), instance_url=login_server.url))
    assert "eyJhbGciOi" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "headers", "body", "error", "said"),
    [
        pytest.param(200, {}, "<html>welcome", ConfigurationError, "not as a Salesforce", id="page"),
        pytest.param(404, {}, "", ConfigurationError, "HTTP 404", id="not found"),
        pytest.param(
            302, {"location": "https://moved.example/x?y=1"}, "", ConfigurationError,
            "pointing to https://moved.example/x, not", id="moved",
        ),
        pytest.param(503, {}, "", TransportError, "HTTP 503", id="down"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_no_login(
    login_server: LoginServer,
    status: int,
    headers: dict[str, str],
    body: str,
    error: type[SfEventsError],
    said: str,
) -> None:
    """A host that is no Salesforce login is a configuration error, and one that is down is not."""
    login_server.answers = [(status, headers, body)]
    with pytest.raises(error, match=said):
        await session_of(credentials(login_server))


def credentials(server: LoginServer) -> ClientCredentials:
    return ClientCredentials(login_url=server.url, client_id="key", client_secret=Secret("s3cret"))


async def test_an_unreachable_host() -> None:
    """An unreachable host is a retryable error with the URL and the things to check."""
    login = ClientCredentials(
        login_url="http://127.0.0.1:1", client_id="k", client_secret=Secret("s")
    )
    with pytest.raises(TransportError, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        await session_of(login)


async def test_a_login_host_without_tls(login_server: LoginServer) -> None:
    """An https:// URL of a plain HTTP server is a configuration error."""
    login = replace(
        credentials(login_server), login_url=login_server.url.replace("http:", "https:")
    )
    with pytest.raises(ConfigurationError, match="does not speak TLS"):
        await session_of(login)


async def test_a_session_is_shared_by_equal_settings(login_server: LoginServer) -> None:
    """The process logs in once for all clients with equal settings."""
    login_server.grant()
    cache, settings = SessionCache(), Settings(login=credentials(login_server))
    at_once = await asyncio.gather(*(cache.get(settings, Clock()) for _ in range(10)))
    later = await cache.get(replace(settings), Clock())
    assert {session.token.reveal() for session in (*at_once, later)} == {"00D000000000001!granted"}
    assert len(login_server.forms) == 1


async def test_a_refused_session_is_renewed_once(login_server: LoginServer) -> None:
    """Ten concurrent refusals of one token cost one renewal."""
    login_server.grant("00D000000000001!first")
    login_server.grant("00D000000000001!second")
    cache, settings = SessionCache(), Settings(login=credentials(login_server))
    first = await cache.get(settings, Clock())
    renewed = await asyncio.gather(*(cache.renew(settings, first, Clock()) for _ in range(10)))
    assert {session.token.reveal() for session in renewed} == {"00D000000000001!second"}
    assert len(login_server.forms) == 2


async def test_a_failed_login_is_not_kept(login_server: LoginServer) -> None:
    """A failed login is not cached: the next call logs in again."""
    login_server.refuse("invalid_grant", "authentication failure")
    login_server.grant()
    cache, settings = SessionCache(), Settings(login=credentials(login_server))
    with pytest.raises(AuthenticationError):
        await cache.get(settings, Clock())
    assert (await cache.get(settings, Clock())).org_id == "00D000000000001EAA"


def test_a_session_outlives_its_event_loop() -> None:
    """A second `asyncio.run` reuses the session of the first one, and no lock of its loop."""
    cache = SessionCache()
    with Emulator(knobs=Knobs()) as bus:
        settings = Settings(login=by_secret(bus))

        async def together() -> set[str]:
            found = await asyncio.gather(*(cache.get(settings, Clock()) for _ in range(3)))
            return {session.token.reveal() for session in found}

        assert asyncio.run(together()) == asyncio.run(together())
        assert [call.rpc for call in bus.requests] == ["token"]


async def test_answer_timeout_bounds_a_login(bus: Emulator) -> None:
    """A host that takes the connection and says nothing is given up after `answer_timeout`."""
    done = asyncio.Event()

    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    settings = Settings(login=by_secret(bus, login_url=url), answer_timeout=0.2)
    try:
        with pytest.raises(TransportError, match=r"did not answer.*within 0\.2 s.*answer_timeout"):
            await log_in(settings, Clock())
    finally:
        done.set()
        server.close()
