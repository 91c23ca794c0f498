"""HTTP proxies between this machine and the org, by the environment or the connection.

1. Logins and REST (`httpx`) read `https_proxy` and `HTTPS_PROXY`; gRPC reads the names in lower
   case only: `grpc_proxy`, `https_proxy`, `http_proxy`; and `no_grpc_proxy`, `no_proxy`.
2. Both open a tunnel (CONNECT), so that is tried. No byte is sent through it.
3. No proxy stands between this machine and itself.
"""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # of CPython

from airflow_provider_sfevents.doctor.findings import failed, ok, warning
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.auth.settings import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.pubsub.auth.settings import Settings

CHECKED = "proxy"
ANSWER_SECONDS = 3.0
"""Time for a proxy to open a tunnel."""

_GRPC = ("grpc_proxy", "https_proxy", "http_proxy")
_NO_GRPC = ("no_grpc_proxy", "no_proxy")
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRoute:
    """Way from this machine to a host.

    :param name: purpose of the host, such as "the login".
    :param to: `host:port`.
    :param proxy: URL of the proxy, which may hold a password; empty: the host is reached directly.
    """

    name: str
    to: str
    proxy: str = field(default="", repr=False)

    @property
    def proxy_host(self) -> str:
        """Host and port of the proxy, without user and password."""
        parts = urlsplit(self.proxy)
        return f"{parts.hostname}:{parts.port or _PORTS.get(parts.scheme, 80)}"


def routes_of(settings: Settings, environ: Mapping[str, str]) -> tuple[ProxyRoute, ProxyRoute]:
    """Return the ways to the login host and to the Pub/Sub API.

    The proxy of the settings is that of both; without one the environment's are used.
    """
    login = urlsplit(settings.login.login_url)
    host, port = login.hostname or "", login.port or _PORTS[login.scheme]
    endpoint = urlsplit(f"//{settings.endpoint}").hostname or ""
    of_login, of_api = settings.proxy.reveal(), settings.proxy.reveal()
    if not settings.proxy:
        of_login, of_api = _of_http(host, login.scheme, environ), _of_grpc(endpoint, environ)
        for proxy in (of_login, of_api):
            _check_port(proxy)
    return (
        ProxyRoute(name="the login", to=f"{host}:{port}", proxy=of_login),
        ProxyRoute(name="the Pub/Sub API", to=settings.endpoint, proxy=of_api),
    )


def _check_port(proxy: str) -> None:
    """Check the port of a proxy of the environment; its URL may hold a password, so none is shown.

    :raises ConfigurationError: it is no number.
    """
    try:
        urlsplit(proxy).port  # noqa: B018 - reading it is the check
    except ValueError:
        raise ConfigurationError(
            "The URL of the proxy has no number as its port. Encode special characters of user and "
            "password in the environment's https_proxy and grpc_proxy, such as # as %23."
        ) from None


def _of_http(host: str, scheme: str, environ: Mapping[str, str]) -> str:
    named = _by_any_case(environ)
    if is_loopback(host) or proxy_bypass_environment(host, named):
        return ""
    return _with_scheme(named.get(scheme) or named.get("all", ""))


def _of_grpc(host: str, environ: Mapping[str, str]) -> str:
    without = next((environ[name] for name in _NO_GRPC if environ.get(name)), "")
    if is_loopback(host) or proxy_bypass_environment(host, {"no": without}):
        return ""
    return _with_scheme(next((environ[name] for name in _GRPC if environ.get(name)), ""))


def _by_any_case(environ: Mapping[str, str]) -> dict[str, str]:
    """Return proxies by scheme, and `no`; names in lower case come before others."""
    found = {
        name.lower().removesuffix("_proxy"): name
        for name in sorted(environ)  # upper case first
        if name.lower().endswith("_proxy") and environ[name]
    }
    return {scheme: environ[name] for scheme, name in found.items()}


def _with_scheme(proxy: str) -> str:
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def unseen_by_grpc(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Return whether a proxy is named for HTTPS in upper case only, so that gRPC goes without."""
    host = urlsplit(f"//{settings.endpoint}").hostname or ""
    return bool(
        not settings.proxy
        and environ.get("HTTPS_PROXY")
        and _of_http(host, "https", environ)
        and not any(environ.get(name) for name in (*_GRPC, *_NO_GRPC))
    )


async def refusal(route: ProxyRoute) -> str:
    """Try to open a tunnel; the reason if the proxy opens none, otherwise empty."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await _connect(route)
    except TimeoutError:
        return f"there was no answer within {ANSWER_SECONDS:g} s"
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def _connect(route: ProxyRoute) -> str:
    parts = urlsplit(route.proxy)
    port = parts.port or _PORTS.get(parts.scheme, 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port)
    try:
        if parts.scheme != "http":
            return ""  # a proxy of another kind; that it takes connections is all that is tried
        asked = f"CONNECT {route.to} HTTP/1.1\r\nHost: {route.to}\r\n"
        writer.write(f"{asked}{_authorization(route)}\r\n".encode())
        return _refused((await reader.readline()).decode("latin-1"))
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _authorization(route: ProxyRoute) -> str:
    """Header line with the proxy's user and password; empty without a user."""
    parts = urlsplit(route.proxy)
    if not parts.username:
        return ""
    plain = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Proxy-Authorization: Basic {base64.b64encode(plain.encode()).decode()}\r\n"


def _refused(status_line: str) -> str:
    """Return the reason in the first line of a proxy's answer; empty if it opened a tunnel."""
    version, _, status = status_line.strip().partition(" ")
    if not version.startswith("HTTP/"):
        return "it does not answer as an HTTP proxy"
    return "" if status.startswith("2") else f"it answered {status}"


def proxy_finding(
    routes: Sequence[ProxyRoute], refusals: Sequence[str], *, is_unseen_by_grpc: bool
) -> Finding:
    """Return the line of the proxies.

    :param refusals: for each route, the reason why its proxy opens no tunnel; empty if it does.
    """
    bad = [(route, why) for route, why in zip(routes, refusals, strict=True) if why]
    if bad:
        route, why = bad[0]
        return failed(
            CHECKED,
            f"The proxy {route.proxy_host} does not lead to {route.name} ({route.to}): {why}.",
            "Correct https_proxy, or let the proxy pass this host and port; if none is needed, "
            "name the host in no_proxy.",
        )
    if is_unseen_by_grpc:
        return warning(
            CHECKED,
            "HTTPS_PROXY is set and https_proxy is not: logins go through the proxy, and gRPC, "
            "which reads the name in lower case only, goes without.",
            "Set https_proxy, too; if the Pub/Sub API needs no proxy, name its host in no_proxy.",
        )
    if not any(route.proxy for route in routes):
        named = " and ".join(f"{route.name} ({route.to})" for route in routes)
        return ok(CHECKED, f"This machine reaches {named} without a proxy.")
    told = " and ".join(f"{route.name} ({route.to}) {_by(route)}" for route in routes)
    return ok(CHECKED, f"This machine reaches {told}.")


def _by(route: ProxyRoute) -> str:
    return f"through the proxy {route.proxy_host}" if route.proxy else "without a proxy"
