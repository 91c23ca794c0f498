"""Discovery of an org: versions, limits, events, fields and schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator() as bus:
        yield bus
        bus.check()


@pytest.fixture
def rest(bus: Emulator) -> Rest:
    return Rest(bus)


def test_versions_have_the_names_of_their_releases(rest: Rest) -> None:
    """Versions are listed without a login, with or without a slash."""
    rest.headers = {}
    found = rest.ask("GET", "/services/data/").body
    assert rest.ask("GET", "/services/data").body == found
    by_version = {one["version"]: one["label"] for one in found}
    assert by_version["31.0"] == "Summer '14"
    assert (by_version["60.0"], by_version["64.0"]) == ("Spring '24", "Summer '25")
    assert by_version["65.0"] == "Winter '26"
    assert found[0]["url"] == "/services/data/v31.0"


def test_the_expanded_schema(bus: Emulator, rest: Rest) -> None:
    """The default schema form is CometD's; before version 43.0 there is no choice."""
    bus.define_event("Order__e", {"Amount__c": "Double", "At__c": "DateTime"})
    path = "/sobjects/Order__e/eventSchema"
    usual = rest.ask("GET", path).body
    assert rest.ask("GET", f"{path}?payloadFormat=EXPANDED").body == usual
    assert (usual["type"], usual["name"]) == ("expanded-record", "Order__e")
    data, channel = usual["fields"]
    assert channel == {"name": "channel", "type": "string"}
    schema, payload, event = data["type"]["fields"]
    assert (schema["name"], event["type"]["fields"]) == (
        "schema",
        [{"name": "replayId", "type": "long"}],
    )
    kinds = {one["name"]: one["type"] for one in payload["type"]["fields"]}
    assert kinds == {
        "CreatedDate": "string",
        "CreatedById": "string",
        "Amount__c": ["null", "double"],
        "At__c": ["null", "string"],
    }
    assert rest.ask("GET", f"{path}?payloadFormat=TINY").status == 400
    old = f"/services/data/v42.0{path}"
    assert rest.ask("GET", old).body["uuid"] == bus.schema_id("Order__e")
    assert rest.ask("GET", f"{old}?payloadFormat=COMPACT").status == 400


def test_events_are_among_the_objects(bus: Emulator, rest: Rest) -> None:
    """Platform and change events are listed with their capabilities."""
    bus.define_event("Order__e", {"Amount__c": "Currency", "At__c": "DateTime"})
    bus.define_event("LoginEventStream", {"Username": "Text"}, can_publish=False)
    bus.define_object("Parcel__c")
    bus.define_channel("/event/All__chn", ["Order__e"])
    found = {one["name"]: one for one in rest.ask("GET", "/sobjects").body["sobjects"]}
    shown = {
        name: (one["custom"], one["queryable"], one["createable"], one["associateParentEntity"])
        for name, one in found.items()
        if not one["queryable"]
    }
    assert shown == {
        "Order__e": (True, False, True, None),
        "LoginEventStream": (False, False, False, None),
        "Parcel__ChangeEvent": (True, False, False, "Parcel__c"),
    }
    assert found["Parcel__ChangeEvent"]["associateEntityType"] == "ChangeEvent"
    assert rest.ask("GET", "/sobjects/Order__e").body["objectDescribe"] == found["Order__e"]
    described = rest.ask("GET", "/sobjects/Order__e/describe").body
    kinds = {one["name"]: (one["type"], one["createable"]) for one in described["fields"]}
    assert kinds == {
        "ReplayId": ("string", False),
        "EventUuid": ("string", False),
        "CreatedDate": ("datetime", False),
        "CreatedById": ("reference", False),
        "Amount__c": ("currency", True),
        "At__c": ("datetime", True),
    }
    changes = rest.ask("GET", "/sobjects/Parcel__ChangeEvent/describe").body["fields"]
    assert changes[2]["name"] == "ChangeEventHeader"
    assert rest.ask("GET", "/sobjects/All__chn/describe").code == "NOT_FOUND"


def test_limits_count_what_was_delivered_and_published(
    bus: Emulator, rest: Rest, talk: Callable[..., Any]
) -> None:
    """Deliveries and publications of all clients count, and expire in time."""
    topic = bus.define_event("Order__e", {"Amount__c": "Double"})
    for _ in range(3):
        rest.ask("POST", "/sobjects/Order__e", {"Amount__c": 1.0})

    async def read(client: Any) -> None:
        for _ in range(2):
            await (await client.subscribe(topic, 3)).take(3)

    talk(bus, read)
    assert _left(rest) == (50_000 - 6, 250_000 - 3)
    bus.clock.advance(minutes=61)
    assert _left(rest) == (50_000 - 6, 250_000)
    bus.clock.advance(hours=24)
    assert _left(Rest(bus)) == (50_000, 250_000)


def test_monitoring_is_exempt(talk: Callable[..., Any]) -> None:
    """Real-time monitoring uses no allowance and is delivered without any."""
    with Emulator(knobs=Knobs(delivery_allocation=1)) as bus:
        topic = bus.define_event("LoginEventStream", {"Username": "Text"}, can_publish=False)
        bus.publish(topic, [{"Username": name} for name in "abc"])

        async def read(client: Any) -> int:
            return len(await (await client.subscribe(topic, 3)).take(3))

        assert talk(bus, read) == 3
        assert bus.deliveries(topic) == 3
        assert _left(Rest(bus))[0] == 1


def _left(rest: Rest) -> tuple[int, int]:
    found = rest.ask("GET", "/limits").body
    return (
        found["DailyDeliveredPlatformEvents"]["Remaining"],
        found["HourlyPublishedPlatformEvents"]["Remaining"],
    )


def test_publishing_beyond_the_allowance() -> None:
    """An event beyond the hourly allowance is refused; invalid events do not count."""
    with Emulator(knobs=Knobs(publish_allocation=2)) as bus:
        bus.define_event("Order__e", {"Amount__c": "Double"})
        rest = Rest(bus)
        assert rest.ask("POST", "/sobjects/Order__e", {"Nope__c": 1}).code == "INVALID_FIELD"
        answers = [rest.ask("POST", "/sobjects/Order__e", {"Amount__c": 1.0}) for _ in range(3)]
        assert [one.status for one in answers] == [201, 201, 400]
        assert answers[2].code == "LIMIT_EXCEEDED"
        assert len(bus.events("Order__e")) == 2
        bus.clock.advance(minutes=61)
        assert rest.ask("POST", "/sobjects/Order__e", {"Amount__c": 1.0}).status == 201
        bus.check()
