"""Table of error codes: each row scripted in the emulator and met over a socket."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    PublishInterruptedError,
    QuotaExceededError,
    ReplayIdRefusedError,
    SchemaUnknownError,
    SfEventsError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.error_codes import BY_CODE
from airflow_provider_sfevents.pubsub.pubsub_calls import UNARY_TRIES
from airflow_provider_sfevents.pubsub.reconnect import MAX_TRIES
from airflow_provider_sfevents.pubsub.rpc_errors import BY_STATUS, OwnFaultError, TokenRefusedError
from airflow_provider_sfevents.replay_point import EARLIEST, ReplayPoint
from tests.integration.pubsub.emulated import LONG, TOPIC, Received, publish, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_sfevents.emulator import Emulator
    from airflow_provider_sfevents.pubsub.client import PubSubClient

pytestmark = pytest.mark.anyio
EVENTS = 4
Pair = tuple["Emulator", "PubSubClient"]


@dataclass(frozen=True, slots=True)
class Row:
    """Effect of one code.

    :param kind: class of the final error.
    :param again: whether the client tries again first; a refused session is renewed once instead.
    :param statuses: gRPC statuses that it may come with; the meaning does not depend on them.
    """

    kind: type[SfEventsError]
    again: bool
    statuses: tuple[str, ...]


def again(*statuses: str) -> Row:
    return Row(TransportError, again=True, statuses=statuses)


def never(kind: type[SfEventsError], *statuses: str) -> Row:
    return Row(kind, again=False, statuses=statuses)


EXPECTED: dict[str, Row] = {
    "service.unavailable": again("INTERNAL", "UNAVAILABLE"),
    "service.auth.error": never(TokenRefusedError, "UNAUTHENTICATED", "PERMISSION_DENIED"),
    "service.auth.headers.invalid": never(AuthenticationError, "UNAUTHENTICATED"),
    "service.auth.refresh.invalid": never(OwnFaultError, "INVALID_ARGUMENT", "UNAUTHENTICATED"),
    "service.protection.stream.limit.triggered": again("RESOURCE_EXHAUSTED"),
    "service.protection.triggered": again("RESOURCE_EXHAUSTED", "UNAVAILABLE"),
    "service.tenant.license": never(ConfigurationError, "PERMISSION_DENIED", "UNAUTHENTICATED"),
    "concurrent.client.limit.exceeded": again("RESOURCE_EXHAUSTED", "UNAVAILABLE"),
    "topic.not.found": never(TopicError, "NOT_FOUND", "PERMISSION_DENIED", "UNAVAILABLE"),
    "topic.meta.permission": never(TopicError, "PERMISSION_DENIED", "NOT_FOUND", "INTERNAL"),
    "topic.api.unavailable": again("UNAVAILABLE", "INTERNAL", "NOT_FOUND"),
    "topic.validation.empty": never(TopicError, "INVALID_ARGUMENT"),
    "schema.meta.permission": never(ConfigurationError, "PERMISSION_DENIED", "INVALID_ARGUMENT"),
    "schema.api.unavailable": again("UNAVAILABLE", "INTERNAL", "NOT_FOUND"),
    "schema.validation.failed": never(SchemaUnknownError, "INVALID_ARGUMENT", "INTERNAL"),
    "subscription.fetch.replayid.corrupted": never(
        ReplayIdRefusedError, "INVALID_ARGUMENT", "INTERNAL"
    ),
    "subscription.fetch.replayid.validation.failed": never(
        ReplayIdRefusedError, "INVALID_ARGUMENT"
    ),
    "subscription.fetch.replay.repeated": again("INVALID_ARGUMENT", "INTERNAL"),
    "subscription.limit.exceeded": never(QuotaExceededError, "RESOURCE_EXHAUSTED", "UNAVAILABLE"),
    "subscription.fetch.overflow": never(
        OwnFaultError, "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"
    ),
    "subscription.fetch.requested.events.invalid": never(OwnFaultError, "INVALID_ARGUMENT"),
    "subscription.fetch.topic.mismatch": never(OwnFaultError, "INVALID_ARGUMENT"),
    "subscription.fetch.request.invalid": never(OwnFaultError, "INVALID_ARGUMENT"),
    "subscription.topic.cannot.subscribe": never(TopicError, "PERMISSION_DENIED", "INTERNAL"),
    "subscription.internal.error": again("INTERNAL", "UNKNOWN"),
    "publish.stream.sweeper.timeout": again("DEADLINE_EXCEEDED"),
    "publish.auth.refresh.invalid": never(OwnFaultError, "INVALID_ARGUMENT"),
    "publish.event.count.invalid": never(OwnFaultError, "INVALID_ARGUMENT"),
    "publish.topic.mismatch": never(OwnFaultError, "INVALID_ARGUMENT"),
    "publish.topic.validation.empty": never(TopicError, "INVALID_ARGUMENT"),
    # The client has no managed subscriptions; what it makes of their codes is the same on any
    # stream.
    "managed.subscription.already.active": again("ALREADY_EXISTS"),
    "managed.subscription.config.stopped": never(ConfigurationError, "FAILED_PRECONDITION"),
    "managed.subscription.config.deleted": never(ConfigurationError, "NOT_FOUND"),
    "managed.subscription.developer.name.not.found": again("NOT_FOUND"),
    "managed.subscription.subscription.id.not.found": again("NOT_FOUND"),
    "managed.subscription.subscription.id.invalid": never(ConfigurationError, "INVALID_ARGUMENT"),
    "managed.subscription.id.or.developer.name.empty": never(
        ConfigurationError, "INVALID_ARGUMENT"
    ),
    "managed.subscription.fetch.request.events.invalid": never(OwnFaultError, "INVALID_ARGUMENT"),
    "managed.subscription.fetch.request.invalid": never(OwnFaultError, "INVALID_ARGUMENT"),
    "managed.subscription.fetch.request.commit.request.restricted": never(
        OwnFaultError, "INVALID_ARGUMENT"
    ),
    "managed.subscription.fetch.request.auth.request.restricted": never(
        OwnFaultError, "INVALID_ARGUMENT"
    ),
}


def test_every_row_is_expected_here() -> None:
    """A code that is added to the table, or leaves it, does so here as well."""
    assert set(EXPECTED) == set(BY_CODE)


def rpcs(code: str) -> tuple[str, ...]:
    """RPCs that a code belongs to."""
    family = code.partition(".")[0]
    return {
        "service": ("Subscribe", "GetTopic", "GetSchema", "Publish"),
        "topic": ("Subscribe", "GetTopic", "Publish"),
        "schema": ("GetSchema",),
        "publish": ("Publish",),
    }.get(family, ("Subscribe",))


ROWS = [
    pytest.param(rpc, code, status, id=f"{rpc}-{code}-{status}")
    for code in BY_CODE
    for rpc in rpcs(code)
    for status in (EXPECTED[code].statuses if code in EXPECTED else ("INTERNAL",))
]
STREAM_ROWS = [row for row in ROWS if row.values[0] == "Subscribe"]


@pytest.fixture(scope="module")
async def pair(anyio_backend: str) -> AsyncIterator[Pair]:
    """One emulator for all rows, with a few events on its bus."""
    async with running() as (bus, client):
        publish(bus, EVENTS)
        yield bus, client


def times_called(bus: Emulator, rpc: str) -> int:
    return [call.rpc for call in bus.requests].count(rpc)


async def call(client: PubSubClient, bus: Emulator, rpc: str) -> Any:
    """A call of this RPC; a fetch begins with GetTopic, which succeeds."""
    match rpc:
        case "Subscribe":
            received = Received()
            bounds = Bounds(max_events=EVENTS, **LONG)
            result = await client.fetch(TOPIC, EARLIEST, bounds, received)
            assert len(received.replay_ids) == result.events == EVENTS
            return result
        case "GetTopic":
            return await client.get_topic(TOPIC)
        case "GetSchema":
            # Past the cache: a schema that was had once is not asked for again.
            return await client.get_schema(
                bus.evolve("Order__e", {f"F{len(bus.requests)}": "Text"})
            )
        case _:
            return await client.publish("/event/Other__e", [{"Number__c": 1.0}])


def expected_calls(rpc: str, row: Row) -> int:
    if row.kind is TokenRefusedError:
        return 2
    if not row.again:
        return 1
    return MAX_TRIES if rpc in {"Subscribe", "Publish"} else UNARY_TRIES


def expected_kind(rpc: str, row: Row) -> type[SfEventsError]:
    """The row's class, except for publishing, which reports the events that are left."""
    breaks_off = rpc == "Publish" and issubclass(row.kind, TransportError)
    return PublishInterruptedError if breaks_off else row.kind


