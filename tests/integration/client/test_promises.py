"""Promises of `aiosfstream` that the client keeps, over both transports: a test for each.

Those of replay are in `test_replay_promises`; those that need no service in `tests/unit/client`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.client import (
    Client,
    ClientClosedError,
    PasswordAuthenticator,
    RefreshTokenAuthenticator,
    ReplayOption,
    SalesforceStreamingClient,
    Secret,
    ServerError,
    Settings,
    TransportTimeoutError,
)
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import ConfigurationError
from tests.integration.client.numbered import number, numbers, publish, subscribed, topic_of
from tests.integration.client.tunnels import tunnels
from tests.integration.emulator.resting import Rest
from tests.integration.pubsub.emulated import come_true, settings_of

if TYPE_CHECKING:
    from tests.integration.client.conftest import Connect

pytestmark = pytest.mark.anyio

ALL = ReplayOption.ALL_EVENTS


async def test_logins_by_password_by_refresh_token_and_of_the_package(bus: Emulator) -> None:
    """The authenticators and the package's logins are accepted by the org."""
    org, url = bus.org, bus.login_url
    app: dict[str, Any] = {"consumer_key": org.consumer_key, "consumer_secret": org.consumer_secret}
    user: dict[str, Any] = {
        "username": org.username,
        "password": f"{org.password}{org.security_token}",
    }
    for client in (
        SalesforceStreamingClient(**app, **user, login_url=url),
        Client(PasswordAuthenticator(**app, **user, login_url=url)),
        Client(RefreshTokenAuthenticator(**app, refresh_token=org.refresh_token, login_url=url)),
        Client(settings_of(bus).login),
    ):
        async with client:
            assert not client.closed


async def test_open_receive_iterate_and_close(bus: Emulator, topic: str, connect: Connect) -> None:
    """A client is opened and closed by hand or by `async with`, and read by both ways."""
    client = connect(replay=ALL)
    await client.open()
    with pytest.raises(ConfigurationError, match="open already"):
        await client.open()
    await client.subscribe(topic)
    publish(bus, topic, 0, 1, 2)
    assert await numbers(client, 1) == [0]
    assert number(await anext(aiter(client))) == 1
    await client.close()
    with pytest.raises(ClientClosedError):
        await client.subscribe(topic)
    async with client:
        assert not client.closed
    assert client.closed


async def test_buffered_messages_are_readable_after_close(
    bus: Emulator, topic: str, connect: Connect
) -> None:
    """An iteration ends when the buffer of a closed client is empty; `receive` raises."""
    publish(bus, topic, *range(9))
    async with connect(replay=ALL, max_pending_count=3) as client:
        await client.subscribe(topic)
        await come_true(lambda: client.pending_count == 3)
    assert client.has_pending_messages
    assert [number(message) async for message in client] == [0, 1, 2]
    with pytest.raises(ClientClosedError):
        await client.receive()


async def test_buffered_messages_are_readable_after_a_lost_connection(
    own: Emulator, transport: str
) -> None:
    """After `connection_timeout` the buffered messages are read, then the timeout is raised."""
    topic = topic_of(own)
    publish(own, topic, 0)
    start: dict[str, Any] = {"replay": ALL, "transport": transport, "connection_timeout": 0.5}
    async with asyncio.timeout(60), Client(settings_of(own), **start) as client:
        await client.subscribe(topic)
        await come_true(lambda: client.has_pending_messages)
        own.stop()
        assert await numbers(client, 1) == [0]
        with pytest.raises(TransportTimeoutError, match="did not come back"):
            await client.receive()


async def test_several_channels_subscribed_and_unsubscribed_while_running(
    bus: Emulator, topic: str, connect: Connect
) -> None:
    """A second channel joins a running client, and leaves it again."""
    other = topic_of(bus)
    async with connect() as client:
        await subscribed(client, bus, topic)
        publish(bus, topic, 1)
        assert await numbers(client, 1) == [1]
        await subscribed(client, bus, other)
        assert client.subscriptions == {topic, other}
        publish(bus, other, 2)
        assert await numbers(client, 1) == [2]
        await client.unsubscribe(other)
        assert client.subscriptions == {topic}
        publish(bus, other, 3)
        publish(bus, topic, 4)
        assert await numbers(client, 1) == [4]


