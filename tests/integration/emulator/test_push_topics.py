"""PushTopics, generic channels and filtered subscriptions over a real socket."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.bayeux import Cometd, opened
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY = "SELECT Id, Name, Industry FROM Account WHERE Name != 'Hidden'"
OLD = "400::The replayId {{{}}} you provided was invalid.  Please provide a valid ID, -2 to replay "


@pytest.fixture
def client(sfevents_emulator: Emulator) -> Iterator[Cometd]:
    with opened(sfevents_emulator) as client:
        yield client


def _made(bus: Emulator, entity: str, **fields: Any) -> str:
    answer = Rest(bus).ask("POST", f"/sobjects/{entity}", fields)
    assert answer.status == 201, answer.body
    return str(answer.body["id"])


def _push_topic(bus: Emulator, **fields: Any) -> str:
    given = {"Name": "Accounts", "Query": QUERY, "ApiVersion": 64.0, **fields}
    return _made(bus, "PushTopic", **given)


def _types(events: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["event"]["type"] for event in events]


def test_the_life_of_a_record(sfevents_emulator: Emulator, client: Cometd) -> None:
    """A PushTopic tells of each operation; a deletion carries the Id alone."""
    bus = sfevents_emulator
    _push_topic(bus)
    assert client.subscribe("/topic/Accounts", -1)["successful"]
    record = bus.create("Account", {"Name": "Acme"})
    bus.update(record, {"Industry": "Energy"})
    bus.delete(record)
    bus.undelete(record)
    events = client.take(4)
    assert _types(events) == ["created", "updated", "deleted", "undeleted"]
    first, _, deleted, _ = events
    assert first["channel"] == "/topic/Accounts"
    assert first["data"]["sobject"] == {"Id": record, "Name": "Acme", "Industry": None}
    assert set(first["data"]["event"]) == {"createdDate", "replayId", "type"}
    assert first["data"]["event"]["createdDate"].endswith("Z")
    assert deleted["data"]["sobject"] == {"Id": record}
    places = [event["data"]["event"]["replayId"] for event in events]
    assert places == sorted(set(places))


@pytest.mark.parametrize(
    ("watched", "expected"),
    [
        ("All", ["Phone", "Name", "Industry"]),
        ("Referenced", ["Name", "Industry"]),
        ("Select", ["Industry"]),
        ("Where", ["Name"]),
    ],
)
def test_watched_fields(
    sfevents_emulator: Emulator, client: Cometd, watched: str, expected: list[str]
) -> None:
    """NotifyForFields decides by the changed field if an update is told."""
    bus = sfevents_emulator
    query = "SELECT Id, Industry FROM Account WHERE Name != 'Hidden'"
    _push_topic(bus, Query=query, NotifyForFields=watched, NotifyForOperationCreate=False)
    client.subscribe("/topic/Accounts", -1)
    records = {name: bus.create("Account", {"Name": "A"}) for name in ("Phone", "Name", "Industry")}
    for name, record in records.items():
        bus.update(record, {name: "changed"})
    last = bus.create("Account", {"Name": "Last"})
    bus.delete(last)
    events = client.take(len(expected) + 1)
    ids = [event["data"]["sobject"]["Id"] for event in events]
    assert ids == [*(records[name] for name in expected), last]


def test_records_outside_the_conditions(sfevents_emulator: Emulator, client: Cometd) -> None:
    """Records that do not match the query's conditions make no events."""
    bus = sfevents_emulator
    _push_topic(bus)
    client.subscribe("/topic/Accounts", -1)
    bus.create("Account", {"Name": "Hidden"})
    bus.create("Account", {"Name": "Seen"})
    assert client.take(1)[0]["data"]["sobject"]["Name"] == "Seen"


