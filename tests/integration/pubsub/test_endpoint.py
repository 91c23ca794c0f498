"""Connection to the API: trusted certificates, and errors of a client that does not get there."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, SessionToken, Settings
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.rpc_errors import NotSentError
from airflow_provider_sfevents.pubsub.schema_cache import SchemaCache
from airflow_provider_sfevents.pubsub.timeouts import Timeouts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def over_tls() -> Iterator[Emulator]:
    with Emulator(tls=True, sample=True) as bus:
        yield bus
        bus.check()


@pytest.fixture(scope="module")
def plain() -> Iterator[Emulator]:
    with Emulator(sample=True) as bus:
        yield bus
        bus.check()


def settings_for(bus: Emulator, **more: Any) -> Settings:
    login = ClientCredentials(
        login_url=bus.my_domain_url,
        client_id=bus.org.consumer_key,
        client_secret=Secret(bus.org.consumer_secret),
    )
    return Settings(**{"login": login, "endpoint": bus.endpoint, **more})


def ready(bus: Emulator, **more: Any) -> Settings:
    """A client with a session, so that only the API's side is tried."""
    extra = bus.connection("session")["extra"]
    login = SessionToken(token=Secret(extra["session_token"]), instance_url=extra["instance_url"])
    return Settings(**{"login": login, "endpoint": bus.endpoint, **more})


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[PubSubClient]:
    async with PubSubClient(settings, sessions=SessionCache(), schemas=SchemaCache()) as client:
        yield client


async def failure(settings: Settings, answer_seconds: float = 5.0) -> SfEventsError:
    """The error of `check`, which must end in time."""
    client = PubSubClient(
        settings,
        sessions=SessionCache(),
        schemas=SchemaCache(),
        timeouts=Timeouts(answer_seconds=answer_seconds),
    )
    async with client, asyncio.timeout(answer_seconds + 1):
        with pytest.raises(SfEventsError) as raised:
            await client.check()
    return raised.value


async def test_own_authority(over_tls: Emulator) -> None:
    """A CA file makes both the login and the API trusted."""
    async with connected(settings_for(over_tls, ca_file=over_tls.ca_file)) as client:
        session = await client.check()
    assert session.org_id == over_tls.org.org_id


async def test_plaintext_to_this_machine(plain: Emulator) -> None:
    """Without TLS on loopback, all three headers arrive."""
    async with connected(settings_for(plain, plaintext=True)) as client:
        await client.check()
    call = next(call for call in plain.requests if call.rpc == "GetTopic")
    assert {"accesstoken", "instanceurl", "tenantid", "x-client-trace-id"} <= set(call.metadata)


async def test_an_authority_that_did_not_sign(over_tls: Emulator, tmp_path: Path) -> None:
    """The wrong CA file is named as what to change, for the login and for the API."""
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    for settings in (settings_for, ready):
        error = await failure(settings(over_tls, ca_file=str(other)))
        assert isinstance(error, ConfigurationError)
        assert "ca_file" in str(error)


async def test_the_usual_authorities_do_not_vouch_for_a_stranger(over_tls: Emulator) -> None:
    """Without a CA file a private certificate is refused."""
    error = await failure(ready(over_tls))
    assert isinstance(error, ConfigurationError)
    assert over_tls.endpoint in str(error)


@pytest.mark.parametrize(
    ("content", "said"),
    [("rubbish", "cannot be used"), (None, "No such file")],
    ids=["rubbish", "gone"],
)
async def test_a_ca_file_that_is_none(
    over_tls: Emulator, tmp_path: Path, content: str | None, said: str
) -> None:
    """An unreadable CA file is named before anything is sent."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    error = await failure(ready(over_tls, ca_file=str(path)))
    assert isinstance(error, ConfigurationError)
    assert said in str(error)
    assert str(path) in str(error)


async def test_a_certificate_for_another_name(tmp_path: Path) -> None:
    """A valid certificate for another host has an error of its own."""
    import grpc
    import grpc.aio

    authority = trustme.CA()
    certificate = authority.issue_cert("elsewhere.example")
    chain = certificate.cert_chain_pems[0].bytes()
    credentials = grpc.ssl_server_credentials([(certificate.private_key_pem.bytes(), chain)])
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        error = await failure(unready(f"localhost:{port}", ca_file=str(ca_file)))
    finally:
        await server.stop(grace=0)
    assert isinstance(error, ConfigurationError)
    assert "another host name" in str(error)


def unready(endpoint: str, **more: Any) -> Settings:
    login = SessionToken(
        token=Secret("00D000000000001!x"), instance_url="https://acme.my.salesforce.com"
    )
    return Settings(login=login, endpoint=endpoint, **more)


async def test_tls_towards_a_plain_server(plain: Emulator) -> None:
    """TLS to a server without it has an error that says so."""
    error = await failure(ready(plain))
    assert isinstance(error, ConfigurationError)
    assert "does not speak TLS" in str(error)


async def test_plaintext_towards_a_tls_server(over_tls: Emulator) -> None:
    """A TLS server closes on a client without TLS; the message offers that as a reason."""
    error = await failure(ready(over_tls, plaintext=True))
    assert isinstance(error, TransportError)
    assert "speaks TLS closes like this" in str(error)


async def test_no_listener() -> None:
    """A closed endpoint is named, is worth another try, and certainly took nothing."""
    error = await failure(unready("127.0.0.1:1", plaintext=True))
    assert isinstance(error, NotSentError)
    assert "127.0.0.1:1" in str(error)
    assert "endpoint" in str(error)


async def test_a_web_server(plain: Emulator) -> None:
    """The login host given as endpoint is not the Pub/Sub API."""
    error = await failure(
        ready(plain, endpoint=plain.my_domain_url[len("http://") :], plaintext=True)
    )
    assert "pubsub_endpoint" in str(error)
    assert isinstance(error, ConfigurationError)


async def test_silence_on_the_line() -> None:
    """A server that never answers is an error after the answer timeout."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        error = await failure(unready(f"127.0.0.1:{port}", plaintext=True), answer_seconds=0.5)
    assert isinstance(error, TransportError)
    assert str(port) in str(error)


async def test_an_org_that_is_not_the_sessions(plain: Emulator) -> None:
    """A session token with another org's id is refused with an error that says so."""
    extra = plain.connection("session")["extra"]
    login = SessionToken(
        token=Secret(extra["session_token"]),
        instance_url=extra["instance_url"],
        org_id="00D000000000002",
    )
    error = await failure(Settings(login=login, endpoint=plain.endpoint, plaintext=True))
    assert isinstance(error, AuthenticationError)
    assert extra["session_token"] not in str(error)
