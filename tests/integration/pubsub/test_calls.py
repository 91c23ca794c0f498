"""Unary calls: headers, retries, renewal, and the schema cache."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    SchemaUnknownError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, SessionToken, Settings
from airflow_provider_sfevents.pubsub.client import PubSubClient, TopicInfo
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.schema_cache import SchemaCache
from airflow_provider_sfevents.replay_point import EARLIEST

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError
    from tests.integration.pubsub.conftest import LoginServer, ScriptedBus

pytestmark = pytest.mark.anyio
TOPIC = "/event/Order__e"
INSTANCE = "https://acme.my.salesforce.com"


def client_of(
    bus: ScriptedBus, login: ClientCredentials | SessionToken, schemas: SchemaCache | None = None
) -> PubSubClient:
    return PubSubClient(
        Settings(login=login, endpoint=bus.endpoint, plaintext=True),
        sessions=SessionCache(),
        schemas=schemas or SchemaCache(),
        clock=Clock(chance=lambda: 0.0),
    )


def token(org: str = "00D000000000001") -> SessionToken:
    return SessionToken(token=Secret(f"{org}!secret"), instance_url=INSTANCE)


def secret(login_server: LoginServer) -> ClientCredentials:
    return ClientCredentials(
        login_url=login_server.url, client_id="key", client_secret=Secret("s3cret")
    )


async def test_the_headers_of_every_call(bus: ScriptedBus, client: PubSubClient) -> None:
    """Each call has token, instance URL, org id, and a new trace id."""
    await client.get_topic(TOPIC)
    await client.get_schema("S")
    headers = [sent for _, sent in bus.unary]
    for sent in headers:
        assert sent["accesstoken"] == "00D000000000001!secret"
        assert sent["instanceurl"] == INSTANCE
        assert sent["tenantid"] == "00D000000000001EAA"
    assert len({sent["x-client-trace-id"] for sent in headers}) == 2


async def test_a_topic(client: PubSubClient) -> None:
    """`get_topic` returns the service's answer as a value."""
    assert await client.get_topic(TOPIC) == TopicInfo(
        name=TOPIC, tenant_guid="", can_publish=True, can_subscribe=True, schema_id="S"
    )