async def test_message_shape_is_the_same_on_both_transports(bus: Emulator, topic: str) -> None:
    """Platform and change events have equal messages but for replay ids; raw bytes on request.

    Change events of the Pub/Sub API have an event id and two lists of fields more.
    """
    changes = bus.define_object("Thing__c", {"Size__c": "Double", "Kind__c": "Text"})
    record = bus.create("Thing__c", {"Size__c": 1, "Kind__c": "Big"})
    bus.update(record, {"Size__c": 2, "Kind__c": None})
    publish(bus, topic, 7)
    for channel, events in ((topic, 1), (changes, 2)):
        found = []
        for transport in ("pubsub", "streaming"):
            start: dict[str, Any] = {"replay": ALL, "raw": True, "transport": transport}
            async with asyncio.timeout(60), Client(settings_of(bus), **start) as client:
                await client.subscribe(channel)
                messages = [await client.receive() for _ in range(events)]
            for message in messages:
                assert set(message) == {"channel", "data"}
                assert isinstance(message["data"].pop("raw"), bytes)
                assert message["data"]["event"].pop("replayId")
            found.append(messages)
        if channel == changes:
            headers = [one["data"]["payload"]["ChangeEventHeader"] for one in found[0]]
            assert [one.pop("nulledFields") for one in headers] == [[], ["Kind__c"]]
            assert [one.pop("diffFields") for one in headers] == [[], []]
            assert all(one["data"]["event"].pop("EventUuid") for one in found[0])
            assert headers[1]["changedFields"] == ["LastModifiedDate", "Size__c", "Kind__c"]
            assert found[0][1]["data"]["payload"]["Kind__c"] is None
        assert found[0] == found[1]


async def test_message_shape_of_a_push_topic(bus: Emulator) -> None:
    """A PushTopic's message has the record in `sobject`, without a choice of transport."""
    fields = {"Name": "Accounts", "Query": "SELECT Id, Name FROM Account", "ApiVersion": 64.0}
    assert Rest(bus).ask("POST", "/sobjects/PushTopic", fields).status == 201
    record = bus.create("Account", {"Name": "Acme"})
    async with asyncio.timeout(60), Client(settings_of(bus), replay=ALL) as client:
        await client.subscribe("/topic/Accounts")
        message = await client.receive()
    assert message["channel"] == "/topic/Accounts"
    assert message["data"]["sobject"] == {"Id": record, "Name": "Acme"}
    assert isinstance(message["data"]["event"]["replayId"], int)


async def test_a_lost_connection_reconnects_and_resubscribes_after_the_last_message(
    bus: Emulator, topic: str, connect: Connect, transport: str
) -> None:
    """`connection_timeout=None` has no limit; nothing is lost, and nothing comes twice."""
    assert connect().connection_timeout == 10
    async with connect(connection_timeout=None) as client:
        await subscribed(client, bus, topic)
        publish(bus, topic, 1)
        assert await numbers(client, 1) == [1]
        if transport == "pubsub":
            bus.away()
            publish(bus, topic, 2)
            bus.back()
        else:
            bus.fail_next("cometd", status="NOT_FOUND")
            publish(bus, topic, 2)
        await come_true(lambda: client.has_pending_messages)
        publish(bus, topic, 3)
        assert await numbers(client, 2) == [2, 3]
        assert client.subscriptions == {topic}


async def test_prefetch_is_bounded_by_max_pending_count(
    bus: Emulator, topic: str, connect: Connect
) -> None:
    """At most 100 messages wait by default; without a limit all of them do."""
    publish(bus, topic, *range(250))
    for most, waiting in ((100, 100), (None, 250)):
        client = connect(replay=ALL) if most else connect(replay=ALL, max_pending_count=most)
        assert client.max_pending_count == most
        async with client:
            await client.subscribe(topic)
            await come_true(lambda: client.pending_count >= waiting)  # noqa: B023
            assert client.pending_count == waiting
            assert await numbers(client, 250) == list(range(250))


