"""Seeded faults of connections and orgs: the fault's line is the first that has failed."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.doctor.findings import CheckStatus, failures
from airflow_provider_sfevents.doctor.org_findings import Followed
from airflow_provider_sfevents.pubsub.clock import Clock
from tests.integration.doctor.conftest import FILTERED, HEALTHY
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.doctor.conftest import Look

OTHERS = ("client_credentials", "jwt_bearer", "refresh_token", "password", "soap", "session")
READ_ONLY = {"GetTopic", "token", "soap", "rest", "userinfo"}
FAR = {"host": "https://acme.my.salesforce.invalid"}
NOT_A_SECRET = "not-the-secret"


@pytest.mark.parametrize("auth", OTHERS)
def test_a_healthy_set_up_has_no_failure(look: Look, org: Emulator, auth: str) -> None:
    """Every line of a good connection is right; only the end of the SOAP login is a warning."""
    found = look(org.connection(auth), topics=HEALTHY)
    assert failures(found) == []
    warned = [one.checked for one in found if one.status is CheckStatus.WARNING]
    assert warned == (["login"] if auth == "soap" else [])
    names = [one.checked for one in found]
    org_wide = ["connection", "proxy", "clock", "login", "scopes", "event API", "allowance"]
    assert names[:7] == org_wide


def test_no_check_asks_for_an_event(look: Look, org: Emulator) -> None:
    """Topics are looked up and REST is read; there is no stream, no event, no publication."""
    before = len(org.requests)
    look(org.connection(), topics=(*HEALTHY, "/event/Secret__e"))
    assert {one.rpc for one in org.requests[before:]} <= READ_ONLY
    rest = [one.subject for one in org.requests[before:] if one.rpc == "rest"]
    assert all(one.startswith("GET ") for one in rest)
    assert (org.deliveries(), org.subscriptions) == (0, ())


def test_topics_of_the_streaming_api(look: Look, org: Emulator) -> None:
    """A PushTopic is looked up by REST; a connection of the Streaming API needs no way for gRPC."""
    given = {"Name": "Seen", "Query": "SELECT Id FROM Account", "ApiVersion": 64.0}
    assert Rest(org).ask("POST", "/sobjects/PushTopic", given).status == 201
    assert failures(look(org.connection(), topics=["/topic/Seen"])) == []
    missing = only_first(look(org.connection(), topics=["/topic/Unseen"]), "topic /topic/Unseen")
    assert "does not exist" in missing.seen
    connection = org.connection()
    connection["extra"]["transport"] = "streaming"
    unreachable = {"pubsub_endpoint": "api.acme.invalid", "plaintext": False}
    found = look(
        connection,
        extra=unreachable,
        topics=["/topic/Seen", *HEALTHY],
        environ={"grpc_proxy": "http://127.0.0.1:1"},
    )
    assert failures(found) == []
    [api] = [one for one in found if one.checked == "event API"]
    assert api.seen.startswith("Streaming API reached at http")


def test_filters_and_members_are_shown(look: Look, org: Emulator) -> None:
    """A channel's line has its members with filter and enriched fields."""
    found = look(org.connection(), topics=[FILTERED])
    [line] = [one for one in found if one.checked == f"channel {FILTERED}"]
    assert "AccountChangeEvent only where Name != null always with Name" in line.seen


def only_first(found: list[Finding], checked: str) -> Finding:
    """Return the first failed line, which is the fault's and has a remedy without a secret."""
    first = failures(found)[0]
    assert first.checked == checked, first
    assert first.seen.endswith((".", "?"))
    assert first.remedy
    assert NOT_A_SECRET not in repr(found)
    return first


