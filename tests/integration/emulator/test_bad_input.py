"""Any bad input over HTTP or gRPC is refused and causes no error of the emulator."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.emulator.http.request_bodies import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Talk = Callable[..., Any]

DATA = "/services/data/v64.0"
TOOLING = f"{DATA}/tooling/sobjects"
DEEP = b"[" * 30_000  # less than CometD takes
NO_JSON = [b"", b"{", b"[1]", b"\xff", b'{"Name":NaN}', b'{"Name":"\\ud800"}', b"null", DEEP]
BODIES = {
    f"POST {DATA}/sobjects/Account": [b'{"Name":{"a":1}}', b'{"AnnualRevenue":1e999}'],
    f"POST {DATA}/sobjects/A__e": [b'{"N__c":[1]}', b'{"N__c":"x"}', b'{"Nope":1}'],
    f"POST {DATA}/composite/sobjects": [
        b'{"records":"abc"}',
        b'{"records":[null]}',
    ],
    f"PATCH {DATA}/composite/sobjects": [b'{"records":{"a":1}}'],
    f"POST {DATA}/jobs/query": [
        b'{"operation":["query"]}',
        b'{"operation":"query","query":"SELECT Id FROM Account","columnDelimiter":[1]}',
    ],
    f"POST {TOOLING}/ManagedEventSubscription": [
        b'{"FullName":"X","Metadata":[]}',
        b'{"FullName":"X","Metadata":{"label":"x","topicName":"/event/A__e","version":"abc"}}',
    ],
    f"POST {TOOLING}/PlatformEventChannel": [
        b'{"FullName":"Z__chn","Metadata":{"channelType":["data"],"label":"x"}}'
    ],
    f"POST {TOOLING}/PlatformEventChannelMember": [
        b'{"FullName":"M","Metadata":{"eventChannel":"All__chn","selectedEntity":"A__e","enrichedFields":1}}',
        b'{"FullName":"M","Metadata":{"eventChannel":"All__chn","selectedEntity":"A__e","filterExpression":"At__c = LAST_N_DAYS:999999"}}',
        b'{"FullName":"M","Metadata":{"eventChannel":"All__chn","selectedEntity":"A__e","filterExpression":"%s"}}'
        % (b"(" * 5_000),
    ],
    "POST /services/oauth2/token": [b"grant_type=password&username=%ff"],
    "POST /cometd/64.0": [b"[]", b'[{"channel":1}]'],
    "POST /emulator/events": [b'{"topic":"/event/A__e","events":[1]}'],
}


@pytest.fixture(scope="module")
def bus() -> Iterator[Emulator]:
    """One emulator for all tests, checked for errors of its own at the end."""
    with Emulator() as emulator:
        emulator.define_event("A__e", {"N__c": "Double", "At__c": "DateTime"})
        emulator.define_channel("/event/All__chn", [])
        emulator.define_object("Emp__c", {"When__c": "DateTime", "N__c": "Double"})
        yield emulator
        emulator.check()


@pytest.fixture(scope="module")
def http(bus: Emulator) -> Iterator[httpx.Client]:
    extra = bus.connection("session")["extra"]
    token = {"Authorization": f"Bearer {extra['session_token']}"}
    with httpx.Client(base_url=extra["instance_url"], headers=token, timeout=20) as client:
        yield client


@pytest.mark.parametrize("route", BODIES)
def test_unreadable_bodies(bus: Emulator, http: httpx.Client, route: str) -> None:
    """Malformed, too deep, wrongly shaped and non-standard JSON is refused with HTTP 400."""
    method, path = route.split()
    # All APIs parse JSON by one function, so one API is tested with all invalid JSON.
    more = NO_JSON if path.endswith("/Account") else NO_JSON[-2:] if "oauth2" not in path else []
    wrong = [*more, *BODIES[route]]
    own = {"Authorization": f"Bearer {bus.token}"} if path.startswith("/emulator/") else {}
    answers = {
        body[:40]: http.request(method, path, content=body, headers=own).status_code
        for body in wrong
    }
    assert set(answers.values()) == {400}, answers
    bus.check()


def test_records_that_cannot_be_named(bus: Emulator, http: httpx.Client) -> None:
    """An invalid record id fails only its own record."""
    for method, record in (("POST", {"attributes": "x"}), ("PATCH", {"id": [1]})):
        answer = http.request(method, f"{DATA}/composite/sobjects", json={"records": [record]})
        assert [one["success"] for one in answer.json()] == [False]
    bus.check()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("When__c", "0001-01-01T00:00:00+14:00"),
        ("When__c", 10**18),
        ("When__c", 10**30),
        ("N__c", "NaN"),
        ("N__c", "1e999"),
        ("N__c", 10**400),
    ],
    ids=lambda value: str(value)[:30],
)
def test_values_that_no_answer_can_show(
    bus: Emulator, http: httpx.Client, field: str, value: object
) -> None:
    """A time beyond the calendar, or a number that JSON does not have, is refused."""
    answer = http.post(f"{DATA}/sobjects/Emp__c", json={"Name": "x", field: value})
    assert (answer.status_code, answer.json()[0]["fields"]) == (400, [field])
    if isinstance(value, str) and field == "N__c":
        assert http.post(f"{DATA}/sobjects/A__e", json={field: value}).status_code == 400
    bus.check()


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELECT Id FROM Account WHERE " + "(" * 5_000,
        "SELECT Id FROM Account WHERE " + "NOT " * 3_500,
        "SELECT Id FROM Account WHERE CreatedDate > 9999999-01-01T00:00:00Z",
        "SELECT Id FROM Account WHERE AnnualRevenue > " + "9" * 5_000,
        "SELECT Id FROM Account LIMIT " + "9" * 5_000,
    ],
    ids=["empty", "brackets", "NOT", "no date", "number", "limit"],
)
def test_unreadable_queries(bus: Emulator, http: httpx.Client, query: str) -> None:
    """A condition without end is malformed."""
    assert http.get(f"{DATA}/query", params={"q": query}).status_code == 400
    bus.check()


@pytest.mark.parametrize("size", ["²", "9" * 5_000], ids=["no number", "too long"])
def test_sizes_that_are_no_number(bus: Emulator, http: httpx.Client, size: str) -> None:
    """A size that is not a number, or longer than any, does not limit the answer."""
    query = "SELECT Id FROM Emp__c"
    made = http.post(f"{DATA}/jobs/query", json={"operation": "query", "query": query}).json()
    job = f"{DATA}/jobs/query/{made['id']}"
    assert http.get(job).json()["state"] == "JobComplete"
    assert http.get(f"{job}/results", params={"maxRecords": size}).status_code == 200
    options = {b"Sforce-Query-Options": f"batchSize={size}".encode()}
    answer = http.get(f"{DATA}/query", params={"q": query}, headers=options)
    assert answer.status_code == 200
    bus.check()


def test_times_beyond_all_calendars(bus: Emulator, http: httpx.Client) -> None:
    """A time that its zone moves out of the calendar is refused."""
    window = {"start": "0001-01-01T00:00:00", "end": "9999-12-31T23:59:59-14:00"}
    answer = http.get(f"{DATA}/sobjects/Account/updated/", params=window)
    assert answer.json()[0]["errorCode"] == "INVALID_REPLICATION_DATE"
    bus.check()


@pytest.mark.parametrize(
    "envelope",
    [
        b"",
        b"<a/>",
        b"<x>" * 50_000,
        b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><x>&a;</x>',
        b'<?xml version="1.0" encoding="no-such"?><a/>',
    ],
    ids=["empty", "other", "deep", "file", "encoding"],
)
def test_unreadable_envelopes(bus: Emulator, http: httpx.Client, envelope: bytes) -> None:
    """Broken XML and external entities are the client's fault, and no file is read."""
    answer = http.post("/services/Soap/u/57.0", content=envelope)
    assert (answer.status_code, "<faultcode>soapenv:Client" in answer.text) == (500, True)
    assert len(answer.text) < 500
    bus.check()


