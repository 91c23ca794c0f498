"""Publishing over scripted streams: requests, limits, and repetitions."""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    PublishInterruptedError,
    QuotaExceededError,
    TransportError,
)
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.pubsub.publishing.event_publisher import PublishPace
from airflow_provider_sfevents.pubsub.publishing.send_queue import MAX_REQUESTS, MAX_TRIES
from tests.integration.pubsub.conftest import TOPIC
from tests.integration.pubsub.publishing_bus import PublishCall, accept, answer, scripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import PublishResult

pytestmark = pytest.mark.anyio
QUICK = PublishPace(answer_seconds=10.0, first_wait_seconds=0.0)


async def publish(
    client: PubSubClient, count: int, pace: PublishPace = QUICK, **more: Any
) -> list[PublishResult]:
    """Publish so many records whose ids are their numbers; their results in order."""
    records = [{"City__c": "a"}] * count
    ids = [str(number) for number in range(1, count + 1)]
    results = client.publishing.stream(TOPIC, records, ids, pace, **more)
    return sorted([one async for one in results], key=lambda one: one.number)


async def collect(
    results: AsyncIterator[PublishResult], seen: list[int], holds: Callable[[], bool] = lambda: True
) -> None:
    """Record the numbers as they come, so that those before an error are known."""
    async for one in results:
        assert holds()
        seen.append(one.number)


