"""Transport of the service: ports, TLS, HTTP/2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract import wire
from tests.contract.orgs import ENDPOINT, emulated

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest


@pytest.mark.parametrize("port", [443, 7443])
def test_both_ports_serve_the_api(org: OrgUnderTest, port: int) -> None:
    """Both ports are equivalent. Source: Pub/Sub API Endpoints page."""
    if org.endpoint != ENDPOINT:
        pytest.skip(f"the API is reached at {org.endpoint}, whose port was chosen")
    host = org.endpoint.rpartition(":")[0]
    with wire.opened(f"{host}:{port}", plaintext=False, trusted=None) as channel:
        client = wire.Client(channel, org.headers, org.counter)
        assert client.get_topic(org.topic).topic_name == org.topic


def test_a_browser_is_refused(org: OrgUnderTest) -> None:
    """A GET over HTTP/1.1 gets 415. Source: answer of the live service."""
    scheme = "http" if org.plaintext else "https"
    assert org.http.get(f"{scheme}://{org.endpoint}/").status_code == 415


def test_tls_is_trusted_and_needs_no_client_certificate(org: OrgUnderTest) -> None:
    """TLS needs the server's certificate only. Source: Pub/Sub API Endpoints page."""
    if org.emulator is None:
        assert org.client.get_topic(org.topic).topic_name == org.topic
        return
    with emulated(tls=True) as other:
        assert other.client.get_topic(other.topic).topic_name == other.topic
        assert other.http.get(f"https://{other.endpoint}/").status_code == 415


def test_many_streams_share_a_connection(org: OrgUnderTest) -> None:
    """A connection has up to 1,000 streams; here 20 are served. Source: Allocations page."""
    base = org.base()
    streams = [org.after(base, 1) for _ in range(20)]
    org.publish(org.event())
    for stream in streams:
        with stream:
            assert len(stream.take(1)) == 1


def test_a_response_keeps_below_three_megabytes(org: OrgUnderTest) -> None:
    """Four events of 0.9 MB come in at least two responses. Source: Allocations page."""
    org.staged("the event's field takes 255 characters")
    base = org.base()
    for _ in range(4):
        org.publish(org.event(size=900_000))
    with org.after(base, 4) as stream:
        got = 0
        while got < 4:
            response = stream.read()
            got += len(response.events)
            assert response.ByteSize() <= 3 * 1024 * 1024


@pytest.mark.parametrize("how", ["rst_stream", "reset", "goaway"])
def test_what_the_network_cuts_has_no_error_code(org: OrgUnderTest, how: str) -> None:
    """A cut has a gRPC status without code, and a new stream resumes. Source: live logs."""
    emulator = org.staged("the network would have to fail")
    base, events = org.base(), [org.event(), org.event()]
    org.publish(events[0])
    with org.after(base, 2) as stream:
        [got] = stream.take(1)
        emulator.drop_connections(how)
        found = stream.end()
    assert (found.status in {"UNAVAILABLE", "INTERNAL"}, found.code) == (True, "")
    org.publish(events[1])
    with org.after(got.replay_id, 1) as stream:
        assert stream.take(1)[0].event.id == events[1].id
