"""Events over the Streaming API: start, order, form, limits and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.bayeux import UNKNOWN, Cometd, opened, values

if TYPE_CHECKING:
    from collections.abc import Callable

    Talk = Callable[..., Any]

DAILY = "403::Organization total events daily limit exceeded"


def _place(replay_id: bytes) -> int:
    """Replay id of the Pub/Sub API as CometD shows it."""
    return int.from_bytes(replay_id[:8], "big")


def _published(bus: Emulator, count: int, name: str = "Order__e") -> tuple[str, list[int]]:
    topic = bus.define_event(name, {"N__c": "Double"})
    return topic, [_place(one) for one in bus.publish(topic, [{"N__c": n} for n in range(count)])]


def test_several_events_in_a_response() -> None:
    """A response has up to the knob's number of events, in bus order."""
    with Emulator(knobs=Knobs(cometd_batch_events=2)) as bus, opened(bus) as client:
        topics = [_published(bus, 0, name)[0] for name in ("A__e", "B__e")]
        for n in range(5):
            bus.publish(topics[n % 2], [{"N__c": n}])
        for topic in topics:
            client.subscribe(topic, -2)
        answers = [client.connect() for _ in range(3)]
        assert [len(one) for one in answers] == [3, 3, 2]
        events = [message for one in answers for message in one[:-1]]
        assert values(events, "N__c") == [0, 1, 2, 3, 4]
        assert [event["channel"] for event in events] == [topics[n % 2] for n in range(5)]


def test_what_cannot_be_decoded_is_passed_over(sfevents_emulator: Emulator) -> None:
    """An event that does not decode is skipped and not counted."""
    bus = sfevents_emulator
    topic, _ = _published(bus, 1)
    bus.publish_raw(topic, b"\xff\xff\xff")
    bus.publish(topic, [{"N__c": 2}])
    with opened(bus) as client:
        client.subscribe(topic, -2)
        assert values(client.take(2), "N__c") == [0, 2]
    assert bus.deliveries(topic) == 2


def test_deliveries_are_in_the_book(sfevents_emulator: Emulator, talk: Talk) -> None:
    """Each client's deliveries are counted, together with the Pub/Sub API's."""
    bus = sfevents_emulator
    topic, places = _published(bus, 3)

    async def scenario(client: Any) -> None:
        await (await client.subscribe(topic)).take(3)

    talk(bus, scenario)
    bus.wait_open_streams(0)
    with opened(bus) as client:
        client.subscribe(topic, places[0])
        client.take(2)
        seen = bus.subscriptions[1]
        assert (seen.topic, seen.delivered, seen.responses, seen.ended) == (topic, 2, 1, "")
        assert seen.start == places[0].to_bytes(8, "big").hex() + "0000"
        assert (bus.deliveries(topic), bus.open_streams) == (5, 1)


def test_the_allocation_is_shared(talk: Talk) -> None:
    """GRPC and CometD share the allocation; a client beyond it is disconnected."""
    with Emulator(knobs=Knobs(delivery_allocation=5)) as bus:
        topic, _ = _published(bus, 3)

        async def scenario(client: Any) -> None:
            await (await client.subscribe(topic)).take(3)

        talk(bus, scenario)
        bus.wait_open_streams(0)
        with opened(bus) as client:
            client.subscribe(topic, -2)
            assert values(client.take(2), "N__c") == [0, 1]
            [said] = client.connect()
            assert (said["error"], said["advice"]["reconnect"]) == (DAILY, "none")
            assert client.connect()[0]["error"] == UNKNOWN
            client.handshake()
            assert client.connect()[0]["error"] == DAILY
            assert bus.deliveries(topic) == 5
            bus.clock.advance(hours=25)
            client.http.headers["Authorization"] = _bearer(bus)
            client.open()


def test_real_time_monitoring_is_exempt() -> None:
    """Real-time monitoring is exempt from the allocation unless a counted channel is added."""
    with Emulator(knobs=Knobs(delivery_allocation=2)) as bus:
        topic, _ = _published(bus, 3)
        watched, _ = _published(bus, 3, "LoginEventStream")
        client = Cometd(bus)
        client.handshake()
        client.subscribe(watched, -2)
        assert values(client.take(3), "N__c") == [0, 1, 2]
        client.subscribe(topic, -2)
        assert values(client.take(2), "N__c") == [0, 1]
        assert client.connect()[0]["error"] == DAILY
        client.handshake()
        client.subscribe(watched, -2)
        assert values(client.take(3), "N__c") == [0, 1, 2]
        client.close()


def _bearer(bus: Emulator) -> str:
    return f"Bearer {bus.connection('session')['extra']['session_token']}"