async def never(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
    """Read requests and answer none."""
    async for _ in call.all():
        pass
    yield pb2.PublishResponse()


async def test_requests_are_pipelined_and_bounded() -> None:
    """The allowed number of requests is sent without an answer, each with 200 events."""

    async def hold(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        held = [await call.next() for _ in range(MAX_REQUESTS)]
        await call.quiet()
        assert len(call.requests) == MAX_REQUESTS
        for request in held:
            assert request is not None
            yield answer(request)
        async for request in call.all():
            yield answer(request)

    async with scripted(hold) as (bus, client):
        results = await publish(client, 1300)
    requests = bus.calls[0].requests
    assert [len(one.events) for one in requests] == [200] * 6 + [100]
    assert {(one.topic_name, one.events[0].schema_id) for one in requests} == {(TOPIC, "S")}
    assert [one.event_id for one in results] == [str(number) for number in range(1, 1301)]
    assert len(bus.calls) == 1


async def test_answers_in_any_order() -> None:
    """Answers are matched in any order, across responses and keepalives."""

    async def shuffle(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        first, second = await call.next(), await call.next()
        assert first is not None
        assert second is not None
        both = [*answer(second).results, *reversed(answer(first).results)]
        yield pb2.PublishResponse(results=both[:150])
        yield pb2.PublishResponse(schema_id="S", rpc_id="keepalive")
        yield pb2.PublishResponse(results=both[150:])

    async with scripted(shuffle) as (_, client):
        results = await publish(client, 300)
    assert [(one.number, one.event_id) for one in results] == [(n, str(n)) for n in range(1, 301)]
    assert results[0].replay_id != results[1].replay_id


async def test_what_a_broken_stream_leaves_unanswered_is_sent_again() -> None:
    """Unanswered events are sent again under the same ids, in order, on another stream."""

    async def broken(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        first, _ = await call.next(), await call.next()
        assert first is not None
        yield answer(first)
        await call.fail("UNAVAILABLE")

    async with scripted(broken, accept) as (bus, client):
        results = await publish(client, 600)
    assert len(results) == 600
    again = [one for call in bus.calls[1:] for one in call.requests]
    assert [again[0].events[0].id, again[0].events[-1].id] == ["201", "400"]
    ids = [event.id for one in again for event in one.events]
    assert ids == [str(number) for number in range(201, 601)]


async def test_a_polite_end_is_a_loss_too_while_something_is_unanswered() -> None:
    """A stream that ends with OK before all answers counts as lost."""

    async def ends(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        nothing: tuple[pb2.PublishResponse, ...] = ()
        await call.next()
        for response in nothing:
            yield response

    async with scripted(ends, accept) as (bus, client):
        assert len(await publish(client, 5)) == 5
    assert bus.sent == [["1", "2", "3", "4", "5"]] * 2


async def test_what_is_refused_is_sent_again_alone() -> None:
    """A refused event is sent again alone under its id until it is accepted."""

    async def moody(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        async for request in call.all():
            yield answer(request, **({"2": "not now"} if len(call.requests) < MAX_TRIES else {}))

    async with scripted(moody) as (bus, client):
        results = await publish(client, 3)
    assert bus.sent == [["1", "2", "3"], ["2"], ["2"]]
    assert [(one.event_id, one.error) for one in results] == [("1", ""), ("2", ""), ("3", "")]


async def test_what_is_refused_for_good_is_a_result() -> None:
    """A final refusal is a result with the service's reason; the others are published."""

    async def stubborn(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        async for request in call.all():
            yield answer(request, **{"2": "never", "3": ""})

    async with scripted(stubborn) as (bus, client):
        results = await publish(client, 4)
    assert len(bus.sent) == MAX_TRIES
    assert [one.error for one in results] == ["", "never", "refused without a reason", ""]
    assert [bool(one.replay_id) for one in results] == [True, False, False, True]


@pytest.mark.parametrize("how", ["result", "status"])
async def test_a_used_up_allowance_ends_it(how: str) -> None:
    """A used-up allowance ends publishing with the results so far and their number."""

    async def limited(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        request = await call.next()
        assert request is not None
        yield answer(request)
        request = await call.next()
        assert request is not None
        if how == "status":
            await call.fail("RESOURCE_EXHAUSTED", details="LIMIT_EXCEEDED: no more")
        yield answer(request, **{event.id: "LIMIT_EXCEEDED: no more" for event in request.events})
        async for _ in call.all():
            pass

    seen: list[int] = []
    async with scripted(limited) as (bus, client):
        results = client.publishing.stream(
            TOPIC, [{"City__c": "a"}] * 400, pace=PublishPace(max_requests=1)
        )
        with pytest.raises(QuotaExceededError, match=r"ended after 200 events.*LIMIT_EXCEEDED"):
            await collect(results, seen)
    assert seen == list(range(1, 201))
    assert len(bus.sent) == 2


async def test_silence_is_a_loss() -> None:
    """A service that reads requests and does not answer is left for another stream."""
    async with scripted(never, accept) as (bus, client):
        results = await publish(client, 2, PublishPace(answer_seconds=0.2))
    assert len(results) == 2
    assert bus.sent == [["1", "2"]] * 2


async def test_a_request_that_always_ends_its_stream_ends_the_publishing() -> None:
    """A request that ends every stream ends publishing, even if others are answered meanwhile."""

    async def poisoned(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        yield pb2.PublishResponse(schema_id="S")
        async for request in call.all():
            if request.events[0].id == "1":
                await call.fail("UNAVAILABLE", details="poison")
            yield answer(request)

    async with scripted(poisoned) as (bus, client):
        with pytest.raises(
            PublishInterruptedError, match=r"poison.*May be on the bus.*: record"
        ) as told:
            await publish(client, 3)
    assert len(bus.calls) < 10
    assert told.value.uncertain[1] == "1"


async def test_a_lost_answer_stays_in_doubt_while_no_stream_can_be_opened() -> None:
    """Events of a broken stream may be on the bus, whatever later streams fail with."""

    async def broken(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        first, _ = await call.next(), await call.next()
        assert first is not None
        yield answer(first)
        await call.fail("INTERNAL", "service.unavailable")  # what came before may be carried out

    async def refused(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        await call.fail("INTERNAL", "service.unavailable")
        yield pb2.PublishResponse()

    async with scripted(broken, refused) as (_, client):
        with pytest.raises(PublishInterruptedError) as told:
            await publish(client, 500, PublishPace(max_requests=2, first_wait_seconds=0.0))
    error = told.value
    assert set(range(201, 401)) <= error.uncertain.keys()
    assert error.uncertain.keys() | error.unsent.keys() == set(range(201, 501))
    assert error.error_code.endswith("service.unavailable")
    assert pickle.loads(pickle.dumps(error)).left == error.left  # noqa: S301 - made by the test


async def test_a_client_error_is_not_repeated() -> None:
    """A stream that ended because of a client error is not replaced."""

    async def mismatch(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        await call.next()
        await call.fail("INVALID_ARGUMENT", "publish.topic.mismatch")
        yield pb2.PublishResponse()

    async with scripted(mismatch) as (bus, client):
        with pytest.raises(TransportError, match=r"publish\.topic\.mismatch"):
            await publish(client, 1)
    assert len(bus.calls) == 1


async def test_a_token_that_cannot_be_renewed() -> None:
    """A refused session token ends publishing, and the error does not show it."""
    async with scripted(accept) as (bus, client):
        encoder = await client.publishing.encoder(TOPIC)
        bus.refused_tokens.add("00D000000000001!secret")
        publisher = client.publishing.publisher(encoder)

        async def nothing() -> None:
            return None

        assert [one async for one in publisher.run(nothing)] == []
        with pytest.raises(AuthenticationError) as raised:
            await publish(client, 1)
    assert "00D000000000001!secret" not in str(raised.value)


async def test_a_list_is_checked_before_anything_is_sent() -> None:
    """A list is checked as a whole before anything is sent."""
    async with scripted(accept) as (bus, client):
        records = [{"City__c": "a"}] * 500 + [{"City__c": 1}]
        with pytest.raises(ConfigurationError, match="record 501: City__c is 1"):
            [one async for one in client.publishing.stream(TOPIC, records)]
        with pytest.raises(ConfigurationError, match="ids for an unknown number of events"):
            [one async for one in client.publishing.stream(TOPIC, iter(records), ["a"])]
    assert bus.calls == []


async def test_a_source_without_an_end() -> None:
    """Records of an iterable are taken as they are sent, and a bad one ends publishing."""
    taken = 0

    def source() -> Iterator[dict[str, Any]]:
        nonlocal taken
        while True:
            taken += 1
            yield {"City__c": "a" if taken < 2000 else 7}

    seen: list[int] = []
    async with scripted(accept) as (_, client):
        results = client.publishing.stream(TOPIC, source())
        with pytest.raises(ConfigurationError, match=r"are sent(?s:.*)record 2000: City__c is 7"):
            await collect(results, seen, lambda: taken - len(seen) <= 200 * (MAX_REQUESTS + 1))
    assert seen == list(range(1, 2000))


async def test_an_error_of_the_source_comes_after_the_results() -> None:
    """Events that are published have their results, whatever becomes of the source."""

    def source() -> Iterator[dict[str, Any]]:
        for _ in range(250):
            yield {"City__c": "a"}
        raise RuntimeError("the source broke")

    seen: list[int] = []
    async with scripted(accept) as (_, client):
        with pytest.raises(RuntimeError, match="the source broke"):
            await collect(client.publishing.stream(TOPIC, source()), seen, lambda: True)
    assert seen == list(range(1, 251))


async def test_leaving_early_leaves_nothing_open() -> None:
    """Breaking out of the results closes the stream."""
    gone = asyncio.Event()

    async def watched(call: PublishCall) -> AsyncIterator[pb2.PublishResponse]:
        try:
            async for request in call.all():
                yield answer(request)
        finally:
            gone.set()

    async with scripted(watched) as (_, client):
        results = client.publishing.stream(TOPIC, [{"City__c": "a"}] * 2000)
        assert (await anext(results)).number == 1
        await results.aclose()
        await asyncio.wait_for(gone.wait(), 100)