def test_unreadable_credentials(bus: Emulator, http: httpx.Client) -> None:
    """Basic authentication that is not base64 names no client."""
    form, headers = {"grant_type": "client_credentials"}, {b"Authorization": "Basic é".encode()}
    answer = http.post("/services/oauth2/token", data=form, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_id")
    bus.check()


def test_bodies_without_end(bus: Emulator, http: httpx.Client) -> None:
    """A body over the limit is refused early, with or without its announced length."""

    def chunks() -> Iterator[bytes]:
        for _ in range(MOST_BYTES // 2**20 + 2):
            yield b" " * 2**20

    try:
        status = http.post("/services/oauth2/token", content=chunks()).status_code
    except httpx.WriteError:
        status = 413  # hung up on while it was still sending
    assert status == 413
    assert http.get(f"{DATA}/limits").status_code == 200
    bus.check()


@pytest.mark.parametrize(
    "asked",
    [
        {"advice": {"timeout": -5}},
        {"advice": {"timeout": "soon"}},
        {"connectionType": [1]},
        {"clientId": [1]},
        {"clientId": None},
    ],
    ids=json.dumps,
)
def test_connects_that_cannot_be_served(
    bus: Emulator, http: httpx.Client, asked: dict[str, Any]
) -> None:
    """A connect with any content is answered."""
    [shaken] = http.post("/cometd/64.0", json=[{"channel": "/meta/handshake"}]).json()
    message = {
        "channel": "/meta/connect",
        "clientId": shaken["clientId"],
        "connectionType": "long-polling",
        **asked,
    }
    assert http.post("/cometd/64.0", json=[message]).json()[-1]["channel"] == "/meta/connect"
    bus.check()


def test_requests_that_no_proto_has(talk: Talk, bus: Emulator) -> None:
    """An unknown replay preset is refused as a missing start."""

    async def scenario(client: Any) -> None:
        stream = await client.subscribe("/event/A__e", preset=7)
        refused = await client.refused(stream.read())
        assert (refused.status, refused.code) == (
            "INVALID_ARGUMENT",
            "subscription.fetch.replayid.validation.failed",
        )

    talk(bus, scenario)
    bus.check()


def test_a_client_that_goes_amid_a_request(bus: Emulator) -> None:
    """A request whose body does not come any more is no error of the emulator."""
    url = httpx.URL(bus.my_domain_url)
    with socket.create_connection((url.host, url.port)) as connection:
        head = ("POST /cometd/64.0 HTTP/1.1", f"Host: {url.host}", "Content-Length: 9")
        connection.sendall("\r\n".join((*head, "", "")).encode())
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    bus.check()