@pytest.mark.parametrize(
    ("fields", "extra", "said"),
    [
        pytest.param({"conn_type": "http"}, {}, "is of type 'http'", id="another type"),
        pytest.param({"password": ""}, {}, "no consumer secret", id="no secret"),
        pytest.param({}, {"auth": "passwort"}, "unknown login 'passwort'", id="login unknown"),
        pytest.param({}, {"pubsub_endpoint": "api.acme"}, "plaintext is set", id="no TLS afar"),
        pytest.param({"port": 99999}, {}, "out of range", id="port out of range"),
        pytest.param({"host": "http://acme.example"}, {}, "is not HTTPS", id="no HTTPS"),
        pytest.param(
            {}, {"ca_file": "/nowhere/ca.pem", "plaintext": False}, "/nowhere", id="no CA file"
        ),
    ],
)
def test_a_wrong_field(
    look: Look, org: Emulator, fields: dict[str, Any], extra: dict[str, Any], said: str
) -> None:
    """A field that cannot work is a fault of the connection, before anything is sent."""
    before = len(org.requests)
    found = look(org.connection(), fields=fields, extra=extra)
    first = only_first(found, "connection")
    assert said in f"{first.seen} {first.remedy}"
    assert len(org.requests) == before
    assert {one.status for one in found[1:]} == {CheckStatus.NOT_CHECKED}


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        pytest.param(None, "is not defined", id="no connection"),
        pytest.param(
            f'{{"conn_type": "sfevents", "extra": "password: {NOT_A_SECRET}"}}',
            "its extra is no JSON",
            id="extra",
        ),
    ],
)
def test_no_connection(look: Look, connection: str | None, said: str) -> None:
    """A connection that is missing or cannot be read is named."""
    assert said in only_first(look(connection), "connection").seen


@pytest.mark.parametrize(
    ("auth", "fields", "extra"),
    [
        pytest.param("client_credentials", {"password": NOT_A_SECRET}, {}, id="secret"),
        pytest.param("client_credentials", {"login": "3MVGunknown"}, {}, id="consumer key"),
        pytest.param("client_credentials", {"host": "http://127.0.0.1:1"}, {}, id="host away"),
        pytest.param("client_credentials", FAR, {}, id="host unknown"),
        pytest.param("jwt_bearer", {}, {"jwt_audience": "https://acme.example"}, id="audience"),
        pytest.param("jwt_bearer", {}, {"private_key": NOT_A_SECRET}, id="private key"),
        pytest.param("jwt_bearer", {}, {"username": "unknown@acme.example"}, id="user"),
        pytest.param("refresh_token", {}, {"refresh_token": NOT_A_SECRET}, id="refresh token"),
        pytest.param("password", {}, {"user_password": NOT_A_SECRET}, id="password"),
        pytest.param("soap", {"password": NOT_A_SECRET}, {}, id="soap"),
    ],
)
def test_a_login_that_is_refused(
    look: Look, org: Emulator, auth: str, fields: dict[str, Any], extra: dict[str, Any]
) -> None:
    """A refused login is the first fault, and nothing after it is guessed."""
    found = look(org.connection(auth), fields=fields, extra=extra, topics=HEALTHY)
    only_first(found, "login")
    assert len(failures(found)) == 1
    assert found[-1].seen == "`login` has failed."


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param({"app_access": "not_approved"}, id="app not approved"),
        pytest.param({"app_access": "not_installed"}, id="app not installed"),
        pytest.param({"client_credentials_flow": "no_user"}, id="no run-as user"),
        pytest.param({"client_credentials_flow": "disabled"}, id="flow disabled"),
    ],
)
def test_an_app_that_is_set_up_wrongly(
    look: Look, with_knobs: Callable[..., Emulator], knobs: dict[str, Any]
) -> None:
    """The remedy is in the app's set-up."""
    only_first(look(with_knobs(**knobs).connection()), "login")


def test_the_general_host_takes_no_client_credentials(look: Look, org: Emulator) -> None:
    """The remedy names My Domain."""
    found = look(org.connection(), fields={"host": org.login_url})
    assert "My Domain" in only_first(found, "login").remedy


def test_a_host_that_is_no_salesforce(look: Look, org: Emulator) -> None:
    """A web server without a login is a fault of the login's host."""
    with answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") as port:
        found = look(org.connection(), fields={"host": f"http://127.0.0.1:{port}"})
    assert "not as a Salesforce login does" in only_first(found, "login").seen