@pytest.mark.parametrize(
    "changed",
    [
        {"Query": "SELECT Name FROM Account"},
        {"Query": "SELECT Id FROM Nothing__c"},
        {"Query": "SELECT Id, Nothing FROM Account"},
        {"Query": "SELECT Id FROM Account LIMIT 1"},
        {"Query": "SELECT Id FROM Account".ljust(1_301)},
        {"Name": "x" * 26},
        {"ApiVersion": 20.0},
        {"NotifyForFields": "Some"},
    ],
    ids=lambda changed: str(changed)[:40],
)
def test_refused_push_topics(sfevents_emulator: Emulator, changed: dict[str, Any]) -> None:
    """A PushTopic that breaks a documented rule is refused."""
    given = {"Name": "Accounts", "Query": QUERY, "ApiVersion": 64.0, **changed}
    assert Rest(sfevents_emulator).ask("POST", "/sobjects/PushTopic", given).status == 400


def test_two_push_topics_of_one_name(sfevents_emulator: Emulator) -> None:
    """The name of a PushTopic is unique in its org, and free again after a deletion."""
    record = _push_topic(sfevents_emulator)
    given = {"Name": "Accounts", "Query": QUERY, "ApiVersion": 64.0}
    rest = Rest(sfevents_emulator)
    assert rest.ask("POST", "/sobjects/PushTopic", given).code == "DUPLICATE_VALUE"
    assert rest.ask("DELETE", f"/sobjects/PushTopic/{record}").status == 204
    assert rest.ask("POST", "/sobjects/PushTopic", given).status == 201


@pytest.mark.parametrize(
    "given",
    [
        {"attributes": {"type": "PushTopic"}, "Name": "A", "Query": QUERY, "ApiVersion": 64.0},
        {"attributes": {"type": "StreamingChannel"}, "Name": "/u/A"},
    ],
    ids=["PushTopic", "channel"],
)
def test_two_of_one_name_at_once(sfevents_emulator: Emulator, given: dict[str, Any]) -> None:
    """The second record of a name is refused in the same request, too."""
    answer = Rest(sfevents_emulator).ask("POST", "/composite/sobjects", {"records": [given] * 2})
    assert [one["success"] for one in answer.body] == [True, False]


def test_unknown_push_topics(sfevents_emulator: Emulator, client: Cometd) -> None:
    """A subscription to a PushTopic that was deleted is refused."""
    record = _push_topic(sfevents_emulator)
    Rest(sfevents_emulator).ask("DELETE", f"/sobjects/PushTopic/{record}")
    error = "400::The channel you requested to subscribe to doesn't exist {/topic/Accounts}"
    assert client.subscribe("/topic/Accounts", -1)["error"] == error


@pytest.mark.parametrize(
    "text", ["Industry='Energy'", "Industry=Energy", "Name=None&Industry=Energy"]
)
def test_filters(sfevents_emulator: Emulator, client: Cometd, text: str) -> None:
    """A filtered subscription is a channel of its own; one true condition suffices."""
    _push_topic(sfevents_emulator)
    channel = f"/topic/Accounts?{text}"
    replay = {"replay": {"/topic/Accounts": -2}}
    assert client.subscribe(channel, ext=replay)["successful"]
    for industry in ("Media", "Energy"):
        sfevents_emulator.create("Account", {"Name": "A", "Industry": industry})
    [event] = client.take(1)
    assert event["channel"] == channel
    assert event["data"]["sobject"]["Industry"] == "Energy"


def test_the_replay_map_of_a_filter(sfevents_emulator: Emulator, client: Cometd) -> None:
    """The replay map names the channel without its filter."""
    _push_topic(sfevents_emulator)
    answer = client.subscribe("/topic/Accounts?Name=A", -2)
    assert answer["error"].startswith("400::The replayId for channel {/topic/Accounts} wasn't")


def test_fields_of_a_filter(sfevents_emulator: Emulator, client: Cometd) -> None:
    """A filter by a field outside the query is refused."""
    _push_topic(sfevents_emulator)
    error = "400::Query fields {Phone} do not exist on the topic entity"
    assert client.subscribe("/topic/Accounts?Phone=1")["error"] == error