async def test_a_name_that_is_no_topic_is_not_asked_for(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """A malformed name costs no call."""
    with pytest.raises(TopicError):
        await client.get_topic("Order__e")
    assert bus.unary == []


async def test_a_passing_fault_is_tried_again(bus: ScriptedBus, client: PubSubClient) -> None:
    """A call succeeds after two passing errors."""
    bus.unary_failures = [("INTERNAL", "service.unavailable"), ("UNAVAILABLE", "")]
    assert (await client.get_topic(TOPIC)).name == TOPIC
    assert len(bus.unary) == 3


async def test_a_fault_that_stays_is_raised(bus: ScriptedBus, client: PubSubClient) -> None:
    """After three tries the error is raised, naming endpoint and topic."""
    bus.unary_failures = [("INTERNAL", "service.unavailable")] * 9
    with pytest.raises(TransportError, match=f"Looking up {TOPIC} at {bus.endpoint}"):
        await client.get_topic(TOPIC)
    assert len(bus.unary) == 3


async def test_a_refused_token_is_renewed(bus: ScriptedBus, login_server: LoginServer) -> None:
    """A refused token costs one login, which concurrent calls share."""
    login_server.grant("00D000000000001!old")
    login_server.grant("00D000000000001!new")
    bus.refused_tokens = {"00D000000000001!old"}
    async with client_of(bus, secret(login_server)) as client:
        topics = await asyncio.gather(*(client.get_topic(TOPIC) for _ in range(8)))
    assert {topic.name for topic in topics} == {TOPIC}
    assert len(login_server.forms) == 2


async def test_a_token_refused_twice_is_an_error(
    bus: ScriptedBus, login_server: LoginServer
) -> None:
    """A new token that is refused as well is an error; neither token shows."""
    login_server.grant("00D000000000001!same")
    bus.refused_tokens = {"00D000000000001!same"}
    async with client_of(bus, secret(login_server)) as client:
        with pytest.raises(AuthenticationError, match="rpc id rpc-9") as raised:
            await client.get_topic(TOPIC)
    assert len(login_server.forms) == 2
    assert "same" not in str(raised.value)


async def test_a_schema_is_fetched_once(bus: ScriptedBus) -> None:
    """A schema is fetched once for all clients of an org, concurrent or later."""
    schemas = SchemaCache()
    async with client_of(bus, token(), schemas) as one, client_of(bus, token(), schemas) as other:
        found = await asyncio.gather(*(client.get_schema("S") for client in (one, other) * 5))
        found.append(await other.get_schema("S"))
    assert set(found) == {bus.schemas["S"]}
    assert [method for method, _ in bus.unary] == ["GetSchema"]


async def test_a_schema_is_kept_per_org(bus: ScriptedBus) -> None:
    """Schemas are cached per org: under one id they may differ in the fields' documentation."""
    schemas = SchemaCache()
    async with (
        client_of(bus, token(), schemas) as one,
        client_of(bus, token("00D000000000002"), schemas) as other,
    ):
        await one.get_schema("S")
        await other.get_schema("S")
    assert [headers["tenantid"] for _, headers in bus.unary] == [
        "00D000000000001EAA",
        "00D000000000002EAA",
    ]


async def test_a_schema_that_failed_is_asked_for_again(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """A failed request is not cached in place of the schema."""
    bus.unary_failures = [("UNAVAILABLE", "")] * 3
    with pytest.raises(TransportError):
        await client.get_schema("S")
    assert await client.get_schema("S") == bus.schemas["S"]


@pytest.mark.parametrize(
    "failure",
    [
        None,  # an answer without a schema in it
        ("NOT_FOUND", ""),
        ("NOT_FOUND", "schema.meta.permission"),
        ("INVALID_ARGUMENT", ""),
        ("INVALID_ARGUMENT", "schema.validation.failed"),
    ],
)
async def test_an_unknown_schema(
    bus: ScriptedBus, client: PubSubClient, failure: tuple[str, str] | None
) -> None:
    """An unknown schema is an error with id, org and rpc id, and is not cached."""
    bus.unary_failures = [failure] if failure else []
    with pytest.raises(SchemaUnknownError, match=r"'unknown-id' of org 00D000000000001EAA.*rpc id"):
        await client.get_schema("unknown-id")
    assert len(bus.unary) == 1

    bus.schemas["unknown-id"] = "{}"
    assert await client.get_schema("unknown-id") == "{}"


@pytest.mark.parametrize("schema_id", ["", " "])
async def test_no_schema_id_is_no_schema(
    bus: ScriptedBus, client: PubSubClient, schema_id: str
) -> None:
    """A blank schema id is refused without a call."""
    with pytest.raises(SchemaUnknownError, match="the id is blank"):
        await client.get_schema(schema_id)
    assert bus.unary == []


@pytest.mark.parametrize(
    ("failure", "kind", "calls"),
    [
        (("UNAVAILABLE", "schema.api.unavailable"), TransportError, 3),
        (("RESOURCE_EXHAUSTED", "service.protection.triggered"), TransportError, 3),
        (("INTERNAL", ""), TransportError, 3),
        (("PERMISSION_DENIED", "schema.meta.permission"), ConfigurationError, 1),
        (("PERMISSION_DENIED", ""), ConfigurationError, 1),
        (("UNAUTHENTICATED", ""), AuthenticationError, 1),
    ],
)
async def test_a_schema_that_cannot_be_had_is_not_unknown(
    bus: ScriptedBus,
    client: PubSubClient,
    failure: tuple[str, str],
    kind: type[SfEventsError],
    calls: int,
) -> None:
    """A passing error or a missing permission never counts as an unknown schema."""
    bus.unary_failures = [failure] * 9
    with pytest.raises(kind) as raised:
        await client.get_schema("S")
    assert not isinstance(raised.value, SchemaUnknownError)
    assert len(bus.unary) == calls


async def test_a_client_opens_nothing_by_itself(bus: ScriptedBus) -> None:
    """A client that makes no call logs in to nothing and opens no connection."""
    async with client_of(bus, token()):
        pass
    assert bus.unary == []


async def test_a_topic_that_may_not_be_read_is_refused_before_a_stream(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """Neither `fetch` nor `subscribe` opens a stream that the service would refuse."""
    from airflow_provider_sfevents.pubsub.bounds import Bounds

    async def receive(delivery: object) -> None:
        raise AssertionError("nothing may come")

    bus.topic.can_subscribe = False
    with pytest.raises(TopicError, match="may not subscribe"):
        await client.fetch(TOPIC, EARLIEST, Bounds(), receive)
    with pytest.raises(TopicError, match="may not subscribe"):
        await anext(client.subscribe(TOPIC, EARLIEST))
    assert bus.streams == []
