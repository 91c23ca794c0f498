"""Publishing records, and reading them back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken, Settings
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.publishing.event_encoder import UNKNOWN_USER
from airflow_provider_sfevents.pubsub.schema_cache import SchemaCache
from airflow_provider_sfevents.replay_point import EARLIEST

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from tests.integration.pubsub.conftest import ScriptedBus

pytestmark = pytest.mark.anyio
TOPIC = "/event/Order__e"


def client_of(bus: Emulator) -> PubSubClient:
    extra = bus.connection("session")["extra"]
    login = SessionToken(token=Secret(extra["session_token"]), instance_url=extra["instance_url"])
    settings = Settings(login=login, endpoint=bus.endpoint, plaintext=True)
    return PubSubClient(settings, sessions=SessionCache(), schemas=SchemaCache())


async def test_what_is_published_arrives() -> None:
    """The results of 450 records in three requests have a subscriber's ids, in order."""
    replay_ids: list[bytes] = []
    ids: list[str] = []

    async def receive(delivery: Delivery) -> None:
        replay_ids.extend(delivery.replay_ids)
        ids.extend(delivery.ids)

    with Emulator() as bus:
        bus.define_event("Order__e", {"City__c": "Text", "Placed__c": "DateTime"})
        async with client_of(bus) as client:
            records = [{"City__c": f"C{n}", "Placed__c": datetime.now(UTC)} for n in range(450)]
            results = await client.publish(TOPIC, records)
            await client.fetch(TOPIC, EARLIEST, Bounds(max_events=450), receive)
        bus.check()
        assert [call.rpc for call in bus.requests].count("Publish") == 3
    assert [result.replay_id for result in results] == replay_ids
    assert [result.event_id for result in results] == ids
    assert {result.error for result in results} == {""}


@pytest.mark.parametrize("told", [True, False])
async def test_events_name_the_user_of_a_session_token(
    told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """`CreatedById` is the user that the org names; without one, a warning says so."""
    with Emulator() as bus:
        bus.define_event("Order__e", {"City__c": "Text"})
        if not told:
            bus.fail_next("userinfo", status="PERMISSION_DENIED")
        async with client_of(bus) as client:
            await client.publish(TOPIC, [{"City__c": "a"}, {"CreatedById": "005000000000009AAA"}])
        users = [event["fields"]["CreatedById"] for event in bus.events(TOPIC)]
        assert users == [bus.org.user_id if told else UNKNOWN_USER, "005000000000009AAA"]
        bus.check()
    assert ("flows that run as the publisher do not start" in caplog.text) is not told


async def test_nothing_is_published_for_a_user_that_cannot_be_asked_for() -> None:
    """If the org is away when it is asked for the user, the call fails and may be tried again."""
    with Emulator() as bus:
        bus.define_event("Order__e", {"City__c": "Text"})
        bus.fail_next("userinfo", status="UNAVAILABLE")
        async with client_of(bus) as client:
            with pytest.raises(TransportError, match="userinfo answered HTTP 503"):
                await client.publish(TOPIC, [{"City__c": "a"}])
            assert bus.events(TOPIC) == []
            await client.publish(TOPIC, [{"City__c": "a"}])
        assert len(bus.events(TOPIC)) == 1


async def test_a_topic_nothing_can_be_published_to() -> None:
    """Publishing to change events is refused before anything is encoded."""
    with Emulator(sample=True) as bus:
        async with client_of(bus) as client:
            with pytest.raises(TopicError, match="/event/Name__e"):
                await client.publish("/data/AccountChangeEvent", [{"Name": "x"}])
        bus.check()


async def test_ids_of_ones_own(bus: ScriptedBus, client: PubSubClient) -> None:
    """Events published again under given ids are recognisable as repetitions."""
    results = await client.publish(TOPIC, [{"City__c": "a"}, {"City__c": "b"}], ids=["one", "two"])
    assert [result.event_id for result in results] == ["one", "two"]
    assert [event.id for event in bus.published[0].events] == ["one", "two"]
    with pytest.raises(ConfigurationError, match="1 ids for 2 events"):
        await client.publish(TOPIC, [{"City__c": "a"}, {"City__c": "b"}], ids=["one"])


async def test_nothing_is_sent_when_one_record_does_not_fit(
    bus: ScriptedBus, client: PubSubClient
) -> None:
    """No record is sent if one of them does not fit."""
    with pytest.raises(ConfigurationError, match=r"record 301: .Country__c. is no field"):
        await client.publish(TOPIC, [{"City__c": "a"}] * 300 + [{"Country__c": "b"}])
    assert bus.published == []


async def test_publishing_nothing(bus: ScriptedBus, client: PubSubClient) -> None:
    """No records make no request."""
    assert await client.publish(TOPIC, []) == []
    assert bus.published == []
