"""The Streaming API on the same bus: sessions and events.

On a real org about ten deliveries.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.contract.orgs import TEXT
from tests.contract.polling import Poller, place, polling

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"


# --- sessions -------------------------------------------------------------------------------------


def test_a_handshake_gives_a_client_id(org: OrgUnderTest) -> None:
    """A handshake returns a client id and the replay extension, without advice.

    Source: Streaming API guide (handshake), messages of live orgs.
    """
    client = Poller(org)
    with client.http:
        answer = client.handshake()
        client.say("/meta/disconnect")
    assert answer["clientId"]
    assert answer["supportedConnectionTypes"] == ["long-polling"]
    assert answer["ext"]["replay"] is True
    assert "advice" not in answer


def test_the_first_connect_is_answered_at_once(org: OrgUnderTest) -> None:
    """The first connect is answered at once, with advice for polls of up to 110 s.

    Source: Streaming API guide (clients and timeouts), messages of live orgs.
    """
    client = Poller(org)
    with client.http:
        client.handshake()
        [answer] = client.connect()
        client.say("/meta/disconnect")
    advice = answer["advice"]
    assert (advice["reconnect"], advice["timeout"]) == ("retry", 110_000)
    assert advice["interval"] in {0, 2000}


@pytest.mark.parametrize("word", ["", "/", "/handshake"])
def test_words_behind_the_version_do_not_matter(org: OrgUnderTest, word: str) -> None:
    """Words after the version do not matter; CometD clients append the message type.

    Source: those clients.
    """
    with polling(org, path=f"/cometd/62.0{word}") as client:
        assert client.client_id


@pytest.mark.parametrize("version", ["23.0", "36.0"])
def test_versions_that_have_ended_are_routed_to_the_newest(org: OrgUnderTest, version: str) -> None:
    """A client of an ended version is routed to the newest one.

    Source: Streaming API end-of-life page (v264).
    """
    with polling(org, path=f"/cometd/{version}") as client:
        assert client.client_id


def test_a_token_may_come_without_a_scheme(org: OrgUnderTest) -> None:
    """A token is accepted without a scheme.

    Source: EMP-Connector, `EmpConnector.java` and `LoginHelper.java`.
    """
    with polling(org, headers={"authorization": org.headers["accesstoken"]}) as client:
        assert client.client_id


def test_a_token_may_be_called_oauth(org: OrgUnderTest) -> None:
    """A token is accepted with the scheme `OAuth`. Source: Streaming API guide."""
    header = {"authorization": f"OAuth {org.headers['accesstoken']}"}
    with polling(org, headers=header) as client:
        assert client.client_id


def test_a_client_is_unknown_after_its_disconnect(org: OrgUnderTest) -> None:
    """After a disconnect the client is unknown and is advised to shake hands.

    Source: Bayeux protocol, messages of live orgs.
    """
    with polling(org) as client:
        [answer] = client.say("/meta/disconnect")
        assert answer["successful"]
        [answer] = client.connect()
        assert answer["error"] == "403::Unknown client"
        assert answer["advice"]["reconnect"] == "handshake"
        assert "clientId" not in answer
        client.handshake()


# --- delivery -------------------------------------------------------------------------------------


def test_an_event_comes_as_json(org: OrgUnderTest) -> None:
    """An event has its schema, its payload with text times, UUID and replay id.

    Source: Platform Events guide, messages of live orgs.
    """
    event = org.event("by CometD")
    with polling(org) as client:
        answer = client.subscribe(org.topic)
        assert (answer["successful"], answer["subscription"]) == (True, org.topic)
        [replay_id] = org.publish(event)
        [got] = client.take(1)
    assert got["channel"] == org.topic
    data = got["data"]
    assert data["schema"] == org.schema_id
    assert data["event"]["EventUuid"] == event.id
    assert data["event"]["replayId"] == place(replay_id)
    assert data["payload"][TEXT] == "by CometD"
    assert re.fullmatch(TIME, data["payload"]["CreatedDate"])


def test_a_place_of_the_one_api_is_one_of_the_other(org: OrgUnderTest) -> None:
    """A numeric replay id of the Pub/Sub API is a valid start, strictly after it.

    Source: Streaming API guide (durability), messages of live orgs.
    """
    base, event = org.base(), org.event()
    org.publish(event)
    with polling(org) as client:
        assert client.subscribe(org.topic, place(base))["successful"]
        [got] = client.take(1)
    assert got["data"]["event"]["EventUuid"] == event.id


@pytest.mark.parametrize("replay", [None, -1], ids=["nothing said", "-1"])
def test_a_subscription_begins_with_what_comes_next(org: OrgUnderTest, replay: int | None) -> None:
    """-1, or no replay id, starts with new events. Source: Streaming API guide (durability)."""
    org.publish(org.event("before"))
    with polling(org) as client:
        client.subscribe(org.topic, replay)
        event = org.event("after")
        org.publish(event)
        [got] = client.take(1)
    assert got["data"]["event"]["EventUuid"] == event.id


def test_all_that_is_kept_can_be_had(org: OrgUnderTest) -> None:
    """-2 starts with the oldest retained event. Source: Streaming API guide (durability)."""
    emulator = org.staged("all that is kept would be delivered")
    topic = emulator.define_event("Kept_Polled__e", {})
    places = [place(one) for one in emulator.publish(topic, [{}, {}, {}])]
    with polling(org) as client:
        client.subscribe(topic, -2)
        got = client.take(3)
    assert [one["data"]["event"]["replayId"] for one in got] == places


def test_what_is_unsubscribed_from_comes_no_more(org: OrgUnderTest) -> None:
    """An unsubscribe ends one channel and not the others. Source: Bayeux protocol."""
    emulator = org.staged("another event would be published")
    other = emulator.define_event("Other_Polled__e", {})
    with polling(org) as client:
        client.subscribe(org.topic)
        client.subscribe(other)
        [answer] = client.say("/meta/unsubscribe", subscription=org.topic)
        assert (answer["successful"], answer["subscription"]) == (True, org.topic)
        org.publish(org.event())
        emulator.publish(other, [{}])
        assert [one["channel"] for one in client.take(1)] == [other]


def test_a_channels_events_say_which_they_are(org: OrgUnderTest) -> None:
    """A custom channel's events have `EventApiName`; an event's own channel has none.

    Source: Platform Events guide (custom channels).
    """
    channel = org.need("channel")
    with polling(org) as client:
        client.subscribe(channel)
        org.publish(org.event())
        [got] = client.take(1)
    assert got["channel"] == channel
    assert got["data"]["event"]["EventApiName"] == org.topic.rpartition("/")[2]


def test_a_change_comes_with_names(org: OrgUnderTest) -> None:
    """A change event has names for bitmaps and leaves unchanged fields out.

    Source: Change Data Capture guide, messages of live orgs.
    """
    entity = org.need("entity")
    made = org.rest("POST", f"sobjects/{entity}", {"Name": f"Contract {uuid.uuid4()}"}).json()
    path = f"sobjects/{entity}/{made['id']}"
    with polling(org) as client:
        client.subscribe(f"/data/{entity}ChangeEvent")
        assert org.rest("PATCH", path, {"Phone": "555 0100"}).status_code == 204
        [got] = client.take(1)
    assert org.rest("DELETE", path).status_code == 204
    payload = got["data"]["payload"]
    header = payload.pop("ChangeEventHeader")
    assert {"Phone", "LastModifiedDate"} <= set(header["changedFields"])
    assert not {"nulledFields", "diffFields"} & set(header)
    assert (header["recordIds"], header["changeType"]) == ([made["id"]], "UPDATE")
    assert payload["Phone"] == "555 0100"
    assert "Name" not in payload
    assert re.fullmatch(TIME, payload["LastModifiedDate"])


def test_a_diff_is_in_an_object_of_its_own(org: OrgUnderTest) -> None:
    """A diff is `{"diff": ...}` instead of the text. Source: Change Data Capture guide."""
    emulator = org.staged("it may send the text whole too")
    lines = [f"Line {number} of a story that is sent in parts." for number in range(40)]
    record = emulator.create("Account", {"Name": "A", "Description": "\n".join(lines)})
    with polling(org) as client:
        client.subscribe("/data/AccountChangeEvent")
        emulator.update(record, {"Description": "\n".join([*lines[:-1], "The end."])})
        [got] = client.take(1)
    assert got["data"]["payload"]["Description"]["diff"].startswith("--- ")
