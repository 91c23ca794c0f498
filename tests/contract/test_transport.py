"""What the service is reached by: ports, TLS, HTTP/2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.contract import wire
from tests.contract.orgs import ENDPOINT, emulated

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest


@pytest.mark.parametrize("port", [443, 7443])
def test_both_ports_serve_the_api(org: OrgUnderTest, port: int) -> None:
    """They are equivalent. Source: Pub/Sub API Endpoints page."""
    if org.endpoint != ENDPOINT:
        pytest.skip(f"the API is reached at {org.endpoint}, whose port was chosen")
    host = org.endpoint.rpartition(":")[0]
    with wire.opened(f"{host}:{port}", plaintext=False, trusted=None) as channel:
        client = wire.Client(channel, org.headers, org.counter)
        assert client.get_topic(org.topic).topic_name == org.topic


def test_plain_http_is_not_served(org: OrgUnderTest) -> None:
    """A GET of a browser gets HTTP 415. Source: answer of the live service."""
    scheme = "http" if org.plaintext else "https"
    assert httpx.get(f"{scheme}://{org.endpoint}/", timeout=10).status_code == 415


def test_tls_is_trusted_and_needs_no_client_certificate(org: OrgUnderTest) -> None:
    """The server's certificate is enough. Source: Pub/Sub API Endpoints page."""
    if org.emulator is None:
        assert org.client.get_topic(org.topic).topic_name == org.topic
        return
    with emulated(tls=True) as other:
        assert other.client.get_topic(other.topic).topic_name == other.topic


def test_many_streams_share_a_connection(org: OrgUnderTest) -> None:
    """Up to 1,000 on one; here 20, each of which is served. Source: Allocations page."""
    base = org.base()
    streams = [org.after(base, 1) for _ in range(20)]
    org.publish(org.event())
    for stream in streams:
        with stream:
            assert len(stream.take(1)) == 1
