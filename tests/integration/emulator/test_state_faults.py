"""Moved orgs, forgotten schemas and undecodable payloads, as clients see them."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from airflow_provider_sfevents.emulator import Emulator, EmulatorError, Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.integration.emulator.event_calls import published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Talk = Callable[..., Any]

QUICK = Knobs(half_close_seconds=0.01)
RECORD = "001000000000001AAA"


def test_ids_of_before_a_move_are_refused(talk: Talk) -> None:
    """A move ends streams, and the same events have other replay ids."""
    with Emulator(knobs=QUICK) as bus:
        topic, old = published(bus, 3)
        channel = bus.define_channel("/event/All__chn", [topic])

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic)
            before = await stream.take(3)
            bus.reset_replay_ids()
            ended = await client.refused(stream.read())
            custom = await client.subscribe(topic, preset=pb.CUSTOM, replay_id=old[2])
            refused = await client.refused(custom.read())
            again = await (await client.subscribe(topic)).take(3)
            on_channel = await (await client.subscribe(channel)).take(3)
            resumed = await client.subscribe(topic, preset=pb.CUSTOM, replay_id=again[1].replay_id)
            return before, ended, refused, again, on_channel, await resumed.take(1)

        before, ended, refused, again, on_channel, resumed = talk(bus, scenario)
        assert (ended.status, ended.code) == ("UNAVAILABLE", "")
        assert refused.code == "subscription.fetch.replayid.corrupted"
        assert [one.event for one in again] == [one.event for one in before]
        assert not {one.replay_id for one in again} & set(old)
        assert on_channel == again
        assert resumed == again[2:]


@pytest.mark.parametrize(("old_ids", "found"), [("behind", 4), ("ahead", 0)])
def test_old_ids_may_be_valid_again_elsewhere(talk: Talk, old_ids: Any, found: int) -> None:
    """Valid earlier ids repeat or skip events without an error."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01, keepalive_seconds=0.1)) as bus:
        topic, old = published(bus, 3)
        bus.reset_replay_ids(old_ids)
        bus.publish(topic, [{"Number__c": "new"}])

        async def scenario(client: Any) -> int:
            stream = await client.subscribe(topic, preset=pb.CUSTOM, replay_id=old[2])
            count = 0
            while events := (await stream.read()).events:
                count += len(events)
            return count

        assert talk(bus, scenario) == found


def test_a_move_is_remembered_by_the_folder(talk: Talk, tmp_path: Path) -> None:
    """After a restart the new ids are valid and the old ones are not."""
    with Emulator(folder=tmp_path, knobs=QUICK) as bus:
        topic, old = published(bus, 3)
        bus.reset_replay_ids()
        before = bus.events(topic)
    with Emulator(folder=tmp_path, knobs=QUICK) as bus:
        assert bus.events(topic) == before

        async def scenario(client: Any) -> Any:
            custom = await client.subscribe(topic, preset=pb.CUSTOM, replay_id=old[2])
            return (await client.refused(custom.read())).code

        assert talk(bus, scenario) == "subscription.fetch.replayid.corrupted"


@pytest.mark.parametrize("status", ["NOT_FOUND", "INVALID_ARGUMENT"])
@pytest.mark.parametrize("code", ["schema.meta.permission", ""])
def test_a_schema_is_forgotten(talk: Talk, status: Any, code: Any) -> None:
    """GetSchema refuses a forgotten schema by the knobs; publishing continues."""
    knobs = Knobs(unknown_schema=status, unknown_schema_code=code)
    with Emulator(knobs=knobs) as bus:
        topic, _ = published(bus, 1)
        schema_id = bus.schema_id("Order__e")
        bus.forget_schema(schema_id)
        bus.publish(topic, [{"Number__c": "more"}])

        async def scenario(client: Any) -> Any:
            return await client.refused(client.get_schema(schema_id))

        refused = talk(bus, scenario)
        assert (refused.status, refused.code) == (status, code)
        assert schema_id in refused.message
        assert len(bus.events(topic)) == 2


def test_poison_is_delivered_as_it_is(talk: Talk) -> None:
    """Undecodable payloads and unknown schema ids reach the client unchanged."""
    with Emulator(knobs=QUICK) as bus:
        topic, _ = published(bus, 1)
        accounts = bus.define_entity("Account", {"Phone": "Phone"})
        bus.change("Account", "CREATE", RECORD, {"Phone": "1"})
        bus.publish_raw(topic, b"\xff\xff")
        bus.publish_raw(topic, b"\x02?", "AAAAAAAAAAAAAAAAAAAAAA")

        async def scenario(client: Any) -> Any:
            [good] = await (await client.subscribe(accounts)).take(1)
            enum_at = good.event.payload.index(RECORD.encode()) + len(RECORD) + 1
            payload = bytearray(good.event.payload)
            payload[enum_at] = 2 * 40  # zigzag of 40; there are ten symbols
            bus.publish_raw("Account", bytes(payload))
            schema = await client.get_schema(good.event.schema_id)
            bad = (await (await client.subscribe(accounts)).take(2))[1]
            return schema.schema_json, bad, await (await client.subscribe(topic)).take(3)

        schema_json, bad, poison = talk(bus, scenario)
        parsed = fastavro.parse_schema(json.loads(schema_json))
        with pytest.raises(IndexError):
            fastavro.schemaless_reader(io.BytesIO(bad.event.payload), parsed, None)
        assert [event.event.payload for event in poison[1:]] == [b"\xff\xff", b"\x02?"]
        assert poison[2].event.schema_id == "AAAAAAAAAAAAAAAAAAAAAA"
        assert ["undecodable" in event for event in bus.events(topic)] == [False, True, True]
        assert "undecodable" in bus.events("Account")[1]


def test_mistakes_are_named() -> None:
    """An unknown schema or an impossible move is refused."""
    with Emulator() as bus:
        with pytest.raises(EmulatorError, match="'nope' was never in use here"):
            bus.forget_schema("nope")
        with pytest.raises(EmulatorError, match="'back' is not one of refused, behind, ahead"):
            bus.reset_replay_ids("back")  # type: ignore[arg-type]
