"""Subscribe over a real socket, as in the documentation and live logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

Talk = Callable[..., Any]
ORDER = {"Number__c": "Text"}
QUICK = Knobs(half_close_seconds=0.01)


def _published(bus: Emulator, count: int, size: int = 0) -> str:
    topic = bus.define_event("Order__e", ORDER)
    bus.publish(topic, [{"Number__c": f"{n}{'x' * size}"} for n in range(count)])
    return topic


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
def test_all_events_in_order(talk: Talk, tls: bool) -> None:
    """A client gets every event once, in order, with growing ids, with and without TLS."""
    with Emulator(tls=tls, knobs=QUICK) as bus:
        topic = _published(bus, 500)

        async def scenario(client: Any) -> tuple[list[Any], str]:
            stream = await client.subscribe(topic, 100)
            events: list[Any] = []
            while len(events) < 500:
                response = await stream.read()
                events += response.events
                await stream.ask(len(response.events))
            return events, await stream.end()

        events, status = talk(bus, scenario)
        replay_ids = [event.replay_id for event in events]
        assert status == "OK"
        assert replay_ids == sorted(set(replay_ids))
        assert [event["id"] for event in bus.events(topic)] == [event.event.id for event in events]
        assert bus.deliveries() == bus.deliveries(topic) == 500
        [seen] = bus.subscriptions
        assert (seen.ended, seen.delivered, seen.max_outstanding, seen.start) == (
            "OK",
            500,
            100,
            "earliest",
        )
        assert bus.deliveries("/event/Other__e") == 0


def test_responses_are_split_and_report_what_is_pending(talk: Talk) -> None:
    """Responses have 1 to 16 events and state the outstanding number and ids."""
    with Emulator(knobs=QUICK) as bus:
        topic = _published(bus, 150)

        async def scenario(client: Any) -> list[Any]:
            stream = await client.subscribe(topic, 100)
            responses: list[Any] = []
            while not responses or responses[-1].pending_num_requested:
                responses.append(await stream.read())
            await stream.end()
            return responses

        responses = talk(bus, scenario)
        sizes = [len(response.events) for response in responses]
        assert sum(sizes) == 100
        assert max(sizes) <= 16
        assert min(sizes) >= 1
        assert len(set(sizes)) > 1
        left = 100
        for response in responses:
            left -= len(response.events)
            assert response.pending_num_requested == left
            assert response.latest_replay_id == response.events[-1].replay_id
        assert len({response.rpc_id for response in responses}) == 1


def test_fixed_responses(talk: Talk) -> None:
    """With a fixed size, full responses of 100 are sent."""
    with Emulator(knobs=Knobs(response_events=100, half_close_seconds=0.01)) as bus:
        topic = _published(bus, 100)

        async def scenario(client: Any) -> int:
            stream = await client.subscribe(topic, 100)
            return len((await stream.read()).events)

        assert talk(bus, scenario) == 100


def test_responses_stay_below_three_megabytes(talk: Talk) -> None:
    """Large events are split into more responses."""
    with Emulator(knobs=Knobs(response_events=100, half_close_seconds=0.01)) as bus:
        topic = _published(bus, 10, size=700_000)

        async def scenario(client: Any) -> list[int]:
            stream = await client.subscribe(topic, 10)
            sizes: list[tuple[int, int]] = []
            while sum(count for count, _ in sizes) < 10:
                response = await stream.read()
                sizes.append((len(response.events), response.ByteSize()))
            return [size for _, size in sizes]

        sizes = talk(bus, scenario)
        assert len(sizes) == 3
        assert max(sizes) <= 3 * 1024 * 1024 + 100


@pytest.mark.parametrize("asked", [[150], [60, 60, 60]], ids=["at once", "in parts"])
def test_credit_is_clamped_at_100(talk: Talk, asked: list[int]) -> None:
    """A request above 100 outstanding yields 100; the call log has the request."""
    with Emulator(knobs=Knobs(keepalive_seconds=0.2, half_close_seconds=0.01)) as bus:
        topic = bus.define_event("Order__e", ORDER)

        async def scenario(client: Any) -> int:
            stream = await client.subscribe(topic, asked[0], preset=pb.LATEST)
            for more in asked[1:]:
                await stream.ask(more)
            return int((await stream.read()).pending_num_requested)

        assert talk(bus, scenario) == 100
        [seen] = bus.subscriptions
        assert seen.max_outstanding > 100
        assert [fetch.num_requested for fetch in seen.requests] == asked


def test_asking_for_too_much_can_be_refused(talk: Talk) -> None:
    """With the knob, too much credit is refused."""
    with Emulator(knobs=Knobs(over_limit="reject")) as bus:
        topic = _published(bus, 1)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic, 101)
            return await client.refused(stream.read())

        assert talk(bus, scenario).code == "subscription.fetch.overflow"


def test_latest_says_nothing_until_an_event_or_keepalive(talk: Talk) -> None:
    """LATEST first sends a keepalive with an id and untouched credit."""
    with Emulator(knobs=Knobs(keepalive_seconds=0.3, half_close_seconds=0.01)) as bus:
        topic = _published(bus, 5)

        async def scenario(client: Any) -> tuple[Any, float, list[Any]]:
            began = time.monotonic()
            stream = await client.subscribe(topic, 7, preset=pb.LATEST)
            keepalive = await stream.read()
            waited = time.monotonic() - began
            bus.publish(topic, [{"Number__c": "new"}])
            return keepalive, waited, await stream.take(1)

        keepalive, waited, [event] = talk(bus, scenario)
        assert waited >= 0.3
        assert (len(keepalive.events), keepalive.pending_num_requested, bool(keepalive.rpc_id)) == (
            0,
            7,
            True,
        )
        assert len(keepalive.latest_replay_id) == 10
        assert event.event.id == bus.events(topic)[-1]["id"]
        assert (bus.subscriptions[0].keepalives, bus.deliveries()) == (1, 1)


def test_a_keepalives_id_is_a_start(talk: Talk) -> None:
    """A keepalive's id is before the next event and after the last."""
    with Emulator(knobs=Knobs(keepalive_seconds=0.1, half_close_seconds=0.01)) as bus:
        topic = _published(bus, 5)

        async def scenario(client: Any) -> list[Any]:
            stream = await client.subscribe(topic, 1, preset=pb.LATEST)
            replay_id = (await stream.read()).latest_replay_id
            bus.publish(topic, [{"Number__c": "new"}])
            again = await client.subscribe(topic, 10, preset=pb.CUSTOM, replay_id=replay_id)
            return list((await again.read()).events)

        assert len(talk(bus, scenario)) == 1