def test_a_login_host_that_is_silent(look: Look, org: Emulator) -> None:
    """The time for all checks ends the wait, and the others are not checked."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = look(org.connection(), fields={"host": host}, seconds=2.0)
    assert "no answer within 2 s" in only_first(found, "login").seen


def test_a_certificate_that_is_not_trusted(look: Look, with_knobs: Callable[..., Emulator]) -> None:
    """The remedy names the CA file."""
    secured = with_knobs(tls=True)
    assert failures(look(secured.connection())) == []
    found = look(secured.connection(), extra={"ca_file": ""})
    assert "ca_file" in only_first(found, "login").remedy


@pytest.mark.parametrize(
    ("auth", "seconds", "said"),
    [
        pytest.param("jwt_bearer", 400, "400 s ahead", id="jwt ahead"),
        pytest.param("jwt_bearer", -400, "400 s behind", id="jwt behind"),
        pytest.param("client_credentials", 1200, "1200 s ahead", id="far ahead"),
    ],
)
def test_a_clock_that_is_off(look: Look, org: Emulator, auth: str, seconds: int, said: str) -> None:
    """The clock comes before the login that it makes fail."""
    skewed = Clock(now=lambda: datetime.now(UTC) + timedelta(seconds=seconds))
    first = only_first(look(org.connection(auth), clock=skewed), "clock")
    wanted = {said.replace(f"{abs(seconds)} s", f"{abs(seconds) + one} s") for one in (-1, 0, 1)}
    assert any(one in first.seen for one in wanted), first.seen


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 403 Forbidden\r\n\r\n", b"HTTP/1.1 407 No\r\n\r\n"]
)
@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY", "grpc_proxy"])
def test_a_proxy_that_refuses(look: Look, org: Emulator, answer: bytes, name: str) -> None:
    """A proxy that opens no tunnel is found before the login fails by it."""
    with answering(answer) as port:
        found = look(
            org.connection(),
            fields=FAR,
            extra={"pubsub_endpoint": "api.acme.invalid", "plaintext": False},
            environ={name: f"http://me:{NOT_A_SECRET}@127.0.0.1:{port}"},
        )
    only_first(found, "proxy")
    assert len(failures(found)) == 1


def test_a_proxy_that_is_not_there(look: Look, org: Emulator) -> None:
    """A proxy that is not there fails its line, which names the proxy and the login."""
    found = look(org.connection(), fields=FAR, environ={"https_proxy": "http://127.0.0.1:1"})
    assert "127.0.0.1:1 does not lead to the login" in only_first(found, "proxy").seen


def test_a_session_that_has_ended(look: Look, org: Emulator) -> None:
    """A session token needs no login, so the API is the first to refuse it."""
    connection = org.connection("session")
    org.revoke(connection["extra"]["session_token"])
    assert "fresh" in only_first(look(connection), "event API").remedy


def test_a_port_on_which_nothing_listens(look: Look, org: Emulator) -> None:
    """The line of the API has the endpoint."""
    found = look(org.connection(), fields={"port": 1}, topics=HEALTHY)
    assert "127.0.0.1:1" in only_first(found, "event API").seen
    [line] = [one for one in found if one.checked == "allowance"]
    assert line.status is CheckStatus.OK, "the allowance is read over REST"


def test_a_port_without_http2(look: Look, org: Emulator) -> None:
    """A web server's port is not that of the Pub/Sub API."""
    port = int(org.my_domain_url.rpartition(":")[2])
    found = look(org.connection(), fields={"port": port}, seconds=12.0)
    only_first(found, "event API")


def test_tls_without_http2(look: Look, with_knobs: Callable[..., Emulator]) -> None:
    """A proxy that opens TLS and speaks HTTP/1.1 is told from a wrong certificate."""
    bus = with_knobs(tls=True)
    port = int(bus.my_domain_url.rpartition(":")[2])
    found = look(bus.connection(), fields={"port": port})
    assert "does not offer HTTP/2" in only_first(found, "event API").remedy


def test_a_port_without_tls(look: Look, org: Emulator) -> None:
    """TLS to a port without it is a fault of the API's settings."""
    found = look(org.connection(), extra={"plaintext": False})
    assert "does not speak TLS" in only_first(found, "event API").remedy


def test_an_org_without_the_licence(look: Look, with_knobs: Callable[..., Emulator]) -> None:
    """The service's own code is in the line."""
    bus = with_knobs(seed=1)
    bus.fail_next("GetTopic", error_code="service.tenant.license")
    assert "service.tenant.license" in only_first(look(bus.connection()), "event API").seen


