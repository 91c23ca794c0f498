"""EMP-Connector's behaviour: CometD's client for Java with its header, replay map and timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.foreign.conftest import publish_numbers
from tests.harness.foreign_clients import ForeignClient, ForeignError, java_program
from tests.harness.jars import Jars, jars, or_skip
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.foreign.conftest import Start

    Open = Callable[[], ForeignClient]

pytestmark = pytest.mark.full

__all__ = ["jars"]

EARLIEST, TIP = -2, -1
PUSH_TOPIC = "/topic/Accounts"


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """An emulator with a PushTopic; a session whose token is revoked counts for 8 s more."""
    with Emulator(tls=True, host="localhost", knobs=Knobs(cometd_time_scale=0.2)) as bus:
        monkeypatch.setenv("SSL_CERT_FILE", bus.ca_file)
        query = "SELECT Id, Name FROM Account"
        fields = {"Name": "Accounts", "Query": query, "ApiVersion": 64.0}
        assert Rest(bus).ask("POST", "/sobjects/PushTopic", fields).status == 201
        yield bus
        bus.check()


@pytest.fixture
def client(bus: Emulator, start: Start, jars: Jars) -> ForeignClient:
    """The client, connected; it has another token for when the first is refused."""
    found = or_skip(lambda: jars.cometd)
    client = start(java_program, "EmpClient.java", jars=found)
    tokens = [bus.connection("session")["extra"]["session_token"] for _ in range(2)]
    client.order("open", host=bus.my_domain_url, tokens=tokens, ca_file=bus.ca_file)
    client.said.append({"said": "tokens", "tokens": tokens})
    return client


def _numbers(client: ForeignClient, count: int) -> list[Any]:
    return [one["data"]["payload"]["Number__c"] for one in client.wait("event", count)]


def test_a_push_topic_and_a_platform_event(
    bus: Emulator, topic: str, client: ForeignClient
) -> None:
    """One session has a PushTopic from the tip and a platform event from the earliest."""
    places = publish_numbers(bus, topic, "1")
    bus.create("Account", {"Name": "Before"})
    client.order("subscribe", topic=PUSH_TOPIC, replay=TIP)
    client.order("subscribe", topic=topic, replay=EARLIEST)
    client.wait("event")
    record = bus.create("Account", {"Name": "Acme"})
    event, change = client.wait("event", 2)
    assert (event["topic"], event["data"]["payload"]["Number__c"]) == (topic, "1")
    assert (change["topic"], change["data"]["event"]["type"]) == (PUSH_TOPIC, "created")
    assert change["data"]["sobject"] == {"Id": record, "Name": "Acme"}
    last = change["data"]["event"]["replayId"]
    assert client.order("replay_ids") == {PUSH_TOPIC: last, topic: places[0]}
    client.order("stop")
    bus.wait_open_streams(0)


def test_after_a_replay_id(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """A replay id is a start strictly after its event; one that was never issued is refused."""
    places = publish_numbers(bus, topic, "1", "2", "3")
    with pytest.raises(ForeignError, match=r"400::The replayId \{82\} you provided was invalid"):
        client.order("subscribe", topic=topic, replay=82)
    client.order("subscribe", topic=topic, replay=places[0])
    assert _numbers(client, 2) == ["2", "3"]


def test_a_token_that_is_revoked(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """After a 401 it opens a session with another token, and continues after its last event."""
    publish_numbers(bus, topic, "1")
    client.order("subscribe", topic=topic, replay=EARLIEST)
    assert _numbers(client, 1) == ["1"]
    bus.revoke(client.wait("tokens")[0]["tokens"][0])
    assert client.wait("lost")[0]["why"] == "401::Authentication invalid"
    publish_numbers(bus, topic, "2")
    assert _numbers(client, 2) == ["1", "2"]
    assert bus.deliveries(topic) == 2


def test_a_session_that_is_lost(bus: Emulator, topic: str, client: ForeignClient) -> None:
    """After a 403 for an unknown client it opens another session, without loss or duplicates."""
    client.order("subscribe", topic=topic, replay=TIP)
    publish_numbers(bus, topic, "1")
    assert _numbers(client, 1) == ["1"]
    bus.fail_next("cometd", status="NOT_FOUND")
    publish_numbers(bus, topic, "2")
    assert client.wait("lost")[0]["why"] == "403::Unknown client"
    publish_numbers(bus, topic, "3")
    assert _numbers(client, 3) == ["1", "2", "3"]
