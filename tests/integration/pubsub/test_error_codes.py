"""Table of error codes: each kind scripted in the emulator and met over a socket."""

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
from airflow_provider_sfevents.pubsub.rpc_errors import (
    BY_STATUS,
    ERRORS,
    OwnFaultError,
    TokenRefusedError,
)
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
    """One code that stands for its kind; `tests/unit/pubsub/test_rpc_errors.py` has every code.

    :param kind: class of the final error.
    :param again: whether the client tries again first; a refused session is renewed once instead.
    """

    rpc: str
    code: str
    status: str
    kind: type[SfEventsError]
    again: bool = False


ROWS = [
    Row("Subscribe", "service.unavailable", "UNAVAILABLE", TransportError, again=True),
    Row("Subscribe", "service.auth.error", "UNAUTHENTICATED", TokenRefusedError),
    Row("Subscribe", "service.auth.headers.invalid", "UNAUTHENTICATED", AuthenticationError),
    Row("Subscribe", "service.tenant.license", "PERMISSION_DENIED", ConfigurationError),
    Row("Subscribe", "topic.not.found", "UNAVAILABLE", TopicError),
    Row(
        *("Subscribe", "subscription.fetch.replayid.corrupted", "INVALID_ARGUMENT"),
        ReplayIdRefusedError,
    ),
    Row("Subscribe", "subscription.limit.exceeded", "RESOURCE_EXHAUSTED", QuotaExceededError),
    Row("Subscribe", "subscription.fetch.overflow", "FAILED_PRECONDITION", OwnFaultError),
    Row("GetTopic", "topic.api.unavailable", "NOT_FOUND", TransportError, again=True),
    Row("GetTopic", "topic.meta.permission", "INTERNAL", TopicError),
    Row("GetTopic", "service.auth.error", "PERMISSION_DENIED", TokenRefusedError),
    Row("GetSchema", "schema.api.unavailable", "NOT_FOUND", TransportError, again=True),
    Row("GetSchema", "schema.validation.failed", "INTERNAL", SchemaUnknownError),
    Row("GetSchema", "schema.meta.permission", "INVALID_ARGUMENT", ConfigurationError),
    Row("GetSchema", "service.auth.error", "UNAUTHENTICATED", TokenRefusedError),
    Row("Publish", "service.protection.triggered", "UNAVAILABLE", TransportError, again=True),
    Row("Publish", "publish.event.count.invalid", "INVALID_ARGUMENT", OwnFaultError),
    Row("Publish", "topic.not.found", "NOT_FOUND", TopicError),
    Row("Publish", "service.auth.error", "UNAUTHENTICATED", TokenRefusedError),
]
STREAM_ROWS = [row for row in ROWS if row.rpc == "Subscribe"]


def name_of(row: Row) -> str:
    return f"{row.rpc}-{row.code}"


def test_every_kind_of_error_is_met_on_a_stream() -> None:
    """A kind that is added to the table of error codes gets a row here."""
    kinds = {ERRORS[one.kind] for one in BY_CODE.values()} - {SchemaUnknownError}
    assert {row.kind for row in STREAM_ROWS} == kinds


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


def expected_calls(row: Row) -> int:
    if row.kind is TokenRefusedError:
        return 2
    if not row.again:
        return 1
    return MAX_TRIES if row.rpc in {"Subscribe", "Publish"} else UNARY_TRIES


def expected_kind(row: Row) -> type[SfEventsError]:
    """The row's class, except for publishing, which reports the events that are left."""
    breaks_off = row.rpc == "Publish" and issubclass(row.kind, TransportError)
    return PublishInterruptedError if breaks_off else row.kind


@pytest.mark.parametrize("row", ROWS, ids=name_of)
async def test_a_code(pair: Pair, row: Row) -> None:
    """A code leads to its error, number of calls, rpc id and remedy."""
    bus, client = pair
    rpc, times = row.rpc, expected_calls(row)
    bus.define_event("Other__e", {"Number__c": "Double"})
    before = times_called(bus, rpc)
    bus.fail_next(rpc, error_code=row.code, status=row.status, times=times)

    with pytest.raises(SfEventsError) as raised:
        await call(client, bus, rpc)

    assert type(raised.value) is expected_kind(row)
    assert times_called(bus, rpc) - before == times
    assert_told(str(raised.value), row.code)
    await call(client, bus, rpc)  # nothing of it sticks
    bus.wait_open_streams(0)


@pytest.mark.parametrize("row", STREAM_ROWS, ids=name_of)
async def test_a_code_in_mid_stream(pair: Pair, row: Row) -> None:
    """After events the batch continues if that helps; otherwise it ends with them and the error."""
    bus, client = pair
    paid = bus.deliveries()
    helps = row.again or row.kind is TokenRefusedError
    bus.fail_next("Subscribe", error_code=row.code, status=row.status, after=2)
    received, bounds = Received(), Bounds(max_events=EVENTS, **LONG)

    result = await client.fetch(TOPIC, EARLIEST, bounds, received)

    if helps:
        assert (result.ended_by, result.events, result.losses) == ("max_events", EVENTS, 1)
    else:
        assert (result.ended_by, result.events, result.losses) == ("error", 2, 1)
        assert type(result.error) is row.kind
        assert_told(str(result.error), row.code)
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