def test_an_api_that_is_silent(look: Look, with_knobs: Callable[..., Emulator]) -> None:
    """A connection on which no byte comes is given up in time."""
    bus = with_knobs(seed=2)
    bus.freeze()
    only_first(look(bus.connection(), seconds=15.0), "event API")
    bus.thaw()


@pytest.mark.parametrize(
    ("topic", "checked"),
    [
        pytest.param("/event/Oder__e", "topic /event/Oder__e", id="misspelt"),
        pytest.param("Order__e", "topic Order__e", id="no topic's name"),
        pytest.param("/event/Gone__chn", "topic /event/Gone__chn", id="channel unknown"),
        pytest.param("/event/Secret__e", "topic /event/Secret__e", id="no permission"),
        pytest.param(
            "/data/CaseChangeEvent", "change data capture /data/CaseChangeEvent", id="not selected"
        ),
        pytest.param("/event/Empty__chn", "channel /event/Empty__chn", id="no members"),
    ],
)
def test_a_topic_from_which_no_event_comes(
    look: Look, org: Emulator, topic: str, checked: str
) -> None:
    """The fault's line is the only failed one, also beside good topics."""
    found = look(org.connection(), topics=("/event/Order__e", topic, "/event/Shipment__e"))
    only_first(found, checked)
    assert len(failures(found)) == 1


def test_an_allowance_that_is_used_up(look: Look, with_knobs: Callable[..., Emulator]) -> None:
    """The line has the numbers."""
    found = look(with_knobs(delivery_allocation=0).connection(), topics=("/event/Order__e",))
    assert "0 of 0 deliveries" in only_first(found, "allowance").seen


def test_limits_that_may_not_be_read_are_a_warning(
    look: Look, with_knobs: Callable[..., Emulator]
) -> None:
    """Batches are fetched without them; the line names the permission."""
    bus = with_knobs(seed=3)
    bus.fail_next("rest", status="PERMISSION_DENIED")
    found = look(bus.connection())
    assert failures(found) == []
    assert (found[-1].checked, found[-1].status) == ("allowance", "warning")
    assert "View Setup and Configuration" in found[-1].remedy


def test_requests_that_are_used_up(look: Look, with_knobs: Callable[..., Emulator]) -> None:
    """The org's API requests of 24 hours are an allowance, too."""
    bus = with_knobs(seed=5)
    bus.fail_next("rest", status="RESOURCE_EXHAUSTED")
    assert "REQUEST_LIMIT_EXCEEDED" in only_first(look(bus.connection()), "allowance").seen


def test_set_up_that_may_not_be_read_is_no_failure(
    look: Look, with_knobs: Callable[..., Emulator]
) -> None:
    """Without the permission the selection is not checked, and the line names the permission."""
    bus = with_knobs(seed=4)
    # The second request: the first one asks for the allowance.
    bus.fail_next("rest", status="PERMISSION_DENIED", after=1)
    found = look(bus.connection(), topics=("/data/AccountChangeEvent",))
    assert failures(found) == []
    [line] = [one for one in found if one.checked.startswith("change data capture")]
    assert line.status is CheckStatus.NOT_CHECKED
    assert "View Setup and Configuration" in line.remedy


def test_topics_of_positions_are_checked_in_their_org(look: Look, org: Emulator) -> None:
    """Topics that positions of another org follow are left to a connection to that org."""
    followed = {
        org.org.org_id: Followed(topics=("/event/Secret__e", "/event/Order__e")),
        "00D000000000009AAA": Followed(topics=("/event/Gone__e",)),
    }
    found = look(org.connection(), followed=followed)
    assert [one.checked for one in failures(found)] == ["topic /event/Secret__e"]
    [left] = [one for one in found if one.checked == "topics without a position"]
    assert "/event/Shipment__e" in left.seen
    assert "/event/Order__e" not in left.seen
    assert (found[-1].checked, found[-1].status) == ("topic /event/Gone__e", "not checked")


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Answer every request on a port of this machine so, and close the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    came, _ = server.accept()
                except OSError:
                    return
                with came:
                    came.recv(65536)
                    came.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