def test_generic_events(sfevents_emulator: Emulator, client: Cometd) -> None:
    """A pushed payload reaches all subscribers, or the named users alone."""
    bus, rest = sfevents_emulator, Rest(sfevents_emulator)
    path = f"/sobjects/StreamingChannel/{_made(bus, 'StreamingChannel', Name='/u/notes')}/push"
    events = [{"payload": "to all", "userIds": []}]
    assert rest.ask("POST", path, {"pushEvents": events}).body == [
        {"fanoutCount": 0, "userOnlineStatus": {}}
    ]
    client.subscribe("/u/notes", -2)
    other, me = "005000000000001AAA", bus.org.user_id
    events = [{"payload": "to others", "userIds": [other]}, {"payload": "mine", "userIds": [me]}]
    assert [one["fanoutCount"] for one in rest.ask("POST", path, {"pushEvents": events}).body] == [
        0,
        1,
    ]
    found = client.take(2)
    assert [one["data"]["payload"] for one in found] == ["to all", "mine"]
    assert set(found[0]["data"]["event"]) == {"createdDate", "replayId"}
    assert rest.ask("GET", path).body == {"OnlineUserIds": [me], "ChannelName": "/u/notes"}


def test_a_long_payload(sfevents_emulator: Emulator) -> None:
    """A generic payload of more than 3,000 characters is refused."""
    record = _made(sfevents_emulator, "StreamingChannel", Name="/u/notes")
    body = {"pushEvents": [{"payload": "x" * 3001}]}
    answer = Rest(sfevents_emulator).ask("POST", f"/sobjects/StreamingChannel/{record}/push", body)
    assert answer.code == "STRING_TOO_LONG"


def test_dynamic_channels() -> None:
    """A subscription creates a generic channel if the org allows it and has room for one more."""
    with Emulator(knobs=Knobs(dynamic_channels=True, generic_channels=1)) as bus:
        with opened(bus) as client:
            assert client.subscribe("/u/one")["successful"]
            assert client.subscribe("/u/ONE")["error"].startswith("404::channel names")
            assert client.subscribe("/u/two")["error"].startswith("403::Unable to create channel")
        bus.check()


def test_the_limit_of_subscriptions() -> None:
    """A PushTopic takes no more subscriptions than the knob allows."""
    with Emulator(knobs=Knobs(cometd_topic_subscribers=1)) as bus:
        _push_topic(bus)
        with opened(bus) as one, closing(Cometd(bus)) as two:
            assert one.subscribe("/topic/Accounts")["successful"]
            error = "403::Subscription limit exceeded for this topic"
            assert two.open().subscribe("/topic/Accounts")["error"] == error


def test_a_day_of_retention(sfevents_emulator: Emulator, client: Cometd) -> None:
    """After 24 hours PushTopic and standard-volume events are gone, and their ids are refused."""
    bus = sfevents_emulator
    _push_topic(bus)
    old = bus.define_event("Old__e", {"N__c": "Double"}, standard_volume=True)
    new = bus.define_event("New__e", {"N__c": "Double"})
    bus.create("Account", {"Name": "A"})
    for topic in (old, new):
        bus.publish(topic, [{"N__c": 1}])
    client.subscribe("/topic/Accounts", -2)
    place = client.take(1)[0]["data"]["event"]["replayId"]
    bus.clock.advance(hours=25)
    with opened(bus) as client:
        assert client.subscribe("/topic/Accounts", place)["error"].startswith(OLD.format(place))
        for topic in ("/topic/Accounts", old, new):
            assert client.subscribe(topic, -2)["successful"]
        bus.publish(old, [{"N__c": 2}])
        assert [event["channel"] for event in client.take(2)] == [new, old]


def test_a_restart_keeps_push_topics(tmp_path: Any) -> None:
    """PushTopics, generic channels and their events survive a restart."""
    with Emulator(folder=tmp_path) as bus:
        _push_topic(bus)
        _made(bus, "StreamingChannel", Name="/u/notes")
        bus.create("Account", {"Name": "A"})
    with Emulator(folder=tmp_path) as bus:
        with opened(bus) as client:
            assert client.subscribe("/u/notes")["successful"]
            client.subscribe("/topic/Accounts", -2)
            assert _types(client.take(1)) == ["created"]
        bus.check()