@pytest.mark.parametrize(("rpc", "code", "status"), ROWS)
async def test_a_code(pair: Pair, rpc: str, code: str, status: str) -> None:
    """Each code leads to its error, number of calls, rpc id and remedy, with any status."""
    bus, client = pair
    row, times = EXPECTED[code], expected_calls(rpc, EXPECTED[code])
    bus.define_event("Other__e", {"Number__c": "Double"})
    before = times_called(bus, rpc)
    bus.fail_next(rpc, error_code=code, status=status, times=times)

    with pytest.raises(SfEventsError) as raised:
        await call(client, bus, rpc)

    assert type(raised.value) is expected_kind(rpc, row)
    assert times_called(bus, rpc) - before == times
    assert_told(str(raised.value), code)
    await call(client, bus, rpc)  # nothing of it sticks
    bus.wait_open_streams(0)


@pytest.mark.parametrize(("rpc", "code", "status"), STREAM_ROWS)
async def test_a_code_in_mid_stream(pair: Pair, rpc: str, code: str, status: str) -> None:
    """After events the batch continues if that helps; otherwise it ends with them and the error."""
    bus, client = pair
    row, paid = EXPECTED[code], bus.deliveries()
    helps = row.again or row.kind is TokenRefusedError
    bus.fail_next("Subscribe", error_code=code, status=status, after=2)
    received, bounds = Received(), Bounds(max_events=EVENTS, **LONG)

    result = await client.fetch(TOPIC, EARLIEST, bounds, received)

    if helps:
        assert (result.ended_by, result.events, result.losses) == ("max_events", EVENTS, 1)
    else:
        assert (result.ended_by, result.events, result.losses) == ("error", 2, 1)
        assert type(result.error) is row.kind
        assert_told(str(result.error), code)
        rest = Bounds(max_events=EVENTS - 2, **LONG)
        await client.fetch(TOPIC, ReplayPoint(result.last_replay_id.hex()), rest, received)
    assert received.replay_ids == [bytes.fromhex(event["replay_id"]) for event in bus.events(TOPIC)]
    assert bus.deliveries() - paid == EVENTS
    bus.wait_open_streams(0)