@pytest.mark.parametrize("length", [8, 10])
def test_custom_starts_strictly_after(talk: Talk, length: int) -> None:
    """CUSTOM continues after the id, with 8 or 10 bytes."""
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_event("Order__e", ORDER)
        ids = bus.publish(topic, [{"Number__c": str(n)} for n in range(10)])

        async def scenario(client: Any) -> list[Any]:
            stream = await client.subscribe(topic, 100, preset=pb.CUSTOM, replay_id=ids[6][:length])
            return [event.replay_id for event in await stream.take(3)]

        assert talk(bus, scenario) == ids[7:]
        assert bus.subscriptions[0].start == ids[6][:length].hex()


def test_replay_arguments_count_once(talk: Talk) -> None:
    """Only the first request's preset and id count."""
    with Emulator(knobs=QUICK) as bus:
        topic = _published(bus, 6)

        async def scenario(client: Any) -> list[str]:
            stream = await client.subscribe(topic, 2)
            events = await stream.take(2)
            await stream.ask(2, replay_preset=pb.CUSTOM, replay_id=b"rubbish")
            events += await stream.take(2)
            await stream.ask(2, topic="")
            events += await stream.take(2)
            return [event.event.id for event in events]

        assert talk(bus, scenario) == [event["id"] for event in bus.events(topic)]