async def test_json_dumps_and_json_loads(bus: Emulator, topic: str) -> None:
    """Messages of the Streaming API are written and read by the program's own functions."""
    written: list[Any] = []
    loaded: list[Any] = []

    def dumps(value: Any) -> str:
        written.append(value)
        return json.dumps(value)

    def loads(text: str) -> Any:
        found = json.loads(text, parse_float=str)
        loaded.append(found)
        return found

    publish(bus, topic, 1.5)
    own: dict[str, Any] = {"json_dumps": dumps, "json_loads": loads, "transport": "streaming"}
    async with asyncio.timeout(60), Client(settings_of(bus), replay=ALL, **own) as client:
        await client.subscribe(topic)
        assert await numbers(client, 1) == ["1.5"]
    assert [one["channel"] for one in written[:2]] == ["/meta/handshake", "/meta/subscribe"]
    assert [one["channel"] for one in loaded] == [topic]


async def test_publish_platform_events(bus: Emulator, topic: str, connect: Connect) -> None:
    """The fields of a platform event are published; its id comes with the message."""
    async with connect(replay=ALL) as client:
        await client.subscribe(topic)
        event_id = await client.publish(topic, {"Number__c": 7.0})
        async with asyncio.timeout(60):
            message = await client.receive()
        assert (number(message), message["data"]["event"]["EventUuid"]) == (7, event_id)


async def test_publish_generic_events(bus: Emulator) -> None:
    """Text is pushed to a generic channel; what a channel does not take is refused."""
    assert Rest(bus).ask("POST", "/sobjects/StreamingChannel", {"Name": "/u/Notices"}).body
    async with asyncio.timeout(60), Client(settings_of(bus), replay=ALL) as client:
        await client.subscribe("/u/Notices")
        assert await client.publish("/u/Notices", "Hi") == ""
        assert (await client.receive())["data"]["payload"] == "Hi"
        with pytest.raises(ServerError, match="/u/Nothing does not exist"):
            await client.publish("/u/Nothing", "Hi")
        with pytest.raises(ConfigurationError, match="takes no text"):
            await client.publish("/event/Order__e", "Hi")


async def test_errors_of_both_transports_have_one_hierarchy(connect: Connect) -> None:
    """A refused channel is a ServerError with the service's reason, over either transport."""
    async with connect() as client:
        with pytest.raises(ServerError) as refused:
            await client.subscribe("/event/Nothing__e")
        assert "Nothing__e" in refused.value.error_message
        assert not client.closed


async def test_a_proxy_is_on_the_way_to_the_login_and_to_the_service(transport: str) -> None:
    """The proxy of the settings, with its user, has a tunnel for each host."""
    with Emulator(tls=True, knobs=Knobs(cometd_time_scale=0.1)) as bus:
        topic = topic_of(bus)
        publish(bus, topic, 1)
        async with tunnels() as proxy:
            url = Secret(f"http://me:hush@127.0.0.1:{proxy.port}")
            login = settings_of(bus).login
            settings = Settings(login=login, endpoint=bus.endpoint, ca_file=bus.ca_file, proxy=url)
            async with Client(settings, replay=ALL, transport=transport) as client:
                await client.subscribe(topic)
                assert await numbers(client, 1) == [1]
        hosts = {head.split()[1] for head in proxy.heads}
        service = {bus.endpoint} if transport == "pubsub" else set()
        assert hosts == {bus.my_domain_url.removeprefix("https://")} | service
        assert all("Basic bWU6aHVzaA==" in head for head in proxy.heads)
        bus.check()


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
async def test_an_error_of_the_users_json_reader_ends_the_client(
    bus: Emulator, topic: str, connect: Connect, transport: str, kind: type[Exception]
) -> None:
    """`receive` raises it; only the Streaming API has messages in JSON."""

    def broken(_: str) -> Any:
        raise kind("mine")

    publish(bus, topic, 1)
    async with connect(replay=ALL, json_loads=broken) as client:
        await client.subscribe(topic)
        if transport == "pubsub":
            assert await numbers(client, 1) == [1]
            return
        async with asyncio.timeout(60):
            with pytest.raises(TransportTimeoutError, match=rf"unexpected error: {kind.__name__}"):
                await client.receive()