def assert_told(message: str, code: str) -> None:
    assert len(re.findall(r"rpc id [0-9a-f-]{32,36}\b", message)) == 1
    assert re.search(rf"\({re.escape(code)}, rpc id", message)
    assert BY_CODE[code].remedy in message


@pytest.mark.parametrize("status", ["INTERNAL", "UNAVAILABLE", "NOT_FOUND", "UNAUTHENTICATED"])
async def test_an_unknown_code_falls_to_its_status(pair: Pair, status: str) -> None:
    """An unknown code is shown, and the status beside it decides."""
    bus, client = pair
    kinds: dict[str, tuple[type[SfEventsError], int]] = {
        "INTERNAL": (TransportError, UNARY_TRIES),
        "UNAVAILABLE": (TransportError, UNARY_TRIES),
        "NOT_FOUND": (ConfigurationError, 1),
        "UNAUTHENTICATED": (TokenRefusedError, 2),
    }
    kind, times = kinds[status]
    bus.fail_next("GetTopic", error_code="topic.of.the.future", status=status, times=times)
    with pytest.raises(kind, match=rf"\(topic\.of\.the\.future, {status}, rpc id "):
        await client.get_topic(TOPIC)
    await client.get_topic(TOPIC)


@pytest.mark.parametrize("status", sorted(BY_STATUS))
async def test_a_status_without_a_code(pair: Pair, status: str) -> None:
    """A refusal by a proxy has no rpc id of its own and carries that of the last response."""
    bus, client = pair
    helps = status in {"DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED"}
    bus.fail_next("Subscribe", status=status, message="no", after=2)
    result = await client.fetch(TOPIC, EARLIEST, Bounds(max_events=EVENTS, **LONG), Received())
    if helps:
        assert (result.ended_by, result.losses) == ("max_events", 1)
    else:
        assert (result.ended_by, type(result.error)) == ("error", ConfigurationError)
        assert re.search(rf"\({status}, rpc id [0-9a-f-]{{36}}\)", str(result.error))
