"""HTTP to an org: trust, proxies, secrets in requests, and the meaning of failures."""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import TYPE_CHECKING

import httpx
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.pubsub.auth.ca_file import read_ca_file
from airflow_provider_sfevents.pubsub.auth.settings import is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from airflow_provider_sfevents.pubsub.auth.secret import Secret
    from airflow_provider_sfevents.pubsub.auth.settings import Settings


_BUSY = (408, 429)  # a timeout, and too many requests


def passes(status: int) -> bool:
    """Tell whether an HTTP status means that the service is away or busy: trying again helps."""
    return status >= 500 or status in _BUSY


class SecretBody:
    """A request's body that no frame of httpx shows: a dict or bytes would be a local variable."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content = content
        self.headers = {"Content-Type": media_type, "Content-Length": str(len(content))}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


class BearerAuth(httpx.Auth):
    """Token of a request, kept out of the headers that httpx has in its frames."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    @override
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        request.headers["Authorization"] = f"Bearer {self._token.reveal()}"
        yield request


def open_http(settings: Settings, url: str, seconds: float) -> httpx.AsyncClient:
    """Make an HTTP client for one host; to be used with `async with`.

    :param url: of the host.
    :param seconds: to wait for a connection, and for each next piece of an answer.
    """
    return httpx.AsyncClient(
        verify=_trust(settings, url),
        proxy=httpx.Proxy(settings.proxy.reveal()) if settings.proxy else None,
        timeout=seconds,
        trust_env=not is_loopback(
            httpx.URL(url).host
        ),  # no proxy stands between this machine and itself
        headers={"User-Agent": "airflow-provider-sfevents", "Accept": "application/json"},
    )


def _trust(settings: Settings, url: str) -> ssl.SSLContext | bool:
    if url.startswith("http://"):
        return ssl.SSLContext(
            ssl.PROTOCOL_TLS_CLIENT
        )  # no roots: plain HTTP needs none, and loading them takes time
    if settings.ca_file:
        return ssl.create_default_context(cadata=read_ca_file(settings.ca_file))
    is_told = any(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    return True if is_told else _usual_authorities()


@cache
def _usual_authorities() -> ssl.SSLContext:
    """Context that all clients share: loading it blocks a triggerer's loop for some 30 ms."""
    return httpx.create_ssl_context(trust_env=False)


def unreachable(
    url: str, error: httpx.HTTPError, ca_file: str
) -> ConfigurationError | TransportError:
    """Make the error for a host that did not answer: the reason, and what to check."""
    reason = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        trusted = f"the CA file {ca_file!r}" if ca_file else "the usual authorities"
        return ConfigurationError(
            f"The certificate of {url} is not signed by {trusted}: {reason}. Set ca_file to the "
            "authority that signed it."
        )
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER_FAILURE" in reason:
        return ConfigurationError(
            f"{url} does not speak TLS: {reason}. Check scheme and port of the host."
        )
    return TransportError(
        f"{url} cannot be reached: {reason}. Check the host's spelling, network and proxy."
    )
