"""Proxies by the environment: those that logins use, and those that gRPC uses."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from airflow_provider_sfevents.doctor.findings import CheckStatus
from airflow_provider_sfevents.doctor.http_proxy import (
    ProxyRoute,
    proxy_finding,
    refusal,
    routes_of,
    unseen_by_grpc,
)
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings

PROXY = "http://me:hush@proxy.acme.example:3128"


def settings(host: str = "https://acme.my.salesforce.com", **changes: Any) -> Settings:
    login = ClientCredentials(login_url=host, client_id="key", client_secret=Secret("hidden"))
    return Settings(login=login, **changes)


@pytest.mark.parametrize(
    ("environ", "of_login", "of_api"),
    [
        ({}, "", ""),
        ({"https_proxy": PROXY}, PROXY, PROXY),
        ({"HTTPS_PROXY": PROXY}, PROXY, ""),
        ({"HTTPS_PROXY": "http://other:1", "https_proxy": PROXY}, PROXY, PROXY),
        ({"http_proxy": PROXY}, "", PROXY),
        ({"grpc_proxy": PROXY}, "", PROXY),
        ({"ALL_PROXY": PROXY}, PROXY, ""),
        ({"https_proxy": PROXY, "no_proxy": "salesforce.com"}, "", ""),
        ({"https_proxy": PROXY, "NO_PROXY": ".salesforce.com"}, "", PROXY),
        ({"https_proxy": PROXY, "no_grpc_proxy": "pubsub.salesforce.com"}, PROXY, ""),
        ({"https_proxy": "proxy:3128"}, "http://proxy:3128", "http://proxy:3128"),
    ],
)
def test_logins_and_grpc_read_different_names(
    environ: dict[str, str], of_login: str, of_api: str
) -> None:
    """Names in upper case are for HTTP only, and some in lower case for gRPC only."""
    login, api = routes_of(settings(), environ)
    assert (login.proxy, api.proxy) == (of_login, of_api)
    assert (login.to, api.to) == ("acme.my.salesforce.com:443", "api.pubsub.salesforce.com:7443")


def test_a_proxy_without_a_number_as_its_port_is_named_without_its_password() -> None:
    """A password with a special character ends the host too early."""
    with pytest.raises(ConfigurationError, match="no number as its port") as refused:
        routes_of(settings(), {"https_proxy": "http://me:hush#hush@proxy:3128"})
    assert "hush" not in str(refused.value)


def test_a_proxy_of_the_connection_is_that_of_both() -> None:
    """The environment does not count beside a proxy that the connection names."""
    named = settings(proxy=Secret(PROXY))
    environ = {"HTTPS_PROXY": "http://other:1", "no_proxy": "salesforce.com"}
    assert [one.proxy for one in routes_of(named, environ)] == [PROXY, PROXY]
    assert not unseen_by_grpc(named, {"HTTPS_PROXY": PROXY})


def test_this_machine_is_reached_directly() -> None:
    """No proxy stands between this machine and itself."""
    here = settings("http://127.0.0.1:8080", endpoint="localhost:7443", plaintext=True)
    assert [one.proxy for one in routes_of(here, {"https_proxy": PROXY, "http_proxy": PROXY})] == [
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("environ", "unseen"),
    [
        ({"HTTPS_PROXY": PROXY}, True),
        ({"https_proxy": PROXY}, False),
        ({"HTTPS_PROXY": PROXY, "https_proxy": PROXY}, False),
        ({"HTTPS_PROXY": PROXY, "no_proxy": "pubsub.salesforce.com"}, False),
        ({}, False),
    ],
)
def test_a_proxy_that_grpc_does_not_see_is_a_warning(environ: dict[str, str], unseen: bool) -> None:
    """A name in upper case alone sends logins through the proxy, and gRPC past it."""
    assert unseen_by_grpc(settings(), environ) is unseen
    line = proxy_finding(routes_of(settings(), environ), ["", ""], is_unseen_by_grpc=unseen)
    assert line.status is (CheckStatus.WARNING if unseen else CheckStatus.OK)


def test_a_proxy_that_refuses_is_named_without_its_password() -> None:
    """The line has proxy, host and reason."""
    routes = routes_of(settings(), {"https_proxy": PROXY})
    line = proxy_finding(routes, ["", "it answered 403 Forbidden"], is_unseen_by_grpc=False)
    assert line.status is CheckStatus.FAILED
    assert line.seen == (
        "The proxy proxy.acme.example:3128 does not lead to the Pub/Sub API "
        "(api.pubsub.salesforce.com:7443): it answered 403 Forbidden."
    )
    assert "hush" not in repr((routes, line))


def ask(answer: bytes, user: str = "") -> tuple[str, bytes]:
    """Try a proxy that answers so; returns the refusal, and the request that it got."""

    async def run() -> tuple[str, bytes]:
        got = b""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal got
            got = await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            proxy = f"http://{user}127.0.0.1:{port}"
            return await refusal(ProxyRoute(name="the login", to="acme:443", proxy=proxy)), got

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 200 Connection established\r\n\r\n", ""),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "it answered 403 Forbidden"),
        (b"HTTP/1.0 407 Proxy Authentication Required\r\n\r\n", "it answered 407 Proxy Auth"),
        (b"SSH-2.0-x\r\n", "it does not answer as an HTTP proxy"),
        (b"", "it does not answer as an HTTP proxy"),
    ],
)
def test_a_tunnel_is_tried(answer: bytes, reason: str) -> None:
    """A proxy is right if it opens a tunnel to the host."""
    said, got = ask(answer)
    assert said.startswith(reason) if reason else said == ""
    assert got.startswith(b"CONNECT acme:443 HTTP/1.1\r\nHost: acme:443\r\n\r\n")


def test_a_proxys_user_is_passed_on() -> None:
    """User and password of the proxy's URL are sent as the proxy needs them."""
    _, got = ask(b"HTTP/1.1 200 OK\r\n\r\n", user="me:hush%21@")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:hush!") in got
